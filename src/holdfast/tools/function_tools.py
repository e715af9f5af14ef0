"""A tool from a function: its hints become the schema, its docstring the description, what it returns the output.

A plain function runs in a thread of its own. A parameter hinted `ToolContext` is passed and stands in no schema.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, cast, get_args, get_type_hints, overload

import msgspec

from holdfast.errors import ArgumentError, HoldfastError, wrong_argument
from holdfast.records import Block, canonical_json

from .contract import Effect, Tool, ToolContext, ToolExecutionError, ToolOutput
from .text_limits import describe_error
from .time_limits import in_thread

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BYTES = (bytes, bytearray, memoryview)


@overload
def tool(
    function: Callable[..., Any],
    *,
    effect: Effect,
    name: str | None = None,
    description: str | None = None,
    **tool_fields: Any,
) -> Tool: ...


@overload
def tool(
    function: None = None,
    *,
    effect: Effect,
    name: str | None = None,
    description: str | None = None,
    **tool_fields: Any,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    *,
    effect: Effect | None = None,
    name: str | None = None,
    description: str | None = None,
    **tool_fields: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function, also as a decorator; `tool_fields` are further fields of the tool."""

    _check(function, effect, name, description)

    def make(function: Callable[..., Any]) -> Tool:
        if not callable(function):
            raise wrong_argument("@tool", function, _EXAMPLE)
        called = name or str(getattr(function, "__name__", ""))
        if called == "<lambda>":
            raise HoldfastError(f"a tool is made of a function with a name, not of a lambda; write {_EXAMPLE}")
        if not _NAME.fullmatch(called):
            raise HoldfastError(f"a tool cannot be named {called!r}; use up to 64 letters, digits, - and _")
        about = description or inspect.getdoc(function) or ""
        if not about.strip():
            raise HoldfastError(f"the tool {called} says nothing about itself; give it a docstring or a description")
        shape, context = _shape(function, called)
        run = _runner(function, called, shape, context)
        schema = _schema(shape, called)
        try:
            made = Tool(
                name=called,
                description=about,
                run=run,
                effect=cast("Effect", effect),
                **{"input_schema": schema} | tool_fields,
            )
        except TypeError as problem:
            near = [get_close_matches(each, Tool.__struct_fields__, n=1, cutoff=0.75) for each in tool_fields]
            close_fields = [
                close[0] for each, close in zip(tool_fields, near, strict=True) if close and close[0] != each
            ]
            hint = f"did you mean {', '.join(close_fields)}?" if close_fields else "see Tool for its fields"
            raise HoldfastError(f"the tool {called} cannot be made: {problem}; {hint}") from problem
        members = json.loads(schema)["properties"]
        for touch in made.paths:
            if touch.member not in members:
                raise HoldfastError(f"the tool {called} has no parameter {touch.member!r}; correct its paths")
        return made

    return make if function is None else make(function)


_EFFECTS = get_args(Effect)
_EXAMPLE = "a function that has hints and a docstring: @tool(effect='read') above def find_room(city: str) -> str"


def _check(function: object, effect: object, name: object, description: object) -> None:
    """Before the function is known: this is the line where the mistake is."""
    if function is not None and not callable(function):
        raise wrong_argument("@tool", function, _EXAMPLE)
    if effect not in _EFFECTS:
        problem = "says nothing of the tool's effect" if effect is None else f"got the effect {effect!r}, which is none"
        matches = get_close_matches(effect, _EFFECTS, n=1) if isinstance(effect, str) else []
        hint = f" Did you mean {matches[0]!r}?" if matches else ""
        raise ArgumentError(
            f"@tool {problem}; give one of {', '.join(map(repr, _EFFECTS))}, such as @tool(effect='read') for what "
            f"changes nothing.{hint}"
        )
    for argument, value in (("name", name), ("description", description)):
        if value is not None and not isinstance(value, str):
            raise wrong_argument(f"@tool({argument}=…)", value, f"a text, such as @tool(effect='read', {argument}='…')")


