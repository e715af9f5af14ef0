"""Markers on the wire: where they may stand, how they are read, placed and taken away, byte for byte."""

from __future__ import annotations

import pytest

from holdfast.wire import DIALECTS, Body, Marker
from holdfast.wire.gemini import Gemini

ANTHROPIC = DIALECTS["anthropic"]
HEAD = b'{"model":"claude-opus-5-5",'


def parsed(raw: bytes, dialect: str = "anthropic") -> Body:
    body = DIALECTS[dialect].parse(raw)
    assert isinstance(body, Body), body.reason
    return body


def messages(content: bytes) -> Body:
    return parsed(HEAD + b'"messages":[{"role":"user","content":' + content + b"}]}")


def found(markers: tuple[Marker, ...]) -> list[tuple[int | None, str, bool]]:
    return [(marker.block, marker.ttl, marker.nested) for marker in markers]


def test_a_marker_is_spliced_in_before_the_closing_brace() -> None:
    body = messages(b'[{"type":"text", "text":"a"}]')
    planned = body.apply(ANTHROPIC.place(body, 0, "5m"))
    expected = b'[{"type":"text", "text":"a","cache_control":{"type":"ephemeral"}}]'
    assert planned == body.raw.replace(b'[{"type":"text", "text":"a"}]', expected)


def test_a_marker_replaces_the_one_that_is_there() -> None:
    body = messages(b'[{"cache_control":{"type":"ephemeral"},"type":"text","text":"a"}]')
    planned = body.apply(ANTHROPIC.place(body, 0, "1h"))
    assert b'{"cache_control":{"type":"ephemeral","ttl":"1h"},"type":"text","text":"a"}' in planned


def test_a_string_is_wrapped_and_keeps_its_spelling() -> None:
    body = messages(rb'"caf\u00e9 \/"')
    planned = body.apply(ANTHROPIC.place(body, 0, "5m"))
    assert rb'"content":[{"type":"text","text":"caf\u00e9 \/","cache_control":{"type":"ephemeral"}}]' in planned
    assert ANTHROPIC.content(parsed(planned), 0) == ANTHROPIC.content(body, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"cache_control":{"type":"ephemeral"},"type":"text","text":"a"}', b'{"type":"text","text":"a"}'),
        (b'{"type":"text", "cache_control":{"type":"ephemeral"} , "text":"a"}', b'{"type":"text" , "text":"a"}'),
        (b'{"type":"text","text":"a", "cache_control": {"ttl":"1h"}}', b'{"type":"text","text":"a"}'),
    ],
)
def test_removing_takes_one_comma_with_it(before: bytes, after: bytes) -> None:
    body = messages(b"[" + before + b"]")
    removed = body.apply(ANTHROPIC.remove(body, ANTHROPIC.markers(body)[0]))
    assert removed == messages(b"[" + after + b"]").raw


def test_nested_markers_count_for_their_parent_and_can_be_removed() -> None:
    inner = b'{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}'
    body = messages(b'[{"type":"tool_result","tool_use_id":"t","content":[' + inner + b"]}]")
    assert found(ANTHROPIC.markers(body)) == [(0, "1h", True)]
    removed = body.apply(ANTHROPIC.remove(body, ANTHROPIC.markers(body)[0]))
    assert ANTHROPIC.markers(parsed(removed)) == ()
    assert ANTHROPIC.content(parsed(removed), 0) == ANTHROPIC.content(body, 0)


NEST = b'{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}'


