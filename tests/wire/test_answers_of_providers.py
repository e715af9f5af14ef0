"""Answers in forms that the simulator does not send: what real providers, and servers that speak like them, do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.records import Image, Opaque, RedactedThinking, Text, Thinking, ToolUse
from holdfast.records.request import validate
from holdfast.wire import DIALECTS
from holdfast.wire.answers import Answer

from .simulator_client import asking, going_on, read


def stream(*events: dict[str, Any], done: bool = False) -> bytes:
    frames = [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events]
    return b"".join(frames) + (b"data: [DONE]\n\n" if done else b"")


def again(dialect: str, answer: Answer) -> Any:
    """The next request's body."""
    request = going_on(asking(dialect), answer)
    assert not validate(request)
    return msgspec.json.decode(DIALECTS[dialect].encode(request))


# Anthropic


def anthropic(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Answer:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}})
    return read("anthropic", stream(*events, {"type": "message_stop"}))[0]


def tool(*pieces: str, name: str = "clock") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    block = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {}}
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


SAID = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hello."}])


def test_anthropic_redacted_thoughts_and_unknown_blocks_go_back() -> None:
    blocks = [{"type": "redacted_thinking", "data": "sealed"}, {"type": "novelty", "of": [1, 2]}]
    answer = anthropic(*((block, []) for block in blocks), SAID)
    assert answer.message.content[0] == RedactedThinking("sealed")
    assert again("anthropic", answer)["messages"][1]["content"] == [*blocks, {"type": "text", "text": "Hello."}]


def test_anthropic_citations_are_collected() -> None:
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    deltas = [{"type": "text_delta", "text": "As it says."}, {"type": "citations_delta", "citation": cited}]
    answer = anthropic(({"type": "text", "text": "", "citations": None}, deltas))
    block = {"type": "text", "text": "As it says.", "citations": [cited]}
    assert again("anthropic", answer)["messages"][1]["content"] == [block]


def test_anthropic_tools_of_the_provider_go_back_and_are_no_calls_of_ours() -> None:
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    answer = anthropic((use, [{"type": "input_json_delta", "partial_json": '{"query":"x"}'}]), (found, []), SAID)
    assert answer.stop == "end"
    assert again("anthropic", answer)["messages"][1]["content"][:2] == [use | {"input": {"query": "x"}}, found]


@pytest.mark.parametrize("pieces", [(), ("",), (" ",), ("{", "}")])
def test_anthropic_a_call_without_input_has_an_empty_object(pieces: tuple[str, ...]) -> None:
    answer = anthropic(tool(*pieces), stop="tool_use")
    assert answer.message.content == (ToolUse("toolu_clock", "clock", b"{}"),)


@pytest.mark.parametrize(
    ("piece", "input", "arguments"),
    [('{"zone": ', rb'"{\"zone\": "', '{"zone": '), ('["x"]', b'["x"]', ["x"]), ('"x"', b'"x"', "x")],
)
def test_anthropic_input_that_is_no_object_is_a_call_and_goes_back_as_one(
    piece: str, input: bytes, arguments: Any
) -> None:
    answer = anthropic(tool(piece), stop="tool_use")
    assert (answer.whole, answer.stop) == (True, "tools")
    assert answer.message.content == (ToolUse("toolu_clock", "clock", input),)
    assert again("anthropic", answer)["messages"][1]["content"][0]["input"] == {"arguments": arguments}


@pytest.mark.parametrize("pieces", [(), ('{"zone": ',)])
def test_anthropic_a_call_that_met_the_limit_is_dropped(pieces: tuple[str, ...]) -> None:
    answer = anthropic(SAID, tool(*pieces), stop="max_tokens")
    assert (answer.stop, answer.message.content) == ("length", (Text("Hello."),))


def test_anthropic_calls_before_the_limit_are_kept() -> None:
    answer = anthropic(tool('{"zone":"x"}'), tool('{"ci', name="get_weather"), stop="max_tokens")
    assert answer.message.content == (ToolUse("toolu_clock", "clock", b'{"zone":"x"}'),)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("pause_turn", "paused"), ("refusal", "refusal"), ("stop_sequence", "end"), ("something_new", "unknown")],
)
def test_anthropic_reasons_to_stop(reason: str, stop: str) -> None:
    assert anthropic(SAID, stop=reason).stop == stop


