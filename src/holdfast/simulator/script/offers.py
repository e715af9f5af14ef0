"""The tools a request offers, and the calls that a step makes of them.

Some tools are made known by the conversation on its way: on Anthropic a result names a deferred tool; on Responses an
item holds the definitions. The model answers at the end, so everything that stands in the conversation counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.records import Block, Message, Opaque, Request, ToolDefinition, ToolResult
from holdfast.wire import array_of, object_of, references
from holdfast.wire.codecs import LATE_TOOLS, decode_tool

from ..messages import ToolCall
from .document import problem
from .rules import ANY, CallStep, Scene, Script, last_turn
from .schema_inputs import fit

_PREFIX = {"anthropic": "toolu_", "gemini": "fc-"}
_SERVER_TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset", "advisor")
"""What Anthropic runs itself; its other tools without a schema (bash, editor, memory) are the client's to run."""

_placeholder = re.compile(r"\{(last|turn|tool_result)\}")


class ToolOffer(Struct, frozen=True):
    """`deferred` while nothing in the conversation has made the tool known."""

    name: str
    schema: bytes
    deferred: bool = False


def offers(request: Request) -> tuple[ToolOffer, ...]:
    """The tools that can be called with a JSON object: in the request's order, then those that came later."""
    late, among = late_tools(request), allowed(request)
    names = {whole(name) for name in late.names}
    by_name: dict[str, ToolOffer] = {}
    for tool in (*request.tools, *late.tools):
        offer = _offer(tool, request.dialect)
        if offer is None or (among is not None and offer.name not in among):
            continue
        if offer.deferred and offer.name in names:
            offer = ToolOffer(offer.name, offer.schema)
        by_name.setdefault(offer.name, offer)
    return tuple(by_name.values())


def any_tools(request: Request) -> bool:
    """Whether a request declares tools at all."""
    return bool(request.tools) or bool(late_tools(request).tools)


def _offer(tool: ToolDefinition | Opaque, dialect: str | None) -> ToolOffer | None:
    if isinstance(tool, ToolDefinition):
        extra = dict(tool.extra)
        schema = tool.input_schema if tool.input_schema != b"{}" else extra.get("parameters", b"{}")
        return ToolOffer(whole(tool.name), schema, extra.get("defer_loading") == b"true")
    if dialect != "anthropic" or tool.kind.startswith(_SERVER_TOOLS):
        return None
    try:
        name = msgspec.json.decode(tool.raw).get("name")
    except (msgspec.DecodeError, RecursionError, AttributeError):
        return None
    return ToolOffer(whole(name), b"{}") if isinstance(name, str) else None


def calls(script: Script, steps: tuple[CallStep, ...], at: Scene, request: Request) -> tuple[ToolCall, ...]:
    """The calls of one reply. Their ids are a function of the conversation, so a repeated request repeats them."""
    if not steps:
        return ()
    offered = offers(request)
    prefix = _PREFIX.get(request.dialect or "", "call_")
    key = hashlib.blake2b(_ending(request.messages), digest_size=16).digest()
    tool_calls: list[ToolCall] = []
    anys = 0
    for index, step in enumerate(steps):
        if step.tool == ANY and all(offer.name != ANY for offer in offered):
            offer = _any(script, step, offered, at.turn - 1 + anys)
            anys += 1
        else:
            offer = _named(script, step, offered)
        value = fit(offer.schema) if step.input is None else fill_in(step.input, at)
        identity = prefix + hashlib.blake2b(b"%d" % index, key=key, digest_size=12).hexdigest()
        tool_calls.append(ToolCall(identity, offer.name, _json(script, step, value)))
    return tuple(tool_calls)


def _ending(messages: tuple[Message, ...]) -> bytes:
    """What ids are made of: how far the conversation has come, and all of it since the assistant's last turn.

    That turn holds the ids of its own calls, so ids differ all along a conversation, even one that loses its beginning.
    """
    end = (len(messages), messages[last_turn(messages) :])
    try:
        return msgspec.msgpack.encode(end)
    except UnicodeEncodeError:  # half of a surrogate pair, which has a form in Python only
        return repr(end).encode()