@pytest.mark.parametrize(
    ("block", "ttls"),
    [
        (
            b'{"type":"tool_result","tool_use_id":"t","content":[NEST,NEST],"cache_control":{"ttl":"1h"}}',
            ["1h", "5m", "5m"],
        ),
        (b'{"type":"search_result","content":[NEST]}', ["5m"]),
        (b'{"type":"web_search_tool_result","tool_use_id":"t","content":[NEST]}', ["5m"]),
        (b'{"type":"document","source":{"type":"content","content":[NEST]}}', ["5m"]),
        (b'{"type":"tool_result","tool_use_id":"t","content":[{"type":"search_result","content":[NEST]}]}', ["5m"]),
    ],
)
def test_every_marker_in_a_block_is_counted_stripped_and_replaced(block: bytes, ttls: list[str]) -> None:
    """The provider counts each of them against the limit of four."""
    body = messages(b"[" + block.replace(b"NEST", NEST) + b"]")
    markers = ANTHROPIC.markers(body)
    assert [marker.ttl for marker in markers] == ttls
    bare = parsed(body.apply(s for marker in markers for s in ANTHROPIC.remove(body, marker)))
    assert b"cache_control" not in bare.raw
    assert ANTHROPIC.content(bare, 0) == ANTHROPIC.content(body, 0)
    planned = parsed(body.apply(ANTHROPIC.place(body, 0, "1h")))
    assert found(ANTHROPIC.markers(planned)) == [(0, "1h", False)]
    assert ANTHROPIC.content(planned, 0) == ANTHROPIC.content(body, 0)


def test_the_automatic_marker_is_the_top_level_member() -> None:
    body = parsed(HEAD + b'"cache_control":{"type":"ephemeral"},"messages":[]}')
    assert ANTHROPIC.markers(body) == (Marker(None, "5m"),)
    assert body.apply(ANTHROPIC.remove(body, ANTHROPIC.markers(body)[0])) == HEAD + b'"messages":[]}'


@pytest.mark.parametrize(
    "content",
    [
        b'[{"type":"text","text":"a","cache_control":null}]',
        b'[{"type":"tool_use","id":"t","name":"n","input":{"cache_control":{"type":"ephemeral"}}}]',
        b'[{"type":"text","text":"the \\"cache_control\\" member"}]',
        b'"cache_control"',
        b'[{"type":"unknown","content":[{"cache_control":{"type":"ephemeral"}}]}]',
        b'[{"type":"text","text":"a","cache_control":false}]',
    ],
)
def test_what_only_looks_like_a_marker_is_none(content: bytes) -> None:
    assert ANTHROPIC.markers(messages(content)) == ()


def test_a_schema_property_named_like_a_marker_is_content() -> None:
    one = parsed(HEAD + b'"tools":[{"name":"t","input_schema":{"properties":{"cache_control":{}}}}],"messages":[]}')
    other = parsed(HEAD + b'"tools":[{"name":"t","input_schema":{"properties":{}}}],"messages":[]}')
    assert ANTHROPIC.content(one, 0) != ANTHROPIC.content(other, 0)
    assert ANTHROPIC.markers(one) == ()


@pytest.mark.parametrize(
    ("block", "allowed"),
    [
        (b'{"type":"text","text":"a"}', True),
        (b'{"type":"image","source":{}}', True),
        (b'{"type":"document","source":{}}', True),
        (b'{"type":"search_result","content":[]}', True),
        (b'{"type":"tool_use","id":"t","name":"n","input":{}}', True),
        (b'{"type":"tool_result","tool_use_id":"t"}', True),
        (b'{"type":"web_search_tool_result","content":[]}', True),
        (b'{"type":"tool_reference","tool_name":"n"}', True),
        (b'{"text":"type comes last","type":"text"}', True),
        (b'{"type":"text","text":""}', False),
        (b'{"type":"thinking","thinking":"a","signature":"s"}', False),
        (b'{"type":"redacted_thinking","data":"a"}', False),
        (b'{"no":"type"}', False),
        (b'{"type":"server_tool_use","id":"s","name":"n","input":{}}', False),
        (b'{"type":"container_upload","file_id":"f"}', False),
        (b'{"type":"unknown_future"}', False),
        (b'{"type":"text","text":"a","text":"b"}', False),
    ],
)
def test_legal_places_in_messages(block: bytes, allowed: bool) -> None:
    """Rule 1.7; a block we cannot splice safely is no place either."""
    assert ANTHROPIC.markable(messages(b"[" + block + b"]"), 0) is allowed