def test_anthropic_blank_texts_and_thoughts_that_lead_nowhere_are_left_out() -> None:
    blank = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "\n\n"}])
    thought = ({"type": "thinking", "thinking": "", "signature": ""}, [{"type": "signature_delta", "signature": "s"}])
    assert anthropic(thought, blank).message.content == ()
    assert anthropic(thought, blank, SAID).message.content == (Thinking("", "s"), Text("Hello."))


def test_what_is_nested_too_deeply_is_no_input_and_no_block() -> None:
    deep = '{"a":[' * 60 + "1" + "]}" * 60
    answer = anthropic(SAID, ({"type": "novelty", "of": msgspec.Raw(deep.encode())}, []), tool(deep))
    words, call = answer.message.content
    assert isinstance(words, Text)
    assert isinstance(call, ToolUse)
    assert msgspec.json.decode(call.input) == deep


@pytest.mark.parametrize("given", ['{"a":"' + "[{" * 500 + '\\\\\\""}', '{"a":[' + "[]," * 500 + "[]]}"])
def test_many_brackets_are_not_many_levels(given: str) -> None:
    (call,) = anthropic(tool(given), stop="tool_use").message.content
    assert isinstance(call, ToolUse)
    assert call.input == given.encode()


def test_chat_details_of_thoughts_that_are_nested_too_deeply_are_left_out() -> None:
    detail = msgspec.Raw(b'[{"type":"x","data":' + b"[" * 120 + b"]" * 120 + b"}]")
    answer = chat({"content": "Hello.", "reasoning_details": detail})
    assert [block.text for block in answer.message.content if isinstance(block, Text)] == ["Hello."]
    assert answer.message.extra == ()


def test_lone_surrogates_are_replaced() -> None:
    """JavaScript cuts texts in the middle of a character; no provider takes the halves back, and no file holds them."""
    raw = stream({"type": "message_start", "message": {}}).decode()
    raw += 'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"\\ud83d!"}}\n\n'
    raw += 'data: {"type":"content_block_stop","index":0}\n\ndata: {"type":"message_stop"}\n\n'
    answer, pieces = read("anthropic", raw.encode())
    assert answer.message.content == (Text("\ufffd!"),)
    assert pieces[0].text == "\ufffd!"


# Chat Completions


def chat(*deltas: dict[str, Any], finish: str = "stop", dialect: str = "openai_chat", id: str = "c1") -> Answer:
    events = [{"id": id, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {"id": id, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return read(dialect, stream(*events, last, done=True))[0]


def called(arguments: str | None, **members: Any) -> dict[str, Any]:
    function = {"name": "clock"} | ({} if arguments is None else {"arguments": arguments})
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function} | members]}


def test_openrouter_details_of_thoughts_are_joined_and_go_back_as_they_were() -> None:
    kind = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    answer = chat(
        {"role": "assistant", "content": "", "reasoning": "Let ", "reasoning_details": [kind | {"text": "Let "}]},
        {"reasoning": "me.", "reasoning_details": [kind | {"text": "me."}]},
        {"reasoning_details": [kind | {"signature": "sig"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "sealed"}]},
        called('{"a":1}'),
        dialect="openrouter",
    )
    message = again("openrouter", answer)["messages"][2]
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "sealed"}
    assert message["reasoning_details"] == [kind | {"text": "Let me.", "signature": "sig"}, sealed]
    assert "reasoning" not in message
    assert answer.stop == "tools"  # although it said "stop"


def test_a_thought_that_is_told_under_two_names_is_shown_once() -> None:
    delta = {"reasoning": "Hm.", "reasoning_content": "Hm."}
    raw = stream({"choices": [{"index": 0, "delta": delta}]})
    assert [(piece.kind, piece.text) for piece in read("openai_chat", raw)[1]] == [("thinking", "Hm.")]


@pytest.mark.parametrize("arguments", ["", "null", None, " "])
def test_chat_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    assert chat(called(arguments)).message.content == (ToolUse("call_1", "clock", b"{}"),)


