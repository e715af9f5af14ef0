"""OpenAI Chat Completions as canonical values.

On the way back to the dialect these are gone or spelled in one way: markers; the order of members; a single text part,
which becomes a string; empty content, null in an assistant message and `""` in others; the role "developer", which
becomes "system"; the borders between leading system messages; an empty list of tools; spaces in a call's arguments; a
tool's description that is null; `max_tokens`, which gets the name that the dialect gives the limit today, and a second
limit beside it. A tool without parameters gets `{}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from holdfast.records import (
    Block,
    Document,
    Extra,
    Image,
    Message,
    Opaque,
    Request,
    Text,
    ToolDefinition,
    ToolResult,
    ToolUse,
    encode_string,
)

from ..raw_json import (
    arr,
    array_of,
    as_blocks,
    as_segment,
    canon,
    extra_of,
    is_text_or_none,
    limit_of,
    obj,
    object_of,
    opaque,
    string_of,
    wire_model,
)
from .openai import arguments_of, document_of, document_text, image_of, input_of, plain_system, splits, url_of

_TOP = ("model", "messages", "tools")
MARKER_KEYS = ("cache_control", "prompt_cache_breakpoint")


def decode(members: Mapping[str, bytes], name: str, provider: str) -> Request:
    """A request from a body's top-level members; leading system messages are the system prompt."""
    messages = [decode_message(raw) for raw in array_of(members.get("messages", b"")) or ()]
    leading = 0
    while leading < len(messages) and messages[leading].role == "system" and not messages[leading].extra:
        leading += 1
    limit, read = limit_of(members, "max_completion_tokens", "max_tokens")
    return Request(
        model=f"{provider}:{string_of(members.get('model')) or ''}",
        tools=tuple(_decode_tool(raw) for raw in array_of(members.get("tools", b"")) or ()),
        system_prompt=as_segment(tuple(block for message in messages[:leading] for block in message.content)),
        messages=tuple(messages[leading:]),
        output_limit=limit,
        rest=extra_of(members, (*_TOP, *read)),
        dialect=name,
    )


def _decode_tool(raw: bytes) -> ToolDefinition | Opaque:
    members = object_of(raw) or {}
    function = object_of(members.get("function", b""))
    name = string_of((function or {}).get("name"))
    if (
        function is None
        or name is None
        or string_of(members.get("type")) not in (None, "function")
        or not is_text_or_none(function.get("description"))
        or extra_of(members, ("type", "function", *MARKER_KEYS))
    ):
        return opaque(string_of(members.get("type")), raw)
    named = ("name", "description", "parameters")
    description = string_of(function.get("description"))
    return ToolDefinition(name, description, canon(function.get("parameters", b"{}")), extra_of(function, named))


def decode_message(raw: bytes) -> Message:
    members = object_of(raw) or {}
    role = string_of(members.get("role")) or "user"
    if role == "function":  # the way before tool calls: an answer that names no call
        return Message("tool", (opaque("function", raw),))
    content = decode_content(members.get("content"))
    if role == "tool":
        call = string_of(members.get("tool_call_id")) or ""
        extra = extra_of(members, ("role", "content", "tool_call_id"))
        return Message("tool", (ToolResult(call, content),), extra)
    calls = tuple(_decode_call(item) for item in array_of(members.get("tool_calls", b"")) or ())
    named = ("role", "content", *(("tool_calls",) if calls else ()))
    role = "system" if role == "developer" else role
    return Message(role, content + calls, extra_of(members, named))  # type: ignore[arg-type]  # validate() names it


def decode_content(raw: bytes | None) -> tuple[Block, ...]:
    if raw is None or raw == b"null":
        return ()
    if (text := string_of(raw)) is not None:
        return (Text(text),) if text else ()
    parts = tuple(_decode_part(item) for item in array_of(raw) or ())
    return () if parts == (Text(""),) else parts


def _decode_part(raw: bytes) -> Block:
    members = object_of(raw)
    if members is None:
        return opaque(None, raw)
    for key in MARKER_KEYS:
        members.pop(key, None)
    match string_of(members.get("type")):
        case "text" if (text := string_of(members.get("text"))) is not None:
            return Text(text, extra_of(members, ("type", "text")))
        case "image_url" if (block := _image(members)) is not None:
            return block
        case "file" if (block := _file(members)) is not None:
            return block
        case kind:
            return opaque(kind, obj(members.items()))


def _image(members: Mapping[str, bytes]) -> Block | None:
    source = object_of(members.get("image_url", b"")) or {}
    url = string_of(source.get("url"))
    if url is None or len(members) > 2:
        return None
    return replace(image_of(url), extra=extra_of(source, ("url",)))


def _file(members: Mapping[str, bytes]) -> Block | None:
    file = object_of(members.get("file", b"")) or {}
    block = document_of(string_of(file.get("file_data")) or "")
    if block is None or len(members) > 2:
        return None
    return Document(block.media_type, block.data, extra=extra_of(file, ("file_data",)))


def _decode_call(raw: bytes) -> Block:
    members = object_of(raw) or {}
    function = object_of(members.get("function", b"")) or {}
    call, name = string_of(members.get("id")), string_of(function.get("name"))
    arguments = function.get("arguments", b'""')
    plain = string_of(members.get("type")) in (None, "function") and string_of(arguments) is not None
    if call is None or name is None or not plain or function.keys() - {"name", "arguments"}:
        return opaque(string_of(members.get("type")) or "tool_call", raw, call or "")
    extra = extra_of(members, ("id", "type", "function"))
    return ToolUse(call, name, input_of(arguments), extra)


