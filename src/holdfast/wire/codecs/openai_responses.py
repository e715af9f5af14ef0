"""OpenAI Responses as canonical values.

The input is a flat list of items; canonical messages group what belongs to one assistant turn. Members of an item
that are not its content (`id`, `status`) stay with the item's first block, under their name after `item.`.

On the way back to the dialect these are gone or spelled in one way: markers; the order of members; a bare string,
which becomes one part, except as a tool's output, where one plain text becomes a string; the kinds of text parts,
which follow from the role; `"type":"message"`, which every message gets; the role "system", which becomes "developer";
developer messages that the input begins with, which become `instructions` where they are one plain text and one message
where not; empty instructions and tools; spaces in a call's arguments; a tool's description that is null. A tool without
parameters gets `{}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

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

from ..openai import BREAKPOINT_KEY as _MARKER
from ..openai import SYSTEM_ROLES
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
from .openai import arguments_of, document_of, document_text, image_of, input_of, plain_system, url_of

NAME = "openai_responses"
LATE_TOOLS = "additional_tools"
"""An item that makes further tools known, from its place on."""
_TOP = ("model", "instructions", "input", "tools")
_ITEM = "item."
_BORDER = (_ITEM + "type", b'"message"')  # begins an item of its own
_PART = "part."  # before the kind of an unknown content part, which is no item of its own
Turn = Literal["user", "assistant", "system", "tool"]


def decode(members: Mapping[str, bytes]) -> Request:
    """A request from a body's top-level members.

    `instructions` are the system prompt; without them, the developer messages the input begins with.
    """
    messages = decode_input(members.get("input", b"[]"))
    system = as_segment((Text(text),) if (text := string_of(members.get("instructions"))) else ())
    if system is None:
        leading: list[Block] = []
        while messages and messages[0].role == "system":
            leading += messages.pop(0).content
        system = as_segment(tuple(leading))
    limit, read = limit_of(members, "max_output_tokens")
    return Request(
        model=f"openai:{string_of(members.get('model')) or ''}",
        tools=tuple(decode_tool(raw) for raw in array_of(members.get("tools", b"")) or ()),
        system_prompt=system,
        messages=tuple(messages),
        output_limit=limit,
        rest=extra_of(members, (*_TOP, *read)),
        dialect=NAME,
    )


def decode_tool(raw: bytes) -> ToolDefinition | Opaque:
    members = object_of(raw) or {}
    name = string_of(members.get("name"))
    if string_of(members.get("type")) != "function" or name is None or not is_text_or_none(members.get("description")):
        return opaque(string_of(members.get("type")), raw)
    named = ("type", "name", "description", "parameters")
    description = string_of(members.get("description"))
    return ToolDefinition(name, description, canon(members.get("parameters", b"{}")), extra_of(members, named))


def decode_input(raw: bytes) -> list[Message]:
    """Items in order; those of one assistant turn, and the results that answer it, become one message."""
    if (text := string_of(raw)) is not None:
        return [Message("user", (Text(text),))]
    runs: list[tuple[Turn, list[Block]]] = []
    for item in array_of(raw) or ():
        role, blocks = _decode_item(item)
        if runs and runs[-1][0] == role and role in ("assistant", "tool"):
            if _is_content(runs[-1][1][-1]) and _is_content(blocks[0]):
                blocks = _apart(item, blocks)
            runs[-1][1].extend(blocks)
        else:
            runs.append((role, list(blocks)))
    return [Message(role, tuple(blocks)) for role, blocks in runs]


def _apart(item: bytes, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """A message's blocks that say where it begins; an unknown part cannot, so the whole item stays opaque."""
    if isinstance(blocks[0], Opaque):
        return (opaque("message", item),)
    return (_with_extra(blocks[0], (_BORDER,)), *blocks[1:])


