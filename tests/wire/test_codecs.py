"""Canonical values through each dialect: what is said arrives, in its own dialect and in another."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import facts
from holdfast.records import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Request,
    Text,
    Thinking,
    ToolDefinition,
    ToolResult,
    ToolUse,
    validate,
)
from holdfast.wire import DIALECTS, Body
from tests.properties.bodies import MODELS
from tests.wire.marked_bodies import marked

LAX = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROVIDERS = {dialect: ref.partition(":")[0] for dialect, ref in MODELS.items()}
TEXTS = st.text(min_size=1, max_size=20) | st.sampled_from(["half \ud83d", '{"a":1}', "é😀", '"', "\\", "\n"])
INPUTS = st.sampled_from([b"{}", b'{"path":"a.py"}', b'{"n":1E5,"b":{"c":[1,2.0]}}', '{"é":"ü"}'.encode()])
PNG = Image("image/png", "aGVsbG8=")
PDF = Document("application/pdf", "aGVsbG8=")


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Valid conversations of texts, pictures, parallel tool calls and their results, as tool or user messages."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(0, 4))):
        content: list[Block] = [Text(draw(TEXTS))]
        if draw(st.booleans()):
            content.append(PNG)
        messages.append(Message("user", tuple(content)))
        calls = [ToolUse(f"call_{turn}_{i}", "bash", draw(INPUTS)) for i in range(draw(st.integers(0, 2)))]
        said: list[Block] = [Text(draw(TEXTS))] if draw(st.booleans()) or not calls else []
        messages.append(Message("assistant", (*said, *calls)))
        results = [ToolResult(call.id, (Text(draw(TEXTS)),)) for call in calls]
        if results and draw(st.booleans()):
            messages.append(Message("user", tuple(results)))
        else:
            messages += [Message("tool", (result,)) for result in results]
    messages.append(Message("user", (Text(draw(TEXTS)),)))
    return tuple(messages)


@st.composite
def requests(draw: st.DrawFn, provider: str) -> Request:
    tools = [ToolDefinition(f"t{i}", draw(st.none() | TEXTS), draw(INPUTS)) for i in range(draw(st.integers(0, 2)))]
    return Request(
        model=f"{provider}:some-model",
        tools=tuple(tools),
        system_prompt=draw(st.none() | TEXTS),
        system_prompt_volatile=draw(st.none() | TEXTS),
        messages=draw(conversations()),
        output_limit=draw(st.none() | st.integers(1, 10**6)),
    )


def received(dialect: str, request: Request) -> Request:
    raw = DIALECTS[dialect].encode(request)
    body = DIALECTS[dialect].parse(raw, model=request.model.partition(":")[2])
    assert isinstance(body, Body), (body.reason, raw)
    return DIALECTS[dialect].decode(body)


def said(request: Request) -> list[tuple[str, Any]]:
    """Everything a conversation says in order, whatever messages it is cut into."""
    out: list[tuple[str, Any]] = []
    for message in request.messages:
        for block in message.content:
            side = "assistant" if message.role == "assistant" else "user"
            match block:
                case ToolResult(tool_use_id=call, content=content):
                    out.append(("result", (call, [b.text for b in content if isinstance(b, Text)])))
                case ToolUse(id=call, name=name, input=input):
                    out.append(("call", (call, name, json.loads(input))))
                case Text(text=text):
                    out.append((side, text))
                case Image(media_type=media, data=data, url=url) | Document(media_type=media, data=data, url=url):
                    out.append((side, (media, data, url)))
    return out


def system_text(request: Request) -> str:
    segments = (request.system_prompt, request.system_prompt_volatile)
    return "\n\n".join(s if isinstance(s, str) else "\n\n".join(b.text for b in s) for s in segments if s)  # type: ignore[union-attr]


@pytest.mark.parametrize("dialect", DIALECTS)
@LAX
@given(data=st.data())
def test_what_is_said_arrives(dialect: str, data: st.DataObject) -> None:
    request = data.draw(requests(PROVIDERS[dialect]))
    got = received(dialect, request)
    assert said(got) == said(request)
    assert system_text(got) == system_text(request)
    assert got.tools == request.tools
    assert (got.model, got.output_limit) == (request.model, request.output_limit)
    assert validate(got) == ()


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_conversation_moves_between_dialects(source: str, target: str, data: st.DataObject) -> None:
    """What one provider's client sent can go on at another provider: same words, same calls, still valid."""
    request = received(source, data.draw(requests(PROVIDERS[source])))
    moved = received(target, request)
    assert said(moved) == said(request)
    assert system_text(moved) == system_text(request)
    assert validate(moved) == ()