def _any(script: Script, step: CallStep, offered: tuple[ToolOffer, ...], position: int) -> ToolOffer:
    """Each turn the next tool, so that a long conversation calls them all; those not loaded yet are left out."""
    usable = [offer for offer in offered if not offer.deferred]
    if not usable:
        raise problem(script.name, step.line, "the rule calls any tool, but the request offers none")
    return usable[position % len(usable)]


def _named(script: Script, step: CallStep, offered: tuple[ToolOffer, ...]) -> ToolOffer:
    offer = next((each for each in offered if each.name == step.tool), None)
    if offer is not None and not offer.deferred:
        return offer
    names = ", ".join(each.name for each in offered if not each.deferred) or "nothing"
    why = "which the request does not offer" if offer is None else "which is deferred and was not found yet"
    raise problem(script.name, step.line, f"the rule calls the tool {step.tool!r}, {why} (offered: {names})")


def fill_in(value: Any, at: Scene) -> Any:
    """A value with the placeholders in its texts replaced; other braces are left alone."""
    if isinstance(value, str):
        return whole(_placeholder.sub(lambda match: _words(at, match[1]), value))
    if isinstance(value, dict):
        return {key: fill_in(inner, at) for key, inner in value.items()}
    return [fill_in(inner, at) for inner in value] if isinstance(value, list) else value


def _words(at: Scene, name: str) -> str:
    if name == "turn":
        return str(at.turn)
    return at.last_text if name == "last" else "\n".join(result.text for result in at.results)


def whole(text: str) -> str:
    """A text without lone surrogates, which no model produces and no response can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _json(script: Script, step: CallStep, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise problem(script.name, step.line, f"the call's `input` has no form in JSON ({error})") from error


_HOLDERS = (LATE_TOOLS, "tool_search_output")


class LateTools(Struct, frozen=True):
    """Deferred tools that were made known by their names, and tools that came with their definitions."""

    names: frozenset[str] = frozenset()
    tools: tuple[ToolDefinition | Opaque, ...] = ()


def late_tools(request: Request) -> LateTools:
    """Return the tools that a request's conversation defines."""
    names: set[str] = set()
    tools: list[ToolDefinition | Opaque] = []
    for block in _opaque(request):
        if block.kind == "tool_reference":
            names.add(str(_members(block.raw).get("tool_name")))
        elif block.kind.endswith("tool_result"):
            names.update(references(block.raw))
        elif block.kind in _HOLDERS:
            held = [decode_tool(raw) for raw in array_of((object_of(block.raw) or {}).get("tools", b"")) or ()]
            tools += held
            names.update(tool.name for tool in held if isinstance(tool, ToolDefinition))
    return LateTools(frozenset(names), tuple(tools))


def _opaque(request: Request) -> Iterator[Opaque]:
    """The blocks of unknown kinds, in results too."""
    system = request.system_prompt if isinstance(request.system_prompt, tuple) else ()
    blocks: list[Block] = [*system, *(block for message in request.messages for block in message.content)]
    for block in blocks:
        for each in block.content if isinstance(block, ToolResult) else (block,):
            if isinstance(each, Opaque):
                yield each


def allowed(request: Request) -> frozenset[str] | None:
    """The tools that `tool_choice` restricts the model to; None where it may call any."""
    choice = _members(dict(request.rest).get("tool_choice", b""))
    if choice.get("type") != "allowed_tools":
        return None
    inner = choice.get("allowed_tools")
    tools = (inner if isinstance(inner, dict) else choice).get("tools")
    names = [_name(tool) for tool in tools] if isinstance(tools, list) else []
    return frozenset(name for name in names if name is not None)


def _name(tool: Any) -> str | None:
    """A tool by its name; Chat Completions wraps it once more."""
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _members(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw) if raw else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
