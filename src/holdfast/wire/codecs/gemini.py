"""Gemini `generateContent` as canonical values.

Gemini pairs calls and responses by name and order where they carry no id; canonical ids are made from their order and
left out again on the way back.

On the way back to the dialect these are gone or spelled in one way: members of the system instruction beside its
parts, such as its role; the order of members; the borders between neighbouring lists of functions; a function's
description or a thought's signature that is null; an empty list of tools and an empty `generationConfig`. A content
without a role is the user's, a call without arguments and a response without content get `{}`, and so does a function
without a schema.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from holdfast.records import (
    Block,
    Document,
    Extra,
    Image,
    Message,
    Opaque,
    Request,
    Role,
    Text,
    Thinking,
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
)

NAME = "gemini"
_TOP = ("contents", "tools")
_ROLES: dict[str | None, Role] = {"model": "assistant", "system": "system"}
MADE_ID = "gemini-call-"
_KEY = "response"  # on the text of a response: the member it stood in, null for the whole object

_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")
"""A tool's JSON schema; the API reads both spellings, and Google's own SDK writes the second."""


def decode(members: Mapping[str, bytes], model: str) -> Request:
    system_name = "systemInstruction" if "systemInstruction" in members else "system_instruction"
    system = object_of(members.get(system_name, b"")) or {}
    config = object_of(members.get("generationConfig", b""))
    limit, read = limit_of(config or {}, "maxOutputTokens")
    rest = extra_of(members, (*_TOP, system_name, *(() if config is None else ("generationConfig",))))
    if config and (settings := extra_of(config, read)):
        rest = (*rest, ("generationConfig", obj(settings)))
    decoder = _Contents()
    return Request(
        model=f"{NAME}:{model}",
        tools=tuple(tool for raw in array_of(members.get("tools", b"")) or () for tool in _decode_tools(raw)),
        system_prompt=as_segment(decoder.parts(system.get("parts"))),
        messages=tuple(decoder.message(raw) for raw in array_of(members.get("contents", b"")) or ()),
        output_limit=limit,
        rest=rest,
        dialect=NAME,
    )


def _decode_tools(raw: bytes) -> Iterator[ToolDefinition | Opaque]:
    members = object_of(raw) or {}
    declarations = array_of(members.get("functionDeclarations", b""))
    if declarations is None or len(members) > 1:
        yield opaque(next(iter(members), None), raw)
        return
    for item in declarations:
        function = object_of(item) or {}
        name, description = string_of(function.get("name")), string_of(function.get("description"))
        if name is None or not is_text_or_none(function.get("description")):
            yield opaque("functionDeclarations", obj((("functionDeclarations", arr([item])),)))
            continue
        # `parameters` is Gemini's own schema language: kept as it is, not taken for a JSON schema.
        named = next((name for name in _SCHEMAS if name in function), _SCHEMAS[0])
        schema = canon(function.get(named, b"{}"))
        extra = extra_of(function, ("name", "description", named))
        yield ToolDefinition(name, description, schema, extra)


class _Contents:
    """Decodes contents in order, pairing calls with responses. `origin` goes into the ids that are made."""

    def __init__(self, origin: str = "") -> None:
        self._made = 0
        self._origin = origin
        self._open: dict[str, dict[str, None]] = defaultdict(dict)  # per name, the unanswered calls in order

    def message(self, raw: bytes) -> Message:
        members = object_of(raw) or {}
        name = string_of(members.get("role"))
        extra = extra_of(members, ("role", "parts"))
        if name not in ("user", "model", None):
            extra = (("role", encode_string(name)), *extra)  # kept beside what it means here
        return Message(_ROLES.get(name, "user"), self.parts(members.get("parts")), extra)

    def parts(self, raw: bytes | None) -> tuple[Block, ...]:
        return tuple(self._part(item) for item in array_of(raw or b"") or ())

    def _part(self, raw: bytes) -> Block:
        members = object_of(raw) or {}
        if (text := string_of(members.get("text"))) is not None:
            if members.get("thought") == b"true" and is_text_or_none(members.get("thoughtSignature")):
                signature = string_of(members.get("thoughtSignature"))
                return Thinking(text, signature, extra_of(members, ("text", "thought", "thoughtSignature")))
            return Text(text, extra_of(members, ("text",)))
        if (call := object_of(members.get("functionCall", b""))) is not None:
            return self._call(call, extra_of(members, ("functionCall",)), raw)
        if (response := object_of(members.get("functionResponse", b""))) is not None:
            return self._response(response, extra_of(members, ("functionResponse",)), raw)
        return _media(members) or opaque(next(iter(members), None), raw)

    def _call(self, call: Mapping[str, bytes], extra: Extra, raw: bytes) -> Block:
        name, identity = string_of(call.get("name")), string_of(call.get("id"))
        if name is None:
            return opaque("functionCall", raw)
        if identity is None:
            self._made += 1
            identity = f"{MADE_ID}{self._origin}{self._made}"
        self._open[name][identity] = None
        args = call.get("args", b"{}")
        if call.keys() - {"id", "name", "args"} or args[:1] != b"{":
            return opaque("functionCall", raw, identity)
        return ToolUse(identity, name, canon(args), extra)

    def _response(self, response: Mapping[str, bytes], extra: Extra, raw: bytes) -> Block:
        name, identity = string_of(response.get("name")), string_of(response.get("id"))
        if name is None:
            return opaque("functionResponse", raw)
        waiting = self._open[name]
        if identity is None:
            identity = next(iter(waiting), f"{MADE_ID}unknown-{name}")
        waiting.pop(identity, None)
        if response.keys() - {"id", "name", "response"}:
            return opaque("functionResponse", raw, identity)
        content, is_error = _decode_response(response.get("response", b"{}"))
        return ToolResult(identity, content, is_error, (("name", encode_string(name)), *extra))


def decode_parts(parts: Iterable[bytes], origin: str) -> tuple[Block, ...]:
    """The parts of one answer. With the answer's own `origin` in them, made ids do not come again in later turns."""
    return _Contents(origin).parts(arr(parts))


