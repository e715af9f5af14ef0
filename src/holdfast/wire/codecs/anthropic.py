"""Anthropic Messages as canonical values.

On the way back to the dialect these are gone or spelled in one way: markers, which the request says anew; the order of
members in a block or tool; bare strings, which become one text block; tools, `system` and results that are empty or
null; `is_error` where it is false; a call's input that is no object, which is put into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.records import (
    Block,
    Document,
    Extra,
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
    encode_string,
)

from ..cache_control import markers, unmarked
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

NAME = "anthropic"

_TOP = ("model", "tools", "system", "messages", "cache_control")


def decode(members: Mapping[str, bytes]) -> Request:
    """A request from a body's top-level members. System blocks after the last marked one are the volatile segment."""
    stable, volatile = _decode_system(members.get("system"))
    limit, read = limit_of(members, "max_tokens")
    return Request(
        model=f"{NAME}:{string_of(members.get('model')) or ''}",
        tools=tuple(decode_tool(raw) for raw in array_of(members.get("tools", b"")) or ()),
        system_prompt=as_segment(stable),
        system_prompt_volatile=as_segment(volatile),
        messages=tuple(_decode_message(raw) for raw in array_of(members.get("messages", b"")) or ()),
        output_limit=limit,
        rest=extra_of(members, (*_TOP, *read)),
        dialect=NAME,
    )


def _decode_system(raw: bytes | None) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    if raw is None or raw == b"null":
        return (), ()
    if (text := string_of(raw)) is not None:
        return (Text(text),), ()
    items = array_of(raw) or []
    marked = [i for i, item in enumerate(items) if any(at == 0 for at, _ in markers(item, 0))]
    border = marked[-1] + 1 if marked else len(items)
    return tuple(map(decode_block, items[:border])), tuple(map(decode_block, items[border:]))


def decode_tool(raw: bytes) -> ToolDefinition | Opaque:
    members = object_of(raw)
    name = string_of(members.get("name")) if members else None
    if members is None or name is None or "input_schema" not in members:
        return opaque(string_of((members or {}).get("type")), unmarked(raw))
    names = ("name", "description", "input_schema", "cache_control")
    description = string_of(members.get("description"))
    if description is None and "description" in members:
        return opaque("tool", unmarked(raw))
    return ToolDefinition(name, description, canon(members["input_schema"]), extra_of(members, names))


def _decode_message(raw: bytes) -> Message:
    members = object_of(raw) or {}
    content = members.get("content", b"[]")
    role = string_of(members.get("role")) or "user"
    if (text := string_of(content)) is not None:
        blocks: tuple[Block, ...] = (Text(text),)
    else:
        blocks = tuple(decode_block(item) for item in array_of(content) or ())
    return Message(role, blocks, extra_of(members, ("role", "content")))  # type: ignore[arg-type]  # validate() names it


def _present(members: Mapping[str, bytes], key: str, default: bytes) -> bytes:
    """A member, with null as good as none."""
    value = members.get(key, default)
    return default if value == b"null" else value


def decode_block(raw: bytes, inside_result: bool = False) -> Block:
    """One content block; anything that is not of its kind's known shape stays opaque, and results hold no results."""
    members = object_of(raw)
    if members is None:
        return opaque(None, raw)
    members.pop("cache_control", None)
    kind = string_of(members.get("type"))
    block = None if inside_result and kind == "tool_result" else _decode_known(kind, members)
    if block is not None:
        return block
    call = string_of(members.get("id")) if kind == "tool_use" else string_of(members.get("tool_use_id"))
    return opaque(kind, unmarked(raw), call if kind in ("tool_use", "tool_result") else None)


def _decode_known(kind: str | None, members: Mapping[str, bytes]) -> Block | None:
    def text(key: str) -> str | None:
        return string_of(members.get(key))

    def extra(*known: str) -> Extra:
        return extra_of(members, ("type", *known))

    match kind:
        case "text" if (value := text("text")) is not None:
            return Text(value, extra("text"))
        case "thinking" if (value := text("thinking")) is not None and is_text_or_none(members.get("signature")):
            return Thinking(value, text("signature"), extra("thinking", "signature"))
        case "redacted_thinking" if (value := text("data")) is not None:
            return RedactedThinking(value, extra("data"))
        case "tool_use" if (call := text("id")) is not None and (name := text("name")) is not None:
            arguments = members.get("input", b"{}")
            if arguments[:1] != b"{":  # `encode` would put it into an object
                return None
            return ToolUse(call, name, canon(arguments), extra("id", "name", "input"))
        case "tool_result" if (call := text("tool_use_id")) is not None:
            return _decode_result(call, members)
        case "image" | "document":
            return _decode_source(kind, members)
    return None