@pytest.mark.parametrize("dialect", DIALECTS)
@LAX
@given(data=st.data())
def test_decoding_is_stable(dialect: str, data: st.DataObject) -> None:
    once = received(dialect, data.draw(requests(PROVIDERS[dialect])))
    assert received(dialect, once) == once


def body(dialect: str, raw: dict[str, Any]) -> Request:
    parsed = DIALECTS[dialect].parse(json.dumps(raw).encode(), model="m")
    return DIALECTS[dialect].decode(parsed)


def blocks(dialect: str, raw: dict[str, Any]) -> tuple[Block, ...]:
    return tuple(block for message in body(dialect, raw).messages for block in message.content)


def anthropic(role: str, *content: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(content)}]}


def again(dialect: str, raw: dict[str, Any]) -> Any:
    """What becomes of a body that is decoded and encoded again."""
    return json.loads(DIALECTS[dialect].encode(body(dialect, raw)))


CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}
FREE_CALL = {"id": "d", "type": "custom", "custom": {"name": "n", "input": "free"}}
UNKNOWN_PICTURE = {"type": "input_image", "file_id": "f"}


def said_in_chat(*calls: Any, content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def item(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts], **more}


AS_THEY_WERE: list[tuple[str, dict[str, Any]]] = [
    *(
        ("openai_chat", {"messages": [{"role": "user", "content": "go"}, message]})
        for message in (
            {"role": "function", "name": "n", "content": "the old way to answer"},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}, {"type": "new", "x": 1}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
            said_in_chat(FREE_CALL, CHAT_CALL),
            said_in_chat({**CHAT_CALL, "type": "new"}),
            said_in_chat({**CHAT_CALL, "function": {"name": "n", "arguments": {"an": "object"}}}),
            said_in_chat({**CHAT_CALL, "function": {"name": "n", "arguments": '"a JSON string"'}}),
            said_in_chat({**CHAT_CALL, "function": {"name": "n", "arguments": "7"}}),
        )
    ),
    *(
        ("openai_responses", {"input": items})
        for items in (
            [item("assistant", "one"), item("assistant", "two")],
            [item("assistant", "one", id="m1"), item("assistant", "two")],
            [item("user") | {"content": [UNKNOWN_PICTURE], "id": "m1"}],
            [item("assistant", "", id="m1"), item("assistant") | {"content": [UNKNOWN_PICTURE]}],
            [item("assistant", "one"), item("assistant") | {"content": [UNKNOWN_PICTURE]}, item("assistant", "")],
            [item("user", id="m1")],
            [item("critic", "no")],
            [{"type": "function_call", "call_id": "c", "name": "n", "arguments": {"an": "object"}}],
            [{"type": "function_call_output", "call_id": "c", "output": ""}],
        )
    ),
    *(
        ("gemini", {"contents": [{"role": "model", "parts": [part]}], "tools": [{"googleSearch": {}}]})
        for part in (
            {"text": "hm", "thought": True, "thoughtSignature": "s"},
            {"text": "a", "thought": True, "thoughtSignature": 5},
            {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "files/1"}},
            {"inlineData": {"mimeType": "image/png", "data": "x", "displayName": "n"}},
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"functionCall": {"id": "f1", "name": "sh", "args": {}}, "thoughtSignature": "s"},
            {"functionCall": {"name": "sh", "args": {}, "partial": True}},
            {"functionCall": {"name": "f", "args": ["no object"]}},
            {"functionResponse": {"id": "f1", "name": "sh", "response": {"rows": [1, 2]}}},
            {"functionResponse": {"name": "f", "response": {"": "x"}}},
        )
    ),
    (
        "gemini",
        {"contents": [{"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"": "x"}}}]}]},
    ),
    (
        "gemini",
        {
            "contents": [
                {"role": "function", "parts": [{"text": "b"}]},
                {"role": "system", "parts": [{"text": "a"}], "more": 1},
            ],
            "cachedContent": "c",
        },
    ),
    ("gemini", {"contents": [], "generationConfig": "no object"}),
    ("gemini", {"contents": [], "generationConfig": {"maxOutputTokens": "many"}}),
    ("gemini", {"contents": [], "systemInstruction": {"parts": [{"text": "a"}]}, "system_instruction": {"parts": []}}),
    *(
        ("gemini", {"contents": [], "tools": [{"functionDeclarations": functions}]})
        for functions in (
            [{"description": "no name"}],
            [{"name": "f", "description": 5}],
            [
                {"name": "a", "parameters": {"type": "OBJECT"}},
                {"name": "b", "parametersJsonSchema": {"type": "object"}},
            ],
        )
    ),
    ("openai_chat", {"tools": [{"type": "function", "function": {"name": "n", "description": 5, "parameters": {}}}]}),
    ("openai_chat", {"tools": [{"type": "new", "function": {"name": "n", "parameters": {}}}]}),
    ("openai_responses", {"tools": [{"type": "function", "name": "n", "description": 5, "parameters": {}}]}),
    ("anthropic", {"tools": [{"name": "n", "description": 5, "input_schema": {}}]}),
    ("anthropic", anthropic("assistant", {"type": "thinking", "thinking": "a", "signature": 5})),
    *(
        (dialect, {name: limit})
        for dialect, name in {
            "anthropic": "max_tokens",
            "openai_chat": "max_completion_tokens",
            "openai_responses": "max_output_tokens",
        }.items()
        for limit in (None, "many", [1])
    ),
]


@pytest.mark.parametrize(("dialect", "raw"), AS_THEY_WERE)
def test_what_is_odd_comes_back_as_it_was(dialect: str, raw: dict[str, Any]) -> None:
    sent = again(dialect, raw)
    assert {name: sent[name] for name in raw} == raw
    assert body(dialect, raw).output_limit is None


@pytest.mark.parametrize(
    ("raw", "block"),
    [
        ({"type": "text", "text": "a", "citations": [1]}, Text("a", (("citations", b"[1]"),))),
        ({"type": "thinking", "thinking": "a", "signature": "s"}, Thinking("a", "s")),
        ({"type": "redacted_thinking", "data": "x"}, RedactedThinking("x")),
        ({"type": "image", "source": {"type": "url", "url": "u"}}, Image(url="u")),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}, PNG),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "t"},
            Document("text/plain", "hi", extra=(("title", b'"t"'),)),
        ),
        (
            {"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": True},
            ToolResult("t", (Text("x"),), is_error=True),
        ),
        ({"type": "tool_result", "tool_use_id": "t"}, ToolResult("t")),
    ],
)
def test_anthropic_blocks(raw: dict[str, Any], block: Block) -> None:
    assert blocks("anthropic", anthropic("user", raw)) == (block,)
    request = body("anthropic", anthropic("user", raw))
    assert received("anthropic", request) == request


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "text", "text": 5},
        {"type": "tool_use", "id": "t"},
        {"type": "tool_use", "id": "t", "name": "bash", "input": []},
        {"type": "tool_result", "tool_use_id": "t", "content": 5},
        {"type": "tool_result", "tool_use_id": "t", "is_error": "yes"},
        {"no": "type"},
    ],
)
def test_anthropic_blocks_of_unknown_shape_stay_opaque(raw: dict[str, Any]) -> None:
    request = body("anthropic", anthropic("user", raw))
    (block,) = request.messages[0].content
    assert isinstance(block, Opaque)
    assert json.loads(block.raw) == raw
    assert json.loads(DIALECTS["anthropic"].encode(request))["messages"][0]["content"] == [raw]
    assert json.loads(DIALECTS["openai_chat"].encode(request))["messages"][0]["content"] in ("", [])


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_what_only_one_dialect_understands_stays_there(dialect: str) -> None:
    raw = anthropic("assistant", {"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "a"})
    request = body(
        "anthropic", {**raw, "metadata": {"user_id": "u"}, "tools": [{"type": "web_search_20250305", "name": "w"}]}
    )
    other = DIALECTS[dialect].encode(request)
    assert b"signature" not in other
    assert b"user_id" not in other
    assert b"web_search" not in other
    assert b'"a"' in other


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "gemini"])
@pytest.mark.parametrize("response", [{"output": "text"}, {"rows": [1, 2]}, {"a": 1, "b": "c"}])
def test_structured_results_reach_other_dialects_as_text(dialect: str, response: dict[str, Any]) -> None:
    contents = [
        {"role": "model", "parts": [{"functionCall": {"name": "sh", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "sh", "response": response}}]},
    ]
    request = body("gemini", {"contents": contents})
    assert json.loads(DIALECTS["gemini"].encode(request))["contents"] == contents
    (result,) = [b for m in received(dialect, request).messages for b in m.content if isinstance(b, ToolResult)]
    (text,) = result.content
    assert isinstance(text, Text)
    assert text.text == "text" or json.loads(text.text) == response