def test_an_empty_string_cannot_be_marked() -> None:
    assert not ANTHROPIC.markable(messages(b'""'), 0)
    assert ANTHROPIC.markable(messages(b'"a"'), 0)


def test_deferred_tools_are_known_and_no_place() -> None:
    tools = b'[{"name":"a","input_schema":{}},{"name":"b","input_schema":{},"defer_loading":true}]'
    body = parsed(HEAD + b'"tools":' + tools + b',"messages":[]}')
    assert [ANTHROPIC.deferred(body, i) for i in (0, 1)] == [False, True]
    assert [ANTHROPIC.markable(body, i) for i in (0, 1)] == [True, False]


def test_content_ignores_spelling_and_markers_but_nothing_else() -> None:
    plain = messages(b'"hello"')
    same = [
        b'[{"type":"text","text":"hello"}]',
        b'[ {"type": "text", "text": "h\\u0065llo", "cache_control": {"type":"ephemeral"}} ]',
    ]
    for spelling in same:
        assert ANTHROPIC.content(messages(spelling), 0) == ANTHROPIC.content(plain, 0)
    for other in (b'"hello "', b'[{"text":"hello","type":"text"}]', b'[{"type":"text","text":"hello","x":1}]'):
        assert ANTHROPIC.content(messages(other), 0) != ANTHROPIC.content(plain, 0)


def test_a_tool_result_string_equals_one_text_block() -> None:
    string = messages(b'[{"type":"tool_result","tool_use_id":"t","content":"x"}]')
    array = messages(b'[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}]}]')
    assert ANTHROPIC.content(string, 0) == ANTHROPIC.content(array, 0)


def test_further_members_of_a_message_belong_to_its_first_block() -> None:
    def first(extra: bytes) -> bytes:
        raw = HEAD + b'"messages":[{"role":"system","content":"late"' + extra + b"}]}"
        return ANTHROPIC.content(parsed(raw), 0)

    assert first(b"") != first(b',"output_config":{"effort":"low"}')
    assert first(b',"output_config":{"effort":"low"}') == first(b', "output_config" : {"effort" : "low"}')


CHAT = DIALECTS["openai_chat"]


def chat(model: bytes, message: bytes, dialect: str = "openai_chat") -> Body:
    return parsed(b'{"model":"' + model + b'","messages":[' + message + b"]}", dialect)


def test_openai_breakpoints_stand_on_content_parts() -> None:
    body = chat(b"gpt-6.1-sol", b'{"role":"user","content":"hi"}')
    planned = body.apply(CHAT.place(body, 0, "5m"))
    part = b'{"type":"text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit"}}'
    assert b'"content":[' + part + b"]" in planned
    assert found(CHAT.markers(parsed(planned, "openai_chat"))) == [(0, "30m", False)]


@pytest.mark.parametrize(
    ("model", "message", "allowed"),
    [
        (b"gpt-6.1-sol", b'{"role":"tool","tool_call_id":"c","content":"out"}', True),
        (b"gpt-6.1-sol", b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}', True),
        (b"gpt-6.1-sol", b'{"role":"user","content":""}', False),
        (b"gpt-6.1-sol", b'{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}', False),
        (b"gpt-6.1-sol", b'{"role":"assistant","content":null}', False),
        (b"gpt-5.5", b'{"role":"user","content":"hi"}', False),
    ],
)
def test_legal_places_in_chat(model: bytes, message: bytes, allowed: bool) -> None:
    assert CHAT.markable(chat(model, message), 0) is allowed


def test_openrouter_marks_with_cache_control_on_anthropic_routes_only() -> None:
    router = DIALECTS["openrouter"]
    body = chat(b"anthropic/claude-opus-4.6", b'{"role":"user","content":"hi"}', "openrouter")
    planned = body.apply(router.place(body, 0, "1h"))
    assert b'"cache_control":{"type":"ephemeral","ttl":"1h"}' in planned
    assert found(router.markers(parsed(planned, "openrouter"))) == [(0, "1h", False)]
    other = chat(b"openai/gpt-6.1-sol", b'{"role":"user","content":"hi"}', "openrouter")
    assert not router.markable(other, 0)


