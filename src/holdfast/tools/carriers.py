"""How a tool that was not declared at first becomes callable: four carriers, and their answers.

`references`: the tool is in the tools array with `defer_loading`, which is not part of the prefix, and the answer
refers to it. `additional`: an input item after the answer declares it. `call_tool`: the answer has its schema, and it
is called through call_tool. `redeclare`: the tools array changes, at the price of everything after it. All but the last
leave what was sent before unchanged. Knows nothing of which tools there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.facts import ModelFacts
from holdfast.records import Block, Message, Opaque, Request, Text, ToolDefinition, ToolResult, ToolUse, encode_string
from holdfast.wire import DIALECTS, arr, array_of, canon, obj, object_of, string_of
from holdfast.wire.codecs import LATE_TOOLS

from .contract import CALL_TOOL, DISCOVER_TOOLS, RefusedCall, Tool
from .text_limits import shown
from .validation import read_input

Carrier = Literal["references", "additional", "call_tool", "redeclare"]

OPEN, CLOSE, SHORT = "<functions>", "</functions>", "[Discovery loaded:"

_NATIVE: dict[str, Carrier] = {"anthropic": "references", "openai_responses": "additional"}
_DEFER = ("defer_loading", b"true")
_LOOSE = ("strict", b"false")
_REFERENCE = "tool_reference"


class DiscoveryAnswer(Struct, frozen=True, kw_only=True):
    """What discover_tools answers, and the messages that have to follow the answers of the turn."""

    blocks: tuple[Block, ...]
    messages: tuple[Message, ...] = ()


def carrier_of(model: ModelFacts, dialect: str, setting: str) -> Carrier:
    """The carrier for a model: what is set, or the provider's own means where the facts know of one.

    `native` takes the dialect's means also for a model that the facts do not know to have it; where the dialect has
    none, every setting but `redeclare` means call_tool.
    """
    if setting == "redeclare":
        return "redeclare"
    native = _NATIVE.get(dialect)
    if native is not None and (setting == "native" or (setting == "auto" and model.late_tools == native)):
        return native
    return "call_tool"


def definition_of(tool: Tool, dialect: str = "") -> ToolDefinition:
    """Return a tool's definition for a request. Responses makes a function strict by default, and a strict one has no
    optional parameters."""
    loose = dialect == "openai_responses" and all(name != _LOOSE[0] for name, _ in tool.extra)
    extra = (*tool.extra, _LOOSE) if loose else tool.extra
    return ToolDefinition(tool.name, tool.description, canon(tool.input_schema), extra)


def waiting(definition: ToolDefinition) -> ToolDefinition:
    """A definition that the provider keeps out of the prompt until something refers to it."""
    return replace(definition, extra=(*(pair for pair in definition.extra if pair[0] != _DEFER[0]), _DEFER))


def function_text(definition: ToolDefinition) -> str:
    """One tool as the model reads it in an answer: name, description and parameters as JSON in one line."""
    members = [("name", encode_string(definition.name))]
    if definition.description is not None:
        members.append(("description", encode_string(definition.description)))
    text = obj((*members, ("parameters", definition.input_schema))).decode("utf-8", "replace")
    return text.replace("</", "<\\/")  # a description cannot end the block it stands in


def functions_text(definitions: Sequence[ToolDefinition]) -> str:
    lines = (f"<function>{function_text(definition)}</function>" for definition in definitions)
    return "\n".join((OPEN, *lines, CLOSE))


def loaded_text(names: Sequence[str]) -> str:
    """The short answer, where the schemas stand elsewhere."""
    head = f"{SHORT} {len(names)} tool(s) are now callable]"
    return "\n".join((head, *(f"- {name}" for name in names)))


def answer(
    carrier: Carrier, definitions: Sequence[ToolDefinition], names: Sequence[str], *, fresh: Sequence[str], full: bool
) -> DiscoveryAnswer:
    """Return the answer of a search that found these tools; some of `names` may be declared already.

    `fresh` are the names that no earlier answer had. With `full` the schemas are in the answer even where they are
    redundant; references have to be alone, because the provider accepts nothing else with them.
    """
    text = functions_text(definitions) if definitions and (full or carrier == "call_tool") else loaded_text(names)
    blocks: tuple[Block, ...] = (Text(text),)
    messages: tuple[Message, ...] = ()
    if carrier == "references" and definitions:
        blocks = tuple(_reference(definition.name) for definition in definitions)
    late = [definition for definition in definitions if definition.name in fresh]
    if carrier == "additional" and late:
        messages = (Message("system", (_additional(late),)),)
    return DiscoveryAnswer(blocks=blocks, messages=messages)


def _reference(name: str) -> Opaque:
    return Opaque(_REFERENCE, obj((("type", encode_string(_REFERENCE)), ("tool_name", encode_string(name)))))


def _additional(definitions: Sequence[ToolDefinition]) -> Opaque:
    body = DIALECTS["openai_responses"].encode(Request(model="", tools=tuple(definitions)))
    tools = (object_of(body) or {}).get("tools", arr(()))
    return Opaque(LATE_TOOLS, obj((("type", encode_string(LATE_TOOLS)), ("role", b'"developer"'), ("tools", tools))))


def loaded(messages: Iterable[Message]) -> tuple[str, ...]:
    """The tools that items in these messages declare."""
    items = [
        array_of((object_of(block.raw) or {}).get("tools", b""))
        for message in messages
        for block in message.content
        if isinstance(block, Opaque) and block.kind == LATE_TOOLS
    ]
    names = (string_of((object_of(tool) or {}).get("name")) for item in items for tool in item or ())
    return tuple(dict.fromkeys(name for name in names if name is not None))


def answered(messages: Sequence[Message], names: Iterable[str]) -> tuple[str, ...]:
    """Which of these tools an answer of discover_tools in these messages has named."""
    blocks = [block for message in messages for block in message.content]
    calls = {block.id for block in blocks if isinstance(block, ToolUse) and block.name == DISCOVER_TOOLS}
    texts = [
        part.text
        for block in blocks
        if isinstance(block, ToolResult) and block.tool_use_id in calls
        for part in block.content
        if isinstance(part, Text)
    ]
    return tuple(name for name in names if any(name in text for text in texts))


def fitting(messages: Iterable[Message], carrier: Carrier) -> tuple[Message, ...]:
    """Convert a conversation begun with another carrier: references to undeclared tools are refused, and so are items
    that a model does not know. Text replaces the former."""
    fitted = (_fitting(message, carrier) for message in messages)
    return tuple(message for message in fitted if message is not None)


def _fitting(message: Message, carrier: Carrier) -> Message | None:
    content = tuple(
        _worded(block) if isinstance(block, ToolResult) and carrier != "references" else block
        for block in message.content
        if carrier == "additional" or not (isinstance(block, Opaque) and block.kind == LATE_TOOLS)
    )
    if content == message.content:
        return message
    return replace(message, content=content) if content else None


def _worded(result: ToolResult) -> ToolResult:
    references = [block for block in result.content if isinstance(block, Opaque) and block.kind == _REFERENCE]
    if not references:
        return result
    names = (string_of((object_of(block.raw) or {}).get("tool_name")) or "" for block in references)
    text = f"Found: {', '.join(names)}. Search again for those that are not declared before you call them."
    return replace(result, content=(Text(text), *(block for block in result.content if block not in references)))


# Calls


def input_of(call: ToolUse) -> dict[str, Any] | RefusedCall:
    """A call's input as an object, also where a model wrote it as JSON text inside a string."""
    inner = string_of(call.input)
    return read_input(call if inner is None else replace(call, input=inner.encode("utf-8", "surrogatepass")))


def unwrapped(call: ToolUse) -> tuple[str, dict[str, Any]] | RefusedCall:
    """The tool that a call of call_tool means, and its input."""
    outer = input_of(call)
    if isinstance(outer, RefusedCall):
        return outer
    name, arguments = outer.get("name"), outer.get("arguments")
    if not isinstance(name, str) or not name:
        return RefusedCall(
            f"{CALL_TOOL} was called without the name of a tool. Call it with "
            '{"name": "the_tool", "arguments": {…}}; discover_tools finds names.',
            invalid=True,
        )
    beside = ", ".join(shown(key) for key in outer if key not in ("name", "arguments"))
    if beside and not arguments:
        return RefusedCall(
            f"{CALL_TOOL} was called with {beside} beside the name. "
            "Call it again with everything that is for the tool in `arguments`, an object.",
            invalid=True,
        )
    if arguments is None or isinstance(arguments, dict):
        return name, arguments or {}
    text = arguments if isinstance(arguments, str) else "[]"  # anything else is refused in the same words
    inner = read_input(ToolUse(call.id, name, text.encode("utf-8", "surrogatepass")))
    return inner if isinstance(inner, RefusedCall) else (name, inner)