def test_what_moves_to_anthropic_is_what_anthropic_accepts() -> None:
    messages = [
        {"role": "user", "content": "go"},
        said_in_chat({"id": "c", "type": "function", "function": {"name": "n", "arguments": "{broken"}}, content=""),
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "assistant", "content": None},
    ]
    request = msgspec.structs.replace(body("openai_chat", {"messages": messages}), model="anthropic:claude-haiku-4-5")
    sent = json.loads(DIALECTS["anthropic"].encode(request))
    assert sent["max_tokens"] == facts.model("anthropic:claude-haiku-4-5").output_limit
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][1]["content"] == [
        {"type": "tool_use", "id": "c", "name": "n", "input": {"arguments": "{broken"}}
    ]


def test_foreign_thoughts_do_not_travel() -> None:
    raw = {"contents": [{"role": "model", "parts": [{"text": "hm", "thought": True, "thoughtSignature": "s"}]}]}
    assert json.loads(DIALECTS["anthropic"].encode(body("gemini", raw)))["messages"] == []
    own = Request(model="anthropic:x", messages=(Message("assistant", (Thinking("hm", "s"), Text("a"))),))
    assert b'"signature":"s"' in DIALECTS["anthropic"].encode(own)


def test_a_picture_with_a_detail_travels() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    request = body("openai_chat", {"messages": [{"role": "user", "content": [part]}]})
    (message,) = json.loads(DIALECTS["anthropic"].encode(request))["messages"]
    assert message["content"] == [{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}]