RESPONSES = DIALECTS["openai_responses"]


def responses(item: bytes) -> Body:
    return parsed(b'{"model":"gpt-6.1-sol","instructions":"be brief","input":' + item + b"}", "openai_responses")


@pytest.mark.parametrize(
    ("item", "after"),
    [
        (
            b'"hi"',
            b'[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi",MARK}]}]',
        ),
        (
            b'[{"role":"assistant","content":"hi"}]',
            b'[{"role":"assistant","content":[{"type":"output_text","text":"hi",MARK}]}]',
        ),
        (
            b'[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]',
            b'[{"role":"user","content":[{"type":"input_text","text":"hi",MARK}]}]',
        ),
        (
            b'[{"type":"function_call_output","call_id":"c","output":"out"}]',
            b'[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"out",MARK}]}]',
        ),
        (
            b'[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"out"}]}]',
            b'[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"out",MARK}]}]',
        ),
    ],
)
def test_responses_breakpoints_stand_on_content_parts(item: bytes, after: bytes) -> None:
    body = responses(item)
    assert body.blocks[0].path == "instructions"
    assert not RESPONSES.markable(body, 0)
    assert RESPONSES.markable(body, 1)
    planned = body.apply(RESPONSES.place(body, 1, "5m"))
    assert planned == responses(after.replace(b"MARK", b'"prompt_cache_breakpoint":{"mode":"explicit"}')).raw
    marked = parsed(planned, "openai_responses")
    assert RESPONSES.content(marked, 1) == RESPONSES.content(body, 1)
    markers = RESPONSES.markers(marked)
    assert [(m.block, m.ttl) for m in markers] == [(1, "30m")]
    unmarked = parsed(marked.apply(RESPONSES.remove(marked, markers[0])), "openai_responses")
    assert RESPONSES.markers(unmarked) == ()


def test_item_ids_are_not_content() -> None:
    one = responses(b'[{"type":"message","id":"msg_1","role":"user","content":"hi"}]')
    other = responses(b'[{"type":"message","id":"msg_2","role":"user","content":"hi"}]')
    assert RESPONSES.content(one, 1) == RESPONSES.content(other, 1)


@pytest.mark.parametrize(
    "item",
    [
        b'{"type":"reasoning","summary":[]}',
        b'{"type":"function_call","call_id":"c"}',
        b'{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}}',
        b'{"type":"function_call_output","call_id":"c","output":[ ]}',
        b'{"type":"function_call_output","call_id":"c","output":["a"]}',
        b'{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":""}]}',
        b'{"type":"function_call_output","call_id":"c","output":5}',
        b'{"role":"user","content":[{}]}',
    ],
)
def test_items_without_parts_carry_no_marker(item: bytes) -> None:
    assert not RESPONSES.markable(responses(b"[" + item + b"]"), 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            b'{"type":"function_call_output","call_id":"c","output":{"a":1}}',
            b'{"type":"function_call_output","call_id":"c","output":{"a":2}}',
        ),
        (b'{"type":"item_reference","id":"a"}', b'{"type":"item_reference","id":"b"}'),
        (b'{"type":"reasoning","id":"a","summary":[]}', b'{"type":"reasoning","id":"b","summary":[]}'),
    ],
)
def test_items_that_say_different_things_differ(one: bytes, other: bytes) -> None:
    assert RESPONSES.content(responses(b"[" + one + b"]"), 1) != RESPONSES.content(responses(b"[" + other + b"]"), 1)