def test_chat_arguments_that_are_no_json_go_back_as_they_came() -> None:
    answer = chat(called('{"zone": '), finish="tool_calls")
    assert answer.message.content == (ToolUse("call_1", "clock", rb'"{\"zone\": "'),)
    assert again("openai_chat", answer)["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"zone": '


def test_chat_a_call_that_met_the_limit_is_dropped() -> None:
    assert chat({"content": "Hello."}, called('{"zone": '), finish="length").message.content == (Text("Hello."),)


def test_chat_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    answer = chat(called('{"a":1}'), called('{"b":2}', id="call_2"))
    assert answer.message.content == (ToolUse("call_1", "clock", b'{"a":1}'), ToolUse("call_2", "clock", b'{"b":2}'))


def test_chat_calls_without_an_index_are_told_apart_too() -> None:
    first = {"id": "call_1", "function": {"name": "clock", "arguments": '{"a"'}}
    more = {"function": {"arguments": ":1}"}}
    other = {"id": "call_2", "function": {"name": "clock", "arguments": "{}"}}
    answer = chat({"tool_calls": [first]}, {"tool_calls": [more]}, {"tool_calls": [other]})
    assert answer.message.content == (ToolUse("call_1", "clock", b'{"a":1}'), ToolUse("call_2", "clock", b"{}"))


def test_chat_missing_and_doubled_ids_are_made_and_differ_between_answers() -> None:
    deltas = [called("{}", id="", index=0), called("{}", id=None, index=1)]
    ids = [
        block.id
        for origin in ("c1", "c2")
        for block in chat(*deltas, id=origin).message.content
        if isinstance(block, ToolUse)
    ]
    assert len(set(ids)) == 4
    assert all(0 < len(made) <= 40 for made in ids)  # OpenAI takes no longer ones
    assert chat(*deltas).message == chat(*deltas).message


def test_chat_members_of_a_call_that_others_add_go_back() -> None:
    signed = {"google": {"thought_signature": "s"}}
    answer = chat(called("{}", extra_content=signed))
    assert again("openai_chat", answer)["messages"][2]["tool_calls"][0]["extra_content"] == signed


def test_chat_a_call_of_an_unknown_kind_is_left_out() -> None:
    call = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select"}}
    assert chat({"content": "Hello."}, {"tool_calls": [call]}).message.content == (Text("Hello."),)


def test_chat_an_error_inside_the_stream_is_told() -> None:
    raw = stream({"id": "x", "error": {"code": 502, "message": "Provider gone."}, "choices": []}, done=True)
    answer, _ = read("openrouter", raw)
    assert (answer.whole, answer.error) == (False, "Provider gone.")


# Responses


def responses(*items: dict[str, Any], store: bool = False, **members: Any) -> Answer:
    done = [{"type": "response.output_item.done", "output_index": i, "item": item} for i, item in enumerate(items)]
    final = {"id": "resp_1", "object": "response", "status": "completed", "store": store, "output": [], **members}
    return read("openai_responses", stream(*done, {"type": "response.completed", "response": final}))[0]


THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"}
SAYS = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}


def test_responses_items_go_back_also_where_the_last_event_does_not_repeat_them() -> None:
    answer = responses(THOUGHT, SAYS, {**SAYS, "id": "msg_2"}, CALL)
    assert again("openai_responses", answer)["input"][1:5] == [THOUGHT, SAYS, {**SAYS, "id": "msg_2"}, CALL]


def test_responses_thoughts_that_nobody_keeps_are_left_out_and_ids_with_them() -> None:
    bare = {key: value for key, value in THOUGHT.items() if key != "encrypted_content"}
    answer = responses(bare, CALL)
    first = {key: value for key, value in CALL.items() if key != "id"}
    assert again("openai_responses", answer)["input"][1:2] == [first]
    stored = responses(bare, CALL, store=True)
    assert again("openai_responses", stored)["input"][1:3] == [bare, CALL]


def test_responses_a_thought_that_nothing_follows_is_left_out() -> None:
    assert responses(THOUGHT).message.content == ()


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", "length"), ("content_filter", "refusal"), (None, "length")]
)
def test_responses_reasons_to_stop(reason: str | None, stop: str) -> None:
    answer = responses(SAYS, status="incomplete", incomplete_details={"reason": reason})
    assert answer.stop == stop