def test_parallel_results_move_to_gemini_in_one_content() -> None:
    calls = (ToolUse("a", "sh", b"{}"), ToolUse("b", "sh", b"{}"))
    results = [Message("tool", (ToolResult(call.id, (Text(call.id),)),)) for call in calls]
    sent = json.loads(
        DIALECTS["gemini"].encode(Request(model="gemini:m", messages=(Message("assistant", calls), *results)))
    )
    assert [len(content["parts"]) for content in sent["contents"]] == [2, 2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_documents_arrive_in_some_form(dialect: str) -> None:
    files: tuple[Block, ...] = (PDF, Document("text/plain", "notes"), Document(url="https://example.org/a.pdf"))
    raw = DIALECTS[dialect].encode(Request(model="x:m", messages=(Message("user", files),)))
    assert json.loads(raw)
    assert b"notes" in raw
    assert b"https://example.org/a.pdf" in raw
    assert b"aGVsbG8=" in raw
    assert b'"file_data":"https' not in raw


def test_a_custom_call_and_its_answer_are_a_pair() -> None:
    raw = {"messages": [said_in_chat(FREE_CALL), {"role": "tool", "tool_call_id": "d", "content": "ok"}]}
    assert validate(body("openai_chat", raw)) == ()
    assert again("openai_chat", raw)["messages"] == raw["messages"]


def test_null_members_of_a_result_are_none() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": None, "is_error": None}
    assert blocks("anthropic", anthropic("user", result)) == (ToolResult("t"),)


def test_a_deep_body_is_decoded_whole_or_not_at_all() -> None:
    """The depth a body may have depends on where we are called; what was read once is never silently lost."""
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    content = [{"type": "tool_use", "id": "t", "name": "n", "input": {"deep": deep}}]
    raw = json.dumps({"model": "m", "messages": [{"role": "assistant", "content": content}]}).encode()
    parsed = DIALECTS["anthropic"].parse(raw)
    assert isinstance(parsed, Body)

    def deeper(frames: int) -> int:
        return len(DIALECTS["anthropic"].decode(parsed).messages) if frames == 0 else deeper(frames - 1)

    assert deeper(700) == 1


@pytest.mark.parametrize(
    "tools", [[None], [{}], [{"type": "web_search_20250305", "name": "w", "cache_control": {"type": "ephemeral"}}]]
)
def test_odd_tools_are_marked_legally_or_not_at_all(tools: list[Any]) -> None:
    request = body("anthropic", {"tools": tools, "messages": [], "system": ""})
    sent = json.loads(marked(request, "1h"))
    assert "system" not in sent
    assert json.dumps(sent).count("cache_control") == (1 if tools[0] else 0)


def test_a_schema_that_speaks_of_deferral_is_no_deferred_tool() -> None:
    schema = b'{"default":{"defer_loading":true}}'
    tools = (ToolDefinition("a"), ToolDefinition("b", input_schema=schema))
    assert "cache_control" in json.loads(marked(Request(model="a:m", tools=tools)))["tools"][1]


def test_chat_arguments_that_are_not_json_are_kept() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{broken"}}
    raw = {"messages": [said_in_chat(call)]}
    assert blocks("openai_chat", raw) == (ToolUse("c", "n", b'"{broken"'),)
    assert again("openai_chat", raw)["messages"] == raw["messages"]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            Image(url="https://example.org/a.png"),
        ),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}, PNG),
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
            Image(url="https://example.org/a.png", extra=(("detail", b'"low"'),)),
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGVsbG8="}},
            Document("application/pdf", "aGVsbG8=", extra=(("filename", b'"a.pdf"'),)),
        ),
    ],
)
def test_chat_parts(part: dict[str, Any], block: Block) -> None:
    raw = {"messages": [{"role": "user", "content": [part]}]}
    assert blocks("openai_chat", raw) == (block,)
    assert again("openai_chat", raw)["messages"] == raw["messages"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "u"}, "unknown": 1},
        {"type": "input_audio", "input_audio": {"data": "x"}},
        {"type": "file", "file": {"file_id": "f"}},
    ],
)
def test_chat_parts_of_unknown_shape_stay_opaque(part: dict[str, Any]) -> None:
    raw = {"messages": [{"role": "user", "content": [part]}]}
    assert isinstance(blocks("openai_chat", raw)[0], Opaque)
    assert again("openai_chat", raw)["messages"] == raw["messages"]