@pytest.mark.parametrize(
    ("dialect", "without", "with_empty"),
    [
        ("anthropic", b'{"messages":[]}', b'{"messages":[{"role":"assistant","content":[]}]}'),
        ("openai_chat", b'{"messages":[]}', b'{"messages":[{"role":"assistant","content":null}]}'),
        ("gemini", b'{"contents":[]}', b'{"contents":[{"role":"user","parts":[]}]}'),
        ("openai_responses", b'{"input":[]}', b'{"input":[{"role":"user","content":[]}]}'),
    ],
)
def test_a_message_without_content_is_a_block_all_the_same(dialect: str, without: bytes, with_empty: bytes) -> None:
    assert len(parsed(without, dialect).blocks) == 0
    body = parsed(with_empty, dialect)
    assert len(body.blocks) == 1
    assert not DIALECTS[dialect].markable(body, 0)
    assert DIALECTS[dialect].content(body, 0)


def test_gemini_has_no_markers_but_cached_objects() -> None:
    gemini = DIALECTS["gemini"]
    raw = b'{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"}]}]}'
    body = parsed(raw, "gemini")
    assert not any(gemini.markable(body, i) for i in range(len(body.blocks)))
    assert gemini.remove(body, Marker(0, "5m")) == []
    assert gemini.markers(body) == ()


@pytest.mark.parametrize("frozen", [0, 1, 2, 3])
def test_a_cached_object_takes_the_place_of_what_it_holds(frozen: int) -> None:
    items = [b'{"role":"user","parts":[{"text":"%s"}]}' % letter for letter in (b"a", b"b", b"c")]
    raw = (
        b'{"tools":[{"googleSearch":{}}],"contents":['
        + b", ".join(items)
        + b'],"systemInstruction":{},"toolConfig":{}}'
    )
    body = parsed(raw, "gemini")
    after = body.apply(Gemini().use_cached(body, "cachedContents/x", contents=frozen))
    assert after == b'{"contents":[' + b", ".join(items[frozen:]) + b'],"cachedContent":"cachedContents/x"}'


@pytest.mark.parametrize("value", [b"null", b'"ephemeral"', b"[]"])
def test_a_marker_that_says_nothing_is_none_and_no_content(value: bytes) -> None:
    """Some clients write null where they have no marker."""
    plain = messages(b'[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"}]}]')
    inner = b'{"type":"text","text":"a","cache_control":' + value + b"}"
    body = messages(
        b'[{"type":"tool_result","cache_control":' + value + b',"tool_use_id":"t","content":[' + inner + b"]}]"
    )
    assert ANTHROPIC.markers(body) == ()
    assert ANTHROPIC.content(body, 0) == ANTHROPIC.content(plain, 0)
    marked = parsed(body.apply(ANTHROPIC.place(body, 0, "5m")))
    assert found(ANTHROPIC.markers(marked)) == [(0, "5m", False)]
    assert ANTHROPIC.content(marked, 0) == ANTHROPIC.content(plain, 0)


ESCAPED = {
    "anthropic": rb'{"model":"claude-opus-5-5","messages":[{"role":"user","content":'
    rb'[{"type":"text","text":"a","\u0063ache_control":{"type":"ephemeral"}}]}]}',
    "openai_chat": rb'{"model":"gpt-6.1-sol","messages":[{"role":"user","content":'
    rb'[{"type":"text","text":"a","prompt\u005Fcache_breakpoint":{"mode":"explicit"}}]}]}',
    "openai_responses": rb'{"model":"gpt-6.1-sol","input":[{"role":"user","content":'
    rb'[{"type":"input_text","text":"a","prompt\u005fcache_breakpoint":{"mode":"explicit"}}]}]}',
    "openrouter": rb'{"model":"anthropic/claude-opus-4.6","messages":[{"role":"user","content":'
    rb'[{"type":"text","text":"a","cache_contro\u006c":{"type":"ephemeral"}}]}]}',
}


