"""Anthropic Messages as canonical values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.canonical import (
    Block,
    Document,
    Extra,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Request,
    Role,
    Text,
    Thinking,
    ToolDefinition,
    ToolResult,
    ToolUse,
    encode_string,
)

from ..values import (
    arr,
    array_of,
    as_blocks,
    as_segment,
    canon,
    extra_of,
    int_of,
    obj,
    object_of,
    opaque,
    string_of,
    wire_model,
)

NAME = "anthropic"
MARKERS = {"5m": b'{"type":"ephemeral"}', "1h": b'{"type":"ephemeral","ttl":"1h"}'}
"""A five-minute marker has no ttl member: it is the default, and compatible servers may refuse the member."""

_TOP = ("model", "max_tokens", "tools", "system", "messages", "cache_control")


def decode(members: Mapping[str, bytes]) -> Request:
    """A request from a body's top-level members. System blocks after the last marked one are the volatile segment."""
    stable, volatile = _decode_system(members.get("system"))
    return Request(
        model=f"{NAME}:{string_of(members.get('model')) or ''}",
        tools=tuple(decode_tool(raw) for raw in array_of(members.get("tools", b"")) or ()),
        system_prompt=as_segment(stable),
        system_prompt_volatile=as_segment(volatile),
        messages=tuple(_decode_message(raw) for raw in array_of(members.get("messages", b"")) or ()),
        output_limit=int_of(members.get("max_tokens")),
        rest=extra_of(members, _TOP),
        dialect=NAME,
    )


def _decode_system(raw: bytes | None) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    if raw is None or raw == b"null":
        return (), ()
    if (text := string_of(raw)) is not None:
        return (Text(text),), ()
    items = array_of(raw) or []
    marked = [i for i, item in enumerate(items) if (object_of(item) or {}).get("cache_control", b"null") != b"null"]
    border = marked[-1] + 1 if marked else len(items)
    return tuple(map(decode_block, items[:border])), tuple(map(decode_block, items[border:]))


def decode_tool(raw: bytes) -> ToolDefinition | Opaque:
    members = object_of(raw)
    name = string_of(members.get("name")) if members else None
    if members is None or name is None or "input_schema" not in members:
        return opaque(string_of((members or {}).get("type")), unmarked(raw))
    known = ("name", "description", "input_schema", "cache_control")
    description = string_of(members.get("description"))
    if description is None and "description" in members:
        return opaque("tool", unmarked(raw))
    return ToolDefinition(name, description, canon(members["input_schema"]), extra_of(members, known))


def _decode_message(raw: bytes) -> Message:
    members = object_of(raw) or {}
    content = members.get("content", b"[]")
    role = string_of(members.get("role")) or "user"
    if (text := string_of(content)) is not None:
        blocks: tuple[Block, ...] = (Text(text),)
    else:
        blocks = tuple(decode_block(item) for item in array_of(content) or ())
    return Message(_role(role), blocks, extra_of(members, ("role", "content")))


def _role(role: str) -> Role:
    return role  # type: ignore[return-value]  # a role nobody knows is named by validate()


def decode_block(raw: bytes) -> Block:
    """One content block; anything that is not of its kind's known shape stays opaque."""
    members = object_of(raw)
    if members is None:
        return opaque(None, raw)
    members.pop("cache_control", None)
    kind = string_of(members.get("type"))
    block = _decode_known(kind, members)
    return block if block is not None else opaque(kind, obj(members.items()))


def _decode_known(kind: str | None, members: Mapping[str, bytes]) -> Block | None:
    def text(key: str) -> str | None:
        return string_of(members.get(key))

    def extra(*known: str) -> Extra:
        return extra_of(members, ("type", *known))

    match kind:
        case "text" if (value := text("text")) is not None:
            return Text(value, extra("text"))
        case "thinking" if (value := text("thinking")) is not None:
            return Thinking(value, text("signature"), extra("thinking", "signature"))
        case "redacted_thinking" if (value := text("data")) is not None:
            return RedactedThinking(value, extra("data"))
        case "tool_use" if (call := text("id")) is not None and (name := text("name")) is not None:
            return ToolUse(call, name, canon(members.get("input", b"{}")), extra("id", "name", "input"))
        case "tool_result" if (call := text("tool_use_id")) is not None:
            return _decode_result(call, members)
        case "image" | "document":
            return _decode_source(kind, members)
    return None


def _decode_result(call: str, members: Mapping[str, bytes]) -> Block | None:
    content = members.get("content", b"[]")
    is_error = members.get("is_error", b"false")
    if (text := string_of(content)) is not None:
        inner: tuple[Block, ...] = (Text(text),)
    elif (items := array_of(content)) is not None:
        inner = tuple(decode_block(item) for item in items)
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
            return shape(media_type=media, data=data, extra=extra)
        case {"type": "text", "media_type": "text/plain", "data": str(data), **more} if not more:
            return shape(media_type="text/plain", data=data, extra=extra)
    return None


def unmarked(raw: bytes) -> bytes:
    """The canonical text of a block without its own marker and those nested in it; a string stays one text block."""
    members = object_of(raw)
    if members is None:
        return canon(raw)
    members.pop("cache_control", None)
    if string_of(members.get("type")) == "tool_result":
        content = members.get("content", b"")
        if content[:1] == b'"':
            members["content"] = arr([as_text_block(content)])
        elif (items := array_of(content)) is not None:
            members["content"] = arr(unmarked(item) for item in items)
    return obj((key, canon(value)) for key, value in members.items())


def as_text_block(literal: bytes) -> bytes:
    """A string is one text block."""
    return b'{"type":"text","text":' + canon(literal) + b"}"


def encode(request: Request, mark: str | None = None) -> bytes:
    """A body; with `mark`, the two breakpoints of that TTL: the last tool and the last stable system block."""
    own = request.dialect == NAME
    members: list[tuple[str, bytes]] = [("model", encode_string(wire_model(request.model)))]
    if request.output_limit is not None:
        members.append(("max_tokens", b"%d" % request.output_limit))
    tools = [tool for tool in request.tools if own or not isinstance(tool, Opaque)]
    if tools:
        encoded = [encode_tool(tool, own) for tool in tools]
        _mark_last(encoded, mark, deferred=b'"defer_loading":true')
        members.append(("tools", arr(encoded)))
    stable = [encode_block(block, own) for block in as_blocks(request.system_prompt)]
    volatile = [encode_block(block, own) for block in as_blocks(request.system_prompt_volatile)]
    if stable or volatile:
        _mark_last(stable, mark)
        members.append(("system", arr([*stable, *volatile])))
    members.append(("messages", arr(_encode_messages(request.messages, own))))
    if own:
        members += request.rest
    return obj(members)


def _mark_last(encoded: list[bytes], mark: str | None, deferred: bytes | None = None) -> None:
    if mark is None:
        return
    for i in range(len(encoded) - 1, -1, -1):
        if deferred is None or deferred not in encoded[i]:
            encoded[i] = encoded[i][:-1] + b',"cache_control":' + MARKERS[mark] + b"}"
            return


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
        blocks = [encode_block(b, own) for b in message.content if own or not isinstance(b, Opaque)]
        if message.role == "tool":
            results += blocks
            continue
        if results:
            yield _message("user", results, ())
            results = []
        yield _message(message.role, blocks, message.extra if own else ())
    if results:
        yield _message("user", results, ())


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
                ("input", arguments),
            ]
        case ToolResult(tool_use_id=call, content=content, is_error=is_error):
            inner = arr(encode_block(b, own) for b in content if own or not isinstance(b, Opaque))
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