def test_pictures_in_results_follow_the_tool_messages_in_chat() -> None:
    """A chat tool message holds text only."""
    request = Request(
        model="openai:gpt-5.5",
        messages=(
            Message("user", (Text("look"),)),
            Message("assistant", (ToolUse("a", "shot", b"{}"), ToolUse("b", "shot", b"{}"))),
            Message("user", (ToolResult("a", (Text("one"), PNG)), ToolResult("b", (Text("two"),)), Text("well?"))),
        ),
    )
    sent = json.loads(DIALECTS["openai_chat"].encode(request))["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[-1]["content"]] == ["image_url", "text"]
    assert validate(received("openai_chat", request)) == ()


def test_responses_keep_item_ids_and_reasoning() -> None:
    items = [
        item("developer", "rules", id="m0"),
        item("user", "hi", id="m1"),
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
        item("assistant", "a", id="m2"),
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}", "id": "fc"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ]
    raw = {"input": items, "store": False}
    request = body("openai_responses", raw)
    assert [m.role for m in request.messages] == ["user", "assistant", "tool"]
    assert validate(request) == ()
    sent = again("openai_responses", raw)
    assert (sent["input"], sent["store"]) == (items, False)


def test_gemini_pairs_calls_by_name_and_order() -> None:
    def call(n: int) -> dict[str, Any]:
        return {"functionCall": {"name": "sh", "args": {"n": n}}}

    def answer(text: str) -> dict[str, Any]:
        return {"functionResponse": {"name": "sh", "response": {"result": text}}}

    contents = [
        {"role": "model", "parts": [call(1), call(2)]},
        {"role": "user", "parts": [answer("one"), answer("two")]},
        {"role": "model", "parts": [call(3)]},
        {"role": "user", "parts": [{"functionResponse": {"name": "sh", "response": {"error": "no"}}}]},
    ]
    request = body("gemini", {"contents": contents, "generationConfig": {"temperature": 1, "maxOutputTokens": 9}})
    assert validate(request) == ()
    results = [b for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    assert [r.is_error for r in results] == [False, False, True]
    assert request.output_limit == 9
    sent = json.loads(DIALECTS["gemini"].encode(request))
    assert (sent["contents"], sent["generationConfig"]) == (contents, {"temperature": 1, "maxOutputTokens": 9})


def test_arguments_that_are_no_object_move_to_gemini_inside_one() -> None:
    request = Request(model="gemini:m", messages=(Message("assistant", (ToolUse("c", "n", b'"{broken"'),)),))
    (part,) = json.loads(DIALECTS["gemini"].encode(request))["contents"][0]["parts"]
    assert part["functionCall"]["args"] == {"arguments": "{broken"}


def test_markers_deep_in_unknown_blocks_are_not_taken_along() -> None:
    inner = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    raw = anthropic("user", {"type": "search_result", "source": "s", "title": "t", "content": [inner]})
    assert b"cache_control" not in DIALECTS["anthropic"].encode(body("anthropic", raw))


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openrouter"])
def test_an_empty_system_block_is_no_place_for_the_breakpoint(dialect: str) -> None:
    model = {"openrouter": "openrouter:anthropic/claude-opus-4.6"}.get(dialect, "openai:gpt-6.1-sol")
    request = Request(model=model, system_prompt=(Text("rules"), Text("")))
    body = DIALECTS[dialect].parse(DIALECTS[dialect].encode(request))
    first = [block.path for block in body.blocks].index(
        "system[0]" if dialect == "anthropic" else "messages[0].content[0]"
    )
    assert DIALECTS[dialect].markable(body, first)
    assert not any(DIALECTS[dialect].markable(body, place) for place in range(first + 1, len(body.blocks)))