def _decode_item(raw: bytes) -> tuple[Turn, tuple[Block, ...]]:
    members = object_of(raw) or {}
    kind = string_of(members.get("type")) or ("message" if "role" in members else None)
    call = string_of(members.get("call_id"))
    if kind == "message":
        return _decode_message(members, raw)
    name, arguments = string_of(members.get("name")), members.get("arguments", b'""')
    if kind == "function_call" and call is not None and name is not None and string_of(arguments) is not None:
        extra = _item_extra(members, ("type", "call_id", "name", "arguments"))
        return "assistant", (ToolUse(call, name, input_of(arguments), extra),)
    if kind == "function_call_output" and call is not None:
        extra = _item_extra(members, ("type", "call_id", "output"))
        output = members.get("output", b'""')
        if (text := string_of(output)) is not None:
            return "tool", (ToolResult(call, (Text(text),) if text else (), extra=extra),)
        if (items := array_of(output)) is not None:
            parts = tuple(_decode_part(item) for item in items)
            return "tool", (ToolResult(call, () if parts == (Text(""),) else parts, extra=extra),)
    if kind == LATE_TOOLS:  # said by the developer, wherever it stands
        return "system", (opaque(kind, raw),)
    return "tool" if (kind or "").endswith("_output") else "assistant", (opaque(kind, raw, call),)


def _decode_message(members: Mapping[str, bytes], raw: bytes) -> tuple[Turn, tuple[Block, ...]]:
    """A message's parts; the whole item stays opaque where its members would have no block to stay with."""
    role = string_of(members.get("role")) or "user"
    turn: Turn = "system" if role in SYSTEM_ROLES else "assistant" if role == "assistant" else "user"
    content = members.get("content", b"[]")
    if (text := string_of(content)) is not None:
        blocks: tuple[Block, ...] = (Text(text),)
    else:
        blocks = tuple(_decode_part(part) for part in array_of(content) or ())
    extra = _item_extra(members, ("type", "role", "content"))
    if not blocks or (extra and isinstance(blocks[0], Opaque)) or role not in (turn, *SYSTEM_ROLES):
        return turn, (opaque("message", raw),)
    return turn, (_with_extra(blocks[0], extra), *blocks[1:])


def _with_extra(block: Block, extra: Extra) -> Block:
    return block if isinstance(block, Opaque) or not extra else replace(block, extra=(*block.extra, *extra))


def _is_content(block: Block) -> bool:
    """Whether a block is part of a message item, not an item of its own."""
    return not isinstance(block, ToolUse | ToolResult) and (not isinstance(block, Opaque) or _is_part(block))


def _item_extra(members: Mapping[str, bytes], named: tuple[str, ...]) -> Extra:
    return tuple((_ITEM + key, raw) for key, raw in extra_of(members, named))


def _decode_part(raw: bytes) -> Block:
    members = object_of(raw)
    if members is None:
        return opaque(_PART, raw)
    members.pop(_MARKER, None)
    match string_of(members.get("type")):
        case "input_text" | "output_text" | "text" if (text := string_of(members.get("text"))) is not None:
            return Text(text, extra_of(members, ("type", "text")))
        case "input_image" if (url := string_of(members.get("image_url"))) is not None:
            return replace(image_of(url), extra=extra_of(members, ("type", "image_url")))
        case "input_file" if (url := string_of(members.get("file_url"))) is not None:
            return Document(url=url, extra=extra_of(members, ("type", "file_url")))
        case "input_file" if (file := document_of(string_of(members.get("file_data")) or "")) is not None:
            return replace(file, extra=extra_of(members, ("type", "file_data")))
        case kind:
            return opaque(f"{_PART}{kind or ''}", obj(members.items()))


def encode(request: Request) -> bytes:
    own = request.dialect in (None, NAME)
    plain = plain_system(request)
    members = [("model", encode_string(wire_model(request.model)))]
    items: list[bytes] = []
    if plain is not None:
        if plain:
            members.append(("instructions", encode_string(plain)))
    else:
        items += _encode_system(request, own)
    for message in request.messages:
        items += _encode_message(message, own)
    members.append(("input", arr(items)))
    tools = [_encode_tool(tool, own) for tool in request.tools if own or not isinstance(tool, Opaque)]
    if tools:
        members.append(("tools", arr(tools)))
    if request.output_limit is not None:
        members.append(("max_output_tokens", b"%d" % request.output_limit))
    return obj((*members, *(request.rest if own else ())))


def _encode_system(request: Request, own: bool) -> Iterator[bytes]:
    stable, volatile = as_blocks(request.system_prompt), as_blocks(request.system_prompt_volatile)
    if not own:
        stable, volatile = _bare(stable), _bare(volatile)
    yield from _encode_message(Message("system", (*stable, *volatile)), own=True)