def encode(request: Request, name: str, *, limit_key: str) -> bytes:
    """A body: system, then tools, then messages."""
    own = request.dialect in (None, name)
    messages = [
        *_encode_system(request, own),
        *_encode_messages(request.messages, own, pictures_stay=request.dialect == name),
    ]
    members = [("model", encode_string(wire_model(request.model))), ("messages", arr(messages))]
    tools = [_encode_tool(tool, own) for tool in request.tools if own or not isinstance(tool, Opaque)]
    if tools:
        members.append(("tools", arr(tools)))
    if request.output_limit is not None:
        members.append((limit_key, b"%d" % request.output_limit))
    return obj((*members, *(request.rest if own else ())))


def _encode_system(request: Request, own: bool) -> Iterator[bytes]:
    plain = plain_system(request)
    if plain is not None:
        if plain:
            yield _message("system", encode_string(plain))
        return
    blocks = (*as_blocks(request.system_prompt), *as_blocks(request.system_prompt_volatile))
    if parts := list(_parts(blocks, own)):
        yield _message("system", arr(parts))


def _encode_tool(tool: ToolDefinition | Opaque, own: bool) -> bytes:
    if isinstance(tool, Opaque):
        return tool.raw
    function = [("name", encode_string(tool.name))]
    if tool.description is not None:
        function.append(("description", encode_string(tool.description)))
    function.append(("parameters", tool.input_schema))
    return obj((("type", b'"function"'), ("function", obj((*function, *(tool.extra if own else ()))))))


def _encode_messages(messages: Iterable[Message], own: bool, pictures_stay: bool) -> Iterator[bytes]:
    """Tool results become tool messages; pictures in them follow in a user message, where the dialect allows them.

    A client of this dialect that put them into the tool message knows a server that takes them: there they stay.
    """
    left: list[Block] = []
    for message in messages:
        if message.role not in ("tool", "user") and left:
            yield _message("user", arr(_parts(left, own)))
            left = []
        extra = message.extra if own else ()
        others: list[Block] = []
        for block in message.content:
            if not isinstance(block, ToolResult):
                others.append(block)
                continue
            texts, pictures = (block.content, []) if pictures_stay else splits(block.content)
            left += pictures
            call = ("tool_call_id", encode_string(block.tool_use_id))
            yield _message("tool", _content(texts, own), (call, *(extra if message.role == "tool" else ())))
        if message.role == "tool":
            yield from (block.raw for block in others if own and isinstance(block, Opaque))
            continue
        if message.role == "assistant":
            if own or any(isinstance(block, Text | Image | Document | ToolUse) for block in others):
                yield _encode_assistant(others, extra, own)
        elif left or others or not message.content:
            yield _message(message.role, _content([*left, *others], own), extra)
            left = []
    if left:
        yield _message("user", arr(_parts(left, own)))


def _encode_assistant(blocks: list[Block], extra: Extra, own: bool) -> bytes:
    calls = [
        _encode_call(block, own) if isinstance(block, ToolUse) else block.raw
        for block in blocks
        if isinstance(block, ToolUse) or (own and isinstance(block, Opaque) and block.call_id is not None)
    ]
    shown = [
        b for b in blocks if isinstance(b, Text | Image | Document) or (isinstance(b, Opaque) and b.call_id is None)
    ]
    content = _content(shown, own) if any(True for _ in _parts(shown, own)) else b"null"
    tool_calls = (("tool_calls", arr(calls)),) if calls else ()
    return _message("assistant", content, (*tool_calls, *extra))


def _encode_call(block: ToolUse, own: bool) -> bytes:
    function = obj((("name", encode_string(block.name)), ("arguments", arguments_of(block.input))))
    members = (("id", encode_string(block.id)), ("type", b'"function"'), ("function", function))
    return obj((*members, *(block.extra if own else ())))


def _content(blocks: Sequence[Block], own: bool) -> bytes:
    """A single plain text is a string, as most clients send it; anything else an array of parts."""
    if not blocks:
        return b'""'
    if len(blocks) == 1 and isinstance(blocks[0], Text) and not (own and blocks[0].extra):
        return encode_string(blocks[0].text)
    return arr(_parts(blocks, own))


def _parts(blocks: Iterable[Block], own: bool) -> Iterator[bytes]:
    for block in blocks:
        extra = () if isinstance(block, Opaque) or not own else block.extra
        match block:
            case Text(text=text):
                yield obj((("type", b'"text"'), ("text", encode_string(text)), *extra))
            case Image():
                image = obj((("url", encode_string(url_of(block))), *extra))
                yield obj((("type", b'"image_url"'), ("image_url", image)))
            case Document() if (plain := document_text(block)) is not None:
                yield obj((("type", b'"text"'), ("text", encode_string(plain))))
            case Document():
                names = extra or (("filename", b'"document"'),)
                file = obj((*names, ("file_data", encode_string(url_of(block)))))
                yield obj((("type", b'"file"'), ("file", file)))
            case Opaque(raw=raw) if own:
                yield raw


def _message(role: str, content: bytes, extra: Extra = ()) -> bytes:
    return obj((("role", encode_string(role)), ("content", content), *extra))