def _decode_response(raw: bytes) -> tuple[tuple[Block, ...], bool]:
    """A response's text: that of its one string member, whose key is kept, or the whole object as JSON text."""
    members = object_of(raw) or {}
    key, value = next(iter(members.items()), ("", b""))
    if len(members) == 1 and (text := string_of(value)) is not None:
        extra: Extra = () if key in ("result", "error") else ((_KEY, encode_string(key)),)
        return (Text(text, extra),), key == "error"
    return (Text(canon(raw).decode("utf-8", "replace"), ((_KEY, b"null"),)),), False


def _media(members: Mapping[str, bytes]) -> Block | None:
    for key, data_key in (("inlineData", "data"), ("fileData", "fileUri")):
        source = object_of(members.get(key, b""))
        if source is None:
            continue
        mime, data = string_of(source.get("mimeType")), string_of(source.get(data_key))
        if mime is None or data is None or len(source) > 2 or len(members) > 1:
            return None
        if mime == "text/plain" and key == "inlineData":
            return None
        shape = Image if mime.startswith("image/") else Document
        return shape(mime, data=data) if key == "inlineData" else shape(mime, url=data)
    return None


def encode(request: Request) -> bytes:
    """A body: the system instruction's parts (volatile text last), tools, contents."""
    own = request.dialect in (None, NAME)
    names = {b.id: b.name for m in request.messages for b in m.content if isinstance(b, ToolUse)}
    members: list[tuple[str, bytes]] = []
    system = (*as_blocks(request.system_prompt), *as_blocks(request.system_prompt_volatile))
    if system:
        parts = arr(part for block in system for part in _encode_part(block, own, names))
        members.append(("systemInstruction", obj((("parts", parts),))))
    tools = list(_encode_tools(request, own))
    if tools:
        members.append(("tools", arr(tools)))
    members.append(("contents", arr(_encode_messages(request.messages, own, names))))
    rest = dict(request.rest) if own else {}
    if request.output_limit is not None:
        config = object_of(rest.get("generationConfig", b"{}")) or {}
        config["maxOutputTokens"] = b"%d" % request.output_limit
        rest["generationConfig"] = obj(config.items())
    return obj((*members, *rest.items()))