def _shape(function: Callable[..., Any], name: str) -> tuple[type[msgspec.Struct], str | None]:
    """The parameters as a struct, and the one that takes the context."""
    try:
        parameters = inspect.signature(function).parameters.values()
        hints = get_type_hints(_hinted(function), include_extras=True)
    except (NameError, TypeError, ValueError) as problem:
        why = f"its hints cannot be read ({problem})"
        raise HoldfastError(f"the tool {name} cannot be made: {why}; use names of its module") from problem
    fields: list[Any] = []
    context = None
    for each in parameters:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise HoldfastError(f"the tool {name} takes {each}; give every parameter a name that can be passed")
        if each.name not in hints:
            raise HoldfastError(
                f"the parameter {each.name} of the tool {name} has no type; add a hint, such as {each.name}: str"
            )
        if hints[each.name] is ToolContext:
            context = each.name
        elif each.default is each.empty:
            fields.append((each.name, hints[each.name]))
        else:
            fields.append((each.name, hints[each.name], _default(each.default)))
    try:
        return msgspec.defstruct("Input", fields, kw_only=True, forbid_unknown_fields=True), context
    except (TypeError, ValueError) as problem:
        raise HoldfastError(f"the tool {name} cannot be made: {problem}; rename that parameter") from problem


def _hinted(function: Any) -> Any:
    """Return the object with a callable's type hints."""
    if isinstance(function, partial):
        return _hinted(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def _default(value: Any) -> Any:
    """A default that no call can change for the next one."""
    if value is None or isinstance(value, (str, int, float, bool, tuple)) or value in ([], {}):
        return value
    return msgspec.field(default_factory=lambda: copy.deepcopy(value))


def _schema(shape: type[msgspec.Struct], name: str) -> bytes:
    try:
        (root,), parts = msgspec.json.schema_components([shape], ref_template="{name}")
        whole = _inlined(root, parts, ())
    except (TypeError, RecursionError) as problem:
        raise HoldfastError(
            f"the tool {name} has a parameter without a schema: {problem}; use plain types"
        ) from problem
    return canonical_json(json.dumps(whole, ensure_ascii=False).encode())


def _inlined(schema: Any, parts: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    """A schema without references, names of classes, or room for members that nobody reads."""
    if isinstance(schema, list):
        return [_inlined(each, parts, inside) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = schema["$ref"]
        if part in inside:
            raise TypeError(f"{part} contains itself")
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined(parts[part], parts, (*inside, part)) | rest
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {member: _inlined(each, parts, inside) for member, each in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            result[key] = value
        elif key != "title":
            result[key] = _inlined(value, parts, inside)
    if "properties" in result:
        result.setdefault("additionalProperties", False)
    return result


def _runner(
    function: Callable[..., Any], name: str, shape: type[msgspec.Struct], context: str | None
) -> Callable[[Mapping[str, Any], ToolContext], Any]:
    waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_hinted(function))

    async def run(input: Mapping[str, Any], context_: ToolContext) -> ToolOutput:
        values = _read(dict(input), shape, name)
        arguments: dict[str, Any] = {field: getattr(values, field) for field in shape.__struct_fields__}
        if context is not None:
            arguments[context] = context_
        value = await (function(**arguments) if waits else in_thread(function, **arguments))
        return as_output(await value if inspect.isawaitable(value) else value, name)

    return run


def _read(input: dict[str, Any], shape: type[msgspec.Struct], name: str) -> Any:
    try:
        return msgspec.convert(input, shape)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(input, shape, strict=False)  # to a schema 5.0 is a whole number
    except msgspec.ValidationError as problem:
        raise ToolExecutionError(f"The input of {name} is not valid: {problem}") from problem


def as_output(value: Any, name: str) -> ToolOutput:
    """Convert a function's return value: texts and blocks stay, other values become JSON."""
    if isinstance(value, ToolOutput):
        return value
    if value is None or isinstance(value, str):
        return ToolOutput(content=value or "")
    if isinstance(value, Block):
        return ToolOutput(content=(value,))
    if isinstance(value, (tuple, list)) and value and all(isinstance(each, Block) for each in value):
        return ToolOutput(content=tuple(value))
    try:
        plain = msgspec.to_builtins(value, builtin_types=_BYTES, str_keys=True)
        return ToolOutput(content=json.dumps(plain, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as problem:
        raise ToolExecutionError(
            f"{name} ran, but what it returned is neither text nor JSON ({describe_error(problem, 200)})"
        ) from problem
