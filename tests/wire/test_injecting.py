"""Texts of ours in a client's body: where they come to stand in each dialect, and that nothing else is touched."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from holdfast.wire import DIALECTS, Body
from holdfast.wire.injection import Injected, continued_id, inject, last_words, newest_user_text, text_of
from tests import shapes

S, C, D = 'Prefers "small"\ncommits.', "The build uses make.", "Notes: é"
MODELS = {"anthropic": "claude-opus-5-5", "openrouter": "anthropic/claude-opus-5.5"}


def body_of(dialect: str, raw: bytes | dict[str, Any]) -> Body:
    if isinstance(raw, dict):
        raw = json.dumps({"model": MODELS.get(dialect, "gpt-6.1-sol")} | raw, ensure_ascii=True).encode()
    found = DIALECTS[dialect].parse(raw, model="gemini-2.5-pro" if dialect == "gemini" else "")
    assert isinstance(found, Body), found
    return found


def put(dialect: str, raw: dict[str, Any], *texts: str, joined: bool = False, **before: str) -> tuple[Any, Injected]:
    body = body_of(dialect, raw)
    stable, context = (*texts, "", "")[:2]
    made = inject(body, stable, context, {int(at[1:]): [text] for at, text in before.items()}, joined=joined)
    assert len(body_of(dialect, made.raw).blocks) == made.blocks
    return json.loads(made.raw), made


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


HI = [{"role": "user", "content": "hi"}]


class TestAnthropic:
    def test_e1_a_string_becomes_blocks(self) -> None:
        found, made = put("anthropic", {"system": "Host é", "messages": HI}, S, C)
        assert found["system"] == [text("Host é"), text(S), text(C)]
        assert (made.ours, made.stable, made.context) == ((1, 2), 1, 2)
        assert b"Host \\u00e9" in made.raw  # as the client spelt it

    def test_a_list_goes_on(self) -> None:
        host = text("Host") | {"cache_control": {"type": "ephemeral"}}
        found, made = put("anthropic", {"tools": [{"name": "t"}], "system": [host], "messages": HI}, S)
        assert found["system"] == [host, text(S)]
        assert (made.ours, made.stable, made.context) == ((2,), 2, None)

    @pytest.mark.parametrize("given", [{}, {"system": None}, {"system": []}, {"system": ""}])
    def test_none_at_all_is_set(self, given: dict[str, Any]) -> None:
        found, made = put("anthropic", {**given, "messages": HI}, S, C)
        assert found["system"] == [text(S), text(C)]
        assert (made.stable, made.context) == (0, 1)

    def test_e15_caching_off_gives_one_string(self) -> None:
        assert put("anthropic", {"system": "Host", "messages": HI}, S, C, joined=True)[0]["system"] == (
            f"Host\n\n{S}\n\n{C}"
        )
        assert put("anthropic", {"system": "Host", "messages": HI}, S, joined=True)[0]["system"] == f"Host\n\n{S}"
        assert put("anthropic", {"messages": HI}, S, C, joined=True)[0]["system"] == f"{S}\n\n{C}"

    def test_in_front_of_what_was_said(self) -> None:
        results = [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}, text("go on")]
        raw = {"messages": [*HI, {"role": "assistant", "content": "x"}, {"role": "user", "content": results}]}
        found, made = put("anthropic", raw, b3=D, b0=C)
        assert found["messages"][0]["content"] == [text(C), text("hi")]
        assert found["messages"][2]["content"] == [results[0], text(D), text("go on")]
        assert made.ours == (0, 4)

    def test_what_is_no_system_text_takes_none(self) -> None:
        assert inject(body_of("gemini", {"cachedContent": "x", "contents": []}), S) is None
        assert inject(body_of("openai_responses", {"prompt": {"id": "p"}, "input": "hi"}), S) is None


class TestOpenAI:
    def test_e20_chat_one_string(self) -> None:
        raw = {"messages": [{"role": "system", "content": "Host"}, *HI]}
        found, made = put("openai_chat", raw, S, C)
        assert found["messages"][0] == {"role": "system", "content": f"Host\n\n{S}\n\n{C}"}
        assert (made.ours, made.stable) == ((0,), None)

    def test_e21_chat_without_a_system_message(self) -> None:
        found, made = put("openai_chat", {"tools": [{"type": "function"}], "messages": HI}, S, C, b1=D)
        assert found["messages"][0] == {"role": "system", "content": f"{S}\n\n{C}"}
        assert found["messages"][1]["content"] == [text(D), text("hi")]
        assert made.ours == (0, 2)

    def test_chat_behind_the_last_of_the_leading_messages(self) -> None:
        leading = [{"role": "system", "content": "a"}, {"role": "developer", "content": [text("b")]}]
        found, _ = put("openai_chat", {"messages": [*leading, *HI]}, S, C)
        assert found["messages"][0]["content"] == "a"
        assert found["messages"][1]["content"] == [text("b"), text(S), text(C)]

    def test_openrouter_has_blocks_where_its_route_takes_markers(self) -> None:
        raw = {"messages": [{"role": "system", "content": "Host"}, *HI]}
        found, made = put("openrouter", raw, S, C)
        assert found["messages"][0]["content"] == [text("Host"), text(S), text(C)]
        assert (made.stable, made.context) == (1, 2)
        found, _ = put("openrouter", raw | {"model": "openai/gpt-6.1"}, S, C)
        assert found["messages"][0]["content"] == f"Host\n\n{S}\n\n{C}"
        found, made = put("openrouter", {"messages": HI}, S)
        assert (found["messages"][0]["content"], made.stable) == ([text(S)], 0)

    def test_e20_responses(self) -> None:
        found, made = put("openai_responses", {"instructions": "Host", "input": "hi"}, S, C)
        assert (found["instructions"], made.ours) == (f"Host\n\n{S}\n\n{C}", (0,))

    @pytest.mark.parametrize("given", [{}, {"instructions": None}, {"instructions": ""}])
    def test_e21_responses_without_instructions(self, given: dict[str, Any]) -> None:
        found, made = put("openai_responses", {**given, "input": "hi"}, S)
        assert (found["instructions"], made.ours) == (S, (0,))

    def test_responses_in_front_of_what_was_said(self) -> None:
        found, _ = put("openai_responses", {"input": "hi"}, b0=D)
        parts = [{"type": "input_text", "text": D}, {"type": "input_text", "text": "hi"}]
        assert found["input"] == [{"type": "message", "role": "user", "content": parts}]
        found, _ = put("openai_responses", {"input": HI}, b0=D)
        assert found["input"] == [{"role": "user", "content": parts}]


class TestGemini:
    SAID: ClassVar[dict[str, Any]] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}

    @pytest.mark.parametrize("name", ["systemInstruction", "system_instruction"])
    def test_further_parts(self, name: str) -> None:
        found, made = put("gemini", {name: {"parts": [{"text": "Host"}]}, **self.SAID}, S, C, b1=D)
        assert found[name]["parts"] == [{"text": "Host"}, {"text": S}, {"text": C}]
        assert found["contents"][0]["parts"] == [{"text": D}, {"text": "hi"}]
        assert made.ours == (1, 2, 3)

    @pytest.mark.parametrize("given", [{}, {"systemInstruction": {}}, {"systemInstruction": {"parts": []}}])
    def test_none_at_all_is_set(self, given: dict[str, Any]) -> None:
        found, made = put("gemini", {**given, **self.SAID}, S)
        assert (found["systemInstruction"], made.ours) == ({"parts": [{"text": S}]}, (0,))


def _anthropic_results(ids: tuple[str, ...]) -> list[Any]:
    results = [{"type": "tool_result", "tool_use_id": id_, "content": "ok"} for id_ in ids]
    return [{"role": "user", "content": results}] if ids else []


def _gemini_results(ids: tuple[str, ...]) -> list[Any]:
    results = [{"functionResponse": {"name": "t", "response": {"id": id_}}} for id_ in ids]
    return [{"role": "user", "parts": results}] if ids else []


def _spoken(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


CALLS: dict[str, tuple[Any, Any, Any]] = {
    "anthropic": (
        lambda *ids: [
            {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "t", "input": {}} for i in ids]}
        ],
        _anthropic_results,
        _spoken,
    ),
    "openai_chat": (
        lambda *ids: [{"role": "assistant", "tool_calls": [{"id": i, "type": "function"} for i in ids]}],
        lambda ids: [{"role": "tool", "tool_call_id": i, "content": [text("a"), text("b")]} for i in ids],
        _spoken,
    ),
    "openai_responses": (
        lambda *ids: [{"type": "function_call", "call_id": i, "name": "t", "arguments": "{}"} for i in ids],
        lambda ids: [{"type": "function_call_output", "call_id": i, "output": "ok"} for i in ids],
        _spoken,
    ),
    "gemini": (
        lambda *ids: [{"role": "model", "parts": [{"functionCall": {"name": "t", "args": {"id": i}}} for i in ids]}],
        _gemini_results,
        lambda words: {"role": "user", "parts": [{"text": words}]},
    ),
}
"""How each dialect says that tools are called, what they gave, and what a user says."""


class TestSaid:
    def test_the_newest_words_behind_results_and_in_front_of_notes(self) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}, text("a"), text("<note>x</note>")]
        messages = [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]}]
        body = body_of("anthropic", {"messages": [*messages, {"role": "user", "content": blocks}]})
        found = newest_user_text(body)
        assert (found.block, found.words) == (2, "a")

    def test_a_note_of_the_clients_behind_it_does_not_hide_it(self) -> None:
        body = body_of("anthropic", {"messages": [*HI, {"role": "system", "content": "be brief"}]})
        found = newest_user_text(body)
        assert (found.block, found.words) == (0, "hi")

    @pytest.mark.parametrize(
        "messages",
        [
            [*HI, {"role": "assistant", "content": "so"}],
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}]}],
            [{"role": "user", "content": [{"type": "image", "source": {}}]}],
            [{"role": "user", "content": " \n"}],
            [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]}, *HI],
            [],
        ],
        ids=["answered", "result", "picture", "blank", "unanswered call", "nothing"],
    )
    def test_a_request_that_does_not_end_with_words_of_the_user(self, messages: list[Any]) -> None:
        assert newest_user_text(body_of("anthropic", {"messages": messages})) is None

    def test_a_picture_behind_the_words_does_not_hide_them(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        found = newest_user_text(
            body_of("openai_chat", {"messages": [{"role": "user", "content": [text("look"), picture]}]})
        )
        assert (found.block, found.words) == (0, "look")

    @pytest.mark.parametrize("dialect", CALLS)
    @pytest.mark.parametrize("answered", [("1", "2"), ("1",), ("2",), ()], ids=["both", "first", "second", "none"])
    def test_no_call_may_wait_for_its_answer(self, dialect: str, answered: tuple[str, ...]) -> None:
        """Also of calls that were made together, and with words of the user's in between."""
        call, result, spoken = CALLS[dialect]
        for words_before in ((), (spoken("wait"),)):
            said_before = [spoken("go"), *call("1", "2"), *result(answered), *words_before, spoken("hi")]
            name = {"openai_responses": "input", "gemini": "contents"}.get(dialect, "messages")
            found = newest_user_text(body_of(dialect, {name: said_before}))
            assert (None if found is None else found.words) == ("hi" if len(answered) == 2 else None)

    def test_what_a_provider_ran_itself_is_answered(self) -> None:
        call = {"type": "mcp_tool_use", "id": "1", "name": "t", "server_name": "s", "input": {}}
        ran = [call, {"type": "mcp_tool_result", "tool_use_id": "1", "content": []}, text("so")]
        assert (
            newest_user_text(body_of("anthropic", {"messages": [*HI, {"role": "assistant", "content": ran}, *HI]}))
            is not None
        )

    def test_words_wherever_they_stand(self) -> None:
        result = {"role": "tool", "tool_call_id": "1", "content": "ok"}
        assert (
            last_words(body_of("openai_chat", {"messages": [*HI, {"role": "assistant", "content": "x"}, result]}))
            == "hi"
        )


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", [s for s in shapes.load() if s.body and s.dialect], ids=lambda shape: shape.id)
def test_recorded_bodies_keep_every_other_byte(shape: shapes.Shape) -> None:
    """What is put in is all that is added: taken out again, the client's own values are left, in their order."""
    assert shape.dialect is not None
    assert shape.body is not None
    dialect = DIALECTS[shape.dialect]
    model = "gemini-2.5-pro" if shape.dialect == "gemini" else ""
    body = dialect.parse(shape.body, model=model)
    assert isinstance(body, Body)
    spoken = newest_user_text(body)
    made = inject(body, S, C, {} if spoken is None else {spoken.block: [D]})
    after = dialect.parse(made.raw, model=model)
    assert len(after.blocks) == made.blocks
    theirs = [i for i in range(len(after.blocks)) if i not in made.ours]
    own = [dialect.content(after, i) for i in theirs]
    before = [dialect.content(body, i) for i in range(len(body.blocks))]
    altered = next((i for i, each in enumerate(before) if each not in own), None)
    if altered is not None:  # one system text, to which both were appended
        host = text_of(body, altered)
        assert f"{host}\n\n{S}\n\n{C}" in [text_of(after, i) for i in made.ours]
        del before[altered]
    assert own == before
    assert after.members.keys() - body.members.keys() <= {"system", "instructions", "systemInstruction"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ""),
        ({"previous_response_id": None, "conversation": None}, ""),
        ({"previous_response_id": "resp_1"}, "resp_1"),
        ({"conversation": "conv_1"}, "conv_1"),
        ({"conversation": {"id": "conv_1"}}, "conv_1"),
        ({"conversation": {}, "previous_response_id": 7}, ""),
    ],
)
def test_what_a_request_goes_on_from(given: dict[str, Any], wanted: str) -> None:
    assert continued_id(body_of("openai_responses", {**given, "input": "hi"})) == wanted
    assert continued_id(body_of("openai_chat", {**given, "messages": HI})) == ""


def test_an_empty_conversation_has_no_place() -> None:
    assert inject(body_of("openai_chat", {"tools": [{"type": "function"}], "messages": []}), S) is None