def _encode_tools(request: Request, own: bool) -> Iterator[bytes]:
    """Tools in order; neighbouring functions share one declaration list."""
    run: list[bytes] = []
    for tool in (*request.tools, None):
        if isinstance(tool, ToolDefinition):
            run.append(_encode_function(tool, own))
            continue
        if run:
            yield obj((("functionDeclarations", arr(run)),))
            run = []
        if tool is not None and own:
            yield tool.raw


def _encode_function(tool: ToolDefinition, own: bool) -> bytes:
    members = [("name", encode_string(tool.name))]
    if tool.description is not None:
        members.append(("description", encode_string(tool.description)))
    extra = tool.extra if own else ()
    if tool.input_schema != b"{}" or "parameters" not in dict(extra):
        members.append(("parametersJsonSchema", tool.input_schema))
    return obj((*members, *extra))


def _encode_messages(messages: Iterable[Message], own: bool, names: Mapping[str, str]) -> Iterator[bytes]:
    """Runs of tool messages become one content: their responses answer one turn of calls. Made-up ids come again on
    every turn, so a response has the name of the last call before it: a later one must not change what was sent."""
    responses: list[bytes] = []
    called = dict(names)
    for message in messages:
        called.update((block.id, block.name) for block in message.content if isinstance(block, ToolUse))
        parts = [part for block in message.content for part in _encode_part(block, own, called)]
        if message.role == "tool":
            responses += parts
            continue
        if responses:
            yield _content("user", responses)
            responses = []
        if parts or not message.content:
            yield _content("model" if message.role == "assistant" else "user", parts, message.extra if own else ())
    if responses:
        yield _content("user", responses)


def _content(role: str, parts: Iterable[bytes], extra: Extra = ()) -> bytes:
    return obj({"role": encode_string(role), "parts": arr(parts), **dict(extra)}.items())


def _encode_part(block: Block, own: bool, names: Mapping[str, str]) -> Iterator[bytes]:
    extra = block.extra if own and not isinstance(block, Opaque) else ()
    match block:
        case Text(text=text):
            yield obj((("text", encode_string(text)), *extra))
        case Thinking(text=text, signature=signature) if own:
            signed = (("thoughtSignature", encode_string(signature)),) if signature is not None else ()
            yield obj((("text", encode_string(text)), ("thought", b"true"), *signed, *extra))
        case ToolUse(id=identity, name=name, input=input):
            args = input if input[:1] == b"{" else obj((("arguments", input),))
            call = obj((*_identity(identity), ("name", encode_string(name)), ("args", args)))
            yield obj((("functionCall", call), *extra))
        case ToolResult(tool_use_id=identity):
            name = names.get(identity) or string_of(dict(extra).get("name")) or "unknown"
            response = obj(
                (*_identity(identity), ("name", encode_string(name)), ("response", _encode_response(block, own)))
            )
            yield obj((("functionResponse", response), *(pair for pair in extra if pair[0] != "name")))
            for inner in block.content:
                if isinstance(inner, Image | Document):
                    yield from _encode_part(inner, own, names)
        case Document(media_type="text/plain", data=str(text)):
            yield obj((("text", encode_string(text)),))
        case Image() | Document():
            unknown = "image/png" if isinstance(block, Image) else "application/octet-stream"
            mime = ("mimeType", encode_string(block.media_type or unknown))
            if block.url is not None:
                yield obj((("fileData", obj((mime, ("fileUri", encode_string(block.url))))),))
            else:
                yield obj((("inlineData", obj((mime, ("data", encode_string(block.data or ""))))),))
        case Opaque(raw=raw) if own:
            yield raw


def _identity(identity: str) -> Extra:
    return () if identity.startswith(MADE_ID) else (("id", encode_string(identity)),)


def _encode_response(block: ToolResult, own: bool) -> bytes:
    text = "\n\n".join(inner.text for inner in block.content if isinstance(inner, Text))
    key = "error" if block.is_error else "result"
    if own and len(block.content) == 1 and isinstance(block.content[0], Text):
        original = dict(block.content[0].extra).get(_KEY)
        if original == b"null":
            return text.encode("utf-8", "replace")
        key = key if original is None else string_of(original) or ""
    return obj(((key, encode_string(text)),))