def _bare(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Blocks without what only another dialect understands."""
    return tuple(replace(block, extra=()) for block in blocks if not isinstance(block, Opaque))


def _encode_tool(tool: ToolDefinition | Opaque, own: bool) -> bytes:
    if isinstance(tool, Opaque):
        return tool.raw
    members = [("type", b'"function"'), ("name", encode_string(tool.name))]
    if tool.description is not None:
        members.append(("description", encode_string(tool.description)))
    members.append(("parameters", tool.input_schema))
    return obj((*members, *(tool.extra if own else ())))


def _encode_message(message: Message, own: bool) -> Iterator[bytes]:
    """Runs of content become message items; calls, results and unknown items stand alone, all in order."""
    kind = b'"output_text"' if message.role == "assistant" else b'"input_text"'
    role = {"system": "developer", "tool": "user"}.get(message.role, message.role)
    run: list[Block] = []

    def flush() -> Iterator[bytes]:
        parts = list(_parts(run, kind, own))
        if parts:
            extra = (pair for pair in _from_items(run, own) if pair[0] != "type")
            yield obj((("type", b'"message"'), ("role", encode_string(role)), ("content", arr(parts)), *extra))
        run.clear()

    content = message.content
    if message.role == "user":  # answers first: what the user says with them comes after the turn that they end
        content = tuple(sorted(content, key=lambda block: not isinstance(block, ToolResult)))
    for block in content:
        item = _encode_item(block, own)
        if item is None:
            if run and own and any(key.startswith(_ITEM) for key, _ in _extra(block)):
                yield from flush()
            run.append(block)
        else:
            yield from flush()
            yield item
    yield from flush()


def _encode_item(block: Block, own: bool) -> bytes | None:
    extra = _from_items((block,), own)
    match block:
        case ToolUse(id=call, name=name, input=input):
            members = [
                ("call_id", encode_string(call)),
                ("name", encode_string(name)),
                ("arguments", arguments_of(input)),
            ]
            return obj((("type", b'"function_call"'), *members, *extra))
        case ToolResult(tool_use_id=call, content=content):
            answer = (("call_id", encode_string(call)), ("output", _encode_output(content, own)))
            return obj((("type", b'"function_call_output"'), *answer, *extra))
        case Opaque(raw=raw) if own and not _is_part(block):
            return raw
    return None


def _encode_output(content: tuple[Block, ...], own: bool) -> bytes:
    if not content:
        return b'""'
    if len(content) == 1 and isinstance(content[0], Text) and not (own and content[0].extra):
        return encode_string(content[0].text)
    return arr(_parts(content, b'"input_text"', own))


def _is_part(block: Opaque) -> bool:
    return block.kind.startswith(_PART)


def _parts(blocks: Iterable[Block], text_kind: bytes, own: bool) -> Iterator[bytes]:
    for block in blocks:
        extra = tuple(pair for pair in _extra(block) if not pair[0].startswith(_ITEM)) if own else ()
        match block:
            case Text(text=text):
                yield obj((("type", text_kind), ("text", encode_string(text)), *extra))
            case Image():
                yield obj((("type", b'"input_image"'), ("image_url", encode_string(url_of(block))), *extra))
            case Document(url=str(url)):
                yield obj((("type", b'"input_file"'), *extra, ("file_url", encode_string(url))))
            case Document() if (plain := document_text(block)) is not None:
                yield obj((("type", text_kind), ("text", encode_string(plain))))
            case Document():
                names = extra or (("filename", b'"document"'),)
                yield obj((("type", b'"input_file"'), *names, ("file_data", encode_string(url_of(block)))))
            case Opaque(raw=raw) if own and _is_part(block):
                yield raw


def _extra(block: Block) -> Extra:
    return () if isinstance(block, Opaque) else block.extra


def _from_items(blocks: Iterable[Block], own: bool) -> Extra:
    """The item members that hang on the blocks of one item."""
    if not own:
        return ()
    return tuple(
        (key.removeprefix(_ITEM), raw) for block in blocks for key, raw in _extra(block) if key.startswith(_ITEM)
    )