def test_responses_a_call_that_met_the_limit_is_dropped() -> None:
    cut = CALL | {"arguments": '{"zo', "status": "incomplete"}
    answer = responses(SAYS, cut, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert [type(block) for block in answer.message.content] == [Text]


def test_responses_tools_of_the_provider_go_back_and_are_no_calls_of_ours() -> None:
    call = {"type": "tool_search_call", "id": "ts_1", "call_id": "call_s", "execution": "server", "arguments": {}}
    output = {"type": "tool_search_output", "id": "to_1", "call_id": "call_s", "tools": []}
    answer = responses(call, output, SAYS)
    assert again("openai_responses", answer)["input"][1:4] == [call, output, SAYS]


def test_responses_a_call_of_an_unknown_kind_is_left_out() -> None:
    call = {"type": "computer_call", "id": "cu_1", "call_id": "call_c", "action": {}}
    assert [type(block) for block in responses(SAYS, call).message.content] == [Text]


def test_responses_a_failure_is_told() -> None:
    failed = {"id": "r", "object": "response", "status": "failed", "error": {"code": "x", "message": "It broke."}}
    answer, _ = read("openai_responses", stream({"type": "response.failed", "response": failed}))
    assert (answer.whole, answer.error) == (False, "It broke.")


def test_responses_words_that_were_cut_off_are_kept_without_the_items_id() -> None:
    item = {**SAYS, "content": []}
    answer, _ = read(
        "openai_responses",
        stream(
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"},
        ),
    )
    assert answer.message.content == (Text("Hel"),)


# Gemini


def gemini(*parts: dict[str, Any], finish: str = "STOP", id: str | None = "g1", **members: Any) -> Answer:
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}}], "responseId": id} for part in parts
    ]
    chunks.append({"candidates": [{"finishReason": finish, **members}], "responseId": id})
    return read("gemini", stream(*chunks))[0]


def test_gemini_a_signature_stays_on_its_own_part() -> None:
    parts: list[dict[str, Any]] = [
        {"text": "Hel"},
        {"text": "lo."},
        {"text": "", "thoughtSignature": "s1"},
        {"text": ""},
        {"functionCall": {"name": "clock", "args": {}}, "thoughtSignature": "s2"},
    ]
    answer = gemini(*parts)
    assert again("gemini", answer)["contents"][1]["parts"] == [{"text": "Hello."}, parts[2], parts[4]]


@pytest.mark.parametrize("id", ["g1", None])
def test_gemini_calls_without_ids_get_some_that_are_not_sent(id: str | None) -> None:
    parts = [{"functionCall": {"name": "clock", "args": {}}}, {"functionCall": {"name": "clock", "args": {"z": 1}}}]
    answer = gemini(*parts, id=id)
    ids = [block.id for block in answer.message.content if isinstance(block, ToolUse)]
    assert len(set(ids)) == 2
    assert all(len(made) <= 40 for made in ids)
    contents = again("gemini", answer)["contents"]
    assert contents[1]["parts"] == parts
    assert [part["functionResponse"].keys() for part in contents[2]["parts"][:2]] == [{"name", "response"}] * 2


def test_gemini_made_ids_differ_from_turn_to_turn() -> None:
    part = {"functionCall": {"name": "clock", "args": {}}}
    ids = {getattr(gemini(part, id=origin).message.content[0], "id", "") for origin in ("g1", "g2")}
    assert len(ids) == 2


def test_gemini_ids_that_it_gives_are_sent_back() -> None:
    part = {"functionCall": {"id": "fc-7", "name": "clock", "args": {}}}
    contents = again("gemini", gemini(part))["contents"]
    assert contents[1]["parts"] == [part]
    assert contents[2]["parts"][0]["functionResponse"]["id"] == "fc-7"


@pytest.mark.parametrize(
    ("finish", "stop"), [("MAX_TOKENS", "length"), ("SAFETY", "refusal"), ("RECITATION", "refusal"), ("NEW", "unknown")]
)
def test_gemini_reasons_to_stop(finish: str, stop: str) -> None:
    assert gemini({"text": "x"}, finish=finish).stop == stop


def test_gemini_a_prompt_that_is_blocked_is_a_refusal() -> None:
    answer, _ = read("gemini", stream({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "g"}))
    assert (answer.whole, answer.stop, answer.message.content) == (True, "refusal", ())


def test_gemini_a_call_that_it_could_not_read_itself_is_an_error() -> None:
    answer = gemini(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed call: x(")
    assert (answer.whole, answer.error) == (False, "Malformed call: x( (MALFORMED_FUNCTION_CALL)")


def test_gemini_pictures_and_code_go_back() -> None:
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ]
    answer = gemini(*parts)
    assert [type(block) for block in answer.message.content] == [Opaque, Image]
    assert again("gemini", answer)["contents"][1]["parts"] == parts