def _decode_result(call: str, members: Mapping[str, bytes]) -> Block | None:
    content = _present(members, "content", b"[]")
    is_error = _present(members, "is_error", b"false")
    if (text := string_of(content)) is not None:
        inner: tuple[Block, ...] = (Text(text),)
    elif (items := array_of(content)) is not None:
        inner = tuple(decode_block(item, inside_result=True) for item in items)
    else:
        return None
    if is_error not in (b"true", b"false"):
        return None
    extra = extra_of(members, ("type", "tool_use_id", "content", "is_error"))
    return ToolResult(call, inner, is_error == b"true", extra)


def _decode_source(kind: str, members: Mapping[str, bytes]) -> Block | None:
    source = object_of(members.get("source", b"")) or {}
    values = {key: string_of(raw) for key, raw in source.items()}
    shape = Image if kind == "image" else Document
    extra = extra_of(members, ("type", "source"))
    match values:
        case {"type": "url", "url": str(url), **more} if not more:
            return shape(url=url, extra=extra)
        case {"type": "base64", "media_type": str(media), "data": str(data), **more} if not more:
            return None if media == "text/plain" else shape(media_type=media, data=data, extra=extra)
        case {"type": "text", "media_type": "text/plain", "data": str(data), **more} if not more:
            return shape(media_type="text/plain", data=data, extra=extra)
    return None


def encode(request: Request) -> bytes:
    own = request.dialect in (None, NAME)
    members: list[tuple[str, bytes]] = [("model", encode_string(wire_model(request.model)))]
    if request.output_limit is not None:
        members.append(("max_tokens", b"%d" % request.output_limit))
    tools = [tool for tool in request.tools if own or not isinstance(tool, Opaque)]
    if tools:
        members.append(("tools", arr([encode_tool(tool, own) for tool in tools])))
    system = (*as_blocks(request.system_prompt), *as_blocks(request.system_prompt_volatile))
    if system:
        members.append(("system", arr([encode_block(block, own) for block in system])))
    members.append(("messages", arr(_encode_messages(request.messages, own))))
    if own:
        members += request.rest
    return obj(members)


def encode_tool(tool: ToolDefinition | Opaque, own: bool) -> bytes:
    if isinstance(tool, Opaque):
        return tool.raw
    members = [("name", encode_string(tool.name))]
    if tool.description is not None:
        members.append(("description", encode_string(tool.description)))
    members.append(("input_schema", tool.input_schema))
    return obj((*members, *(tool.extra if own else ())))


def _encode_messages(messages: Iterable[Message], own: bool) -> Iterator[bytes]:
    """Runs of tool messages become one user message: their results answer one assistant turn."""
    results: list[bytes] = []
    for message in messages:
        content = message.content if own else [block for block in message.content if _travels(block)]
        if not content and not own:
            continue
        blocks = [encode_block(block, own) for block in content]
        if message.role == "tool":
            results += blocks
            continue
        if results:
            yield _message("user", results, ())
            results = []
        yield _message(message.role, blocks, message.extra if own else ())
    if results:
        yield _message("user", results, ())


def _travels(block: Block) -> bool:
    """What another dialect's conversation can bring along: no foreign signatures, no unknown kinds, no empty texts."""
    if isinstance(block, Text):
        return bool(block.text)
    return not isinstance(block, Opaque | Thinking | RedactedThinking)


def _message(role: str, blocks: Iterable[bytes], extra: Extra) -> bytes:
    return obj((("role", encode_string(role)), ("content", arr(blocks)), *extra))


def encode_block(block: Block, own: bool) -> bytes:
    if isinstance(block, Opaque):
        return block.raw
    members: list[tuple[str, bytes]] = []
    match block:
        case Text(text=text):
            members = [("type", b'"text"'), ("text", encode_string(text))]
        case Thinking(text=text, signature=signature):
            members = [("type", b'"thinking"'), ("thinking", encode_string(text))]
            if signature is not None:
                members.append(("signature", encode_string(signature)))
        case RedactedThinking(data=data):
            members = [("type", b'"redacted_thinking"'), ("data", encode_string(data))]
        case ToolUse(id=call, name=name, input=arguments):
            members = [
                ("type", b'"tool_use"'),
                ("id", encode_string(call)),
                ("name", encode_string(name)),
                ("input", arguments if arguments[:1] == b"{" else obj((("arguments", arguments),))),
            ]
        case ToolResult(tool_use_id=call, content=content, is_error=is_error):
            inner = arr(encode_block(b, own) for b in content if own or _travels(b))
            members = [("type", b'"tool_result"'), ("tool_use_id", encode_string(call)), ("content", inner)]
            if is_error:
                members.append(("is_error", b"true"))
        case Image() | Document():
            kind = b'"image"' if isinstance(block, Image) else b'"document"'
            members = [("type", kind), ("source", _encode_source(block))]
    return obj((*members, *(block.extra if own else ())))


def _encode_source(block: Image | Document) -> bytes:
    if block.url is not None:
        return obj((("type", b'"url"'), ("url", encode_string(block.url))))
    kind = b'"text"' if block.media_type == "text/plain" else b'"base64"'
    media = encode_string(block.media_type or "application/octet-stream")
    return obj((("type", kind), ("media_type", media), ("data", encode_string(block.data or ""))))