@pytest.mark.parametrize("name", ESCAPED)
def test_a_marker_is_found_whatever_its_key_is_spelled_like(name: str) -> None:
    body, dialect = parsed(ESCAPED[name], name), DIALECTS[name]
    (marker,) = dialect.markers(body)
    assert marker.block == 0
    again = parsed(body.apply(dialect.place(body, 0, "5m")), name)
    assert len(dialect.markers(again)) == 1
    assert dialect.markers(parsed(body.apply(dialect.remove(body, marker)), name)) == ()


def test_a_deferred_tool_is_found_whatever_its_key_is_spelled_like() -> None:
    body = parsed(rb'{"tools":[{"name":"t","\u0064efer_loading":true}],"messages":[]}')
    assert ANTHROPIC.deferred(body, 0)


def test_a_key_that_stands_twice_inside_a_document_hides_no_marker() -> None:
    body = messages(b'[{"type":"document","source":{"a":1,"a":2},"cache_control":{"type":"ephemeral"}}]')
    assert found(ANTHROPIC.markers(body)) == [(0, "5m", False)]
    assert b"cache_control" not in ANTHROPIC.content(body, 0)


def test_either_marker_of_a_chat_part_is_no_content() -> None:
    """Servers of the chat dialect know both spellings, and moving a marker is no change of what is said."""
    texts = [b"", b',"cache_control":{"type":"ephemeral"}', b',"prompt_cache_breakpoint":{"mode":"explicit"}']
    for name in ("openai_chat", "openrouter"):
        bodies = [
            parsed(b'{"messages":[{"role":"user","content":[{"type":"text","text":"a"' + t + b"}]}]}", name)
            for t in texts
        ]
        assert len({DIALECTS[name].content(body, 0) for body in bodies}) == 1


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize("model", [b"gpt-5.5", b"gpt-5.6", b"gpt-6.1-sol", b"gpt-99"])
def test_a_breakpoint_lives_half_an_hour_on_every_model(name: str, model: bytes) -> None:
    """Also where the model's own cache has another TTL: what a client marked is a breakpoint."""
    member = b"messages" if name == "openai_chat" else b"input"
    part = b'{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}'
    raw = b'{"model":"' + model + b'","' + member + b'":[{"role":"user","content":[' + part + b"]}]}"
    assert [marker.ttl for marker in DIALECTS[name].markers(parsed(raw, name))] == ["30m"]


def test_markers_among_odd_parts_of_an_output_are_no_content() -> None:
    def output(marker: bytes) -> Body:
        parts = b'["odd",{"type":"input_text","text":"a"' + marker + b"}]"
        item = b'{"type":"function_call_output","call_id":"c","output":' + parts + b"}"
        return parsed(b'{"model":"gpt-6.1-sol","input":[' + item + b"]}", "openai_responses")

    responses = DIALECTS["openai_responses"]
    marked = output(b',"prompt_cache_breakpoint":{"mode":"explicit"}')
    assert responses.content(marked, 0) == responses.content(output(b""), 0)


@pytest.mark.parametrize(
    ("dialect", "raw", "path"),
    [
        ("anthropic", b'{"messages":[{"role":"user","content":""}]}', "messages[0].content[0]"),
        ("openai_chat", b'{"model":"gpt-6.1-sol","tools":[{"type":"function"}],"messages":[]}', "tools[0]"),
        ("openrouter", b'{"model":"x/y","messages":[{"role":"user","content":"a"}]}', "messages[0].content[0]"),
        ("openai_responses", b'{"model":"gpt-6.1-sol","instructions":"s"}', "instructions"),
        ("openai_responses", b'{"model":"gpt-6.1-sol","tools":[{"type":"function"}]}', "tools[0]"),
        ("gemini", b'{"contents":[{"parts":[{"text":"a"}]}]}', "contents[0].parts[0]"),
    ],
)
def test_placing_a_marker_where_none_may_stand_is_refused(dialect: str, raw: bytes, path: str) -> None:
    body = parsed(raw, dialect)
    assert body.blocks[0].path == path
    with pytest.raises(ValueError, match="cannot carry a marker"):
        DIALECTS[dialect].place(body, 0, "5m")
