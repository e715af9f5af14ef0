"""Whether a call can be run: a tool has its name, its input is an object that fits the tool's schema; and the errors in
words on which a model can act.

A schema may be untrusted: one that is invalid, refers to another document or cannot be applied makes the call fail with
a text, and nothing is ever fetched. Untrusted regular expressions are not applied: one that backtracks for ever would
block the whole process, and its server checks the input itself. For the same reason references are counted: a few lines
of them can mean unbounded work. Compiled schemas are cached.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextvars import ContextVar
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, NoReturn

from holdfast.errors import HoldfastError
from holdfast.records import ToolUse

from .contract import RefusedCall, ToolExecutionError
from .text_limits import cut, describe_error, mend, shown

MOST = 5
"""Problems that are listed of one input."""
REFERENCES = 10_000
"""References of a stranger's schema that are followed for one input: less than a second."""
_LONGEST = 300
_REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")

_left: ContextVar[int] = ContextVar("holdfast_tools_references", default=REFERENCES)
_LONGEST_NAME = 128
"""Characters of a name that are compared with those that exist."""
_LISTED = 30


def require() -> None:
    """Raise an error with installation advice if the schema library is missing."""
    if find_spec("jsonschema") is None:
        raise HoldfastError("tools need the library jsonschema; pip install 'holdfast[agent]'")


def check(tool: str, schema: bytes, value: Any, *, stranger: bool = False, references: int = REFERENCES) -> str | None:
    """Return what is wrong with an input, or None. Raises ToolExecutionError if the schema itself is invalid. For the
    schema of a `stranger`, regular expressions are not applied, and at most `references` references are followed."""
    _left.set(references)
    try:
        problems = [_line(error) for error in islice(compile_schema(schema, stranger).iter_errors(value), MOST + 1)]
    except ToolExecutionError as error:
        raise ToolExecutionError(f"{shown(tool)} cannot be called: {error}") from error
    except Exception as error:  # applying a schema fails in as many ways as there are keywords
        why = f"its schema cannot be applied ({describe_error(error, _LONGEST)})"
        raise ToolExecutionError(f"{shown(tool)} cannot be called: {why}") from error
    if not problems:
        return None
    more = "\n- …and more" if len(problems) > MOST else ""
    lines = "".join(f"\n- {line}" for line in problems[:MOST])
    return f"The input of {shown(tool)} is not valid:{lines}{more}\nCorrect the input and call it again."


@lru_cache(maxsize=1024)
def compile_schema(schema: bytes, stranger: bool) -> Any:
    """A validator; kept by the text of the schema. `$schema` chooses the draft, 2020-12 is the default."""
    library, specifications = import_module("jsonschema"), import_module("jsonschema_specifications")
    try:
        document = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise ToolExecutionError("its schema is not JSON") from error
    if not isinstance(document, (dict, bool)):
        raise ToolExecutionError("its schema is neither an object nor true or false")
    draft = library.validators.validator_for(document, default=library.Draft202012Validator)
    try:
        draft.check_schema(document)
    except library.exceptions.SchemaError as error:
        raise ToolExecutionError(f"its schema is not valid ({cut(mend(error.message), _LONGEST)})") from error
    if stranger:
        draft = _careful(library, draft, patterned='"patternProperties"' in json.dumps(document))
    # This registry knows the drafts themselves and has no way to ask for anything else.
    return draft(document, registry=specifications.REGISTRY)


def _careful(library: Any, draft: Any, patterned: bool) -> Any:
    """A draft that applies no regular expressions and counts references."""
    left_out = ["pattern"]
    if patterned:  # what counts as additional depends on them
        left_out += ["patternProperties", "additionalProperties", "unevaluatedProperties"]
    counted = {name: _counted(draft.VALIDATORS[name]) for name in _REFERRING if name in draft.VALIDATORS}
    careful = library.validators.extend(draft, dict.fromkeys(left_out, _anything) | counted)
    evolve = careful.evolve

    def keep(validator: Any, **changes: Any) -> Any:
        """A part of a schema that names a draft of its own would be applied by that, without our care."""
        part = changes.pop("schema", validator.schema)
        if isinstance(part, dict) and "$schema" in part:
            part = {key: value for key, value in part.items() if key != "$schema"}
        return evolve(validator, schema=part, **changes)

    careful.evolve = keep
    return careful


def _counted(follow: Any) -> Any:
    def counted(validator: Any, reference: Any, value: Any, schema: Any) -> Any:
        remaining = _left.get()
        if remaining <= 0:
            raise ToolExecutionError("its schema refers to itself too often to be applied to this input")
        _left.set(remaining - 1)
        return follow(validator, reference, value, schema)

    return counted


def _anything(validator: Any, rule: Any, value: Any, schema: Any) -> tuple[()]:
    return ()


def _line(error: Any) -> str:
    """One problem and where it is. Of alternatives that all failed, the one that came closest says more than "none"."""
    if error.context:
        best = import_module("jsonschema").exceptions.best_match([error])
        error = best or error
    return f"{_place(error.absolute_path)}: {cut(mend(error.message), _LONGEST)}"


def _place(path: Iterable[str | int]) -> str:
    """Where in the input, as `edits[0].old`."""
    place = ""
    for part in path:
        if isinstance(part, int):
            place += f"[{part}]"
        elif re.fullmatch(r"\w+", part):
            place += f".{part}"
        else:
            place += f"[{shown(json.dumps(part, ensure_ascii=False))}]"
    return place.removeprefix(".") or "input"


def unknown(name: str, tools: Iterable[str]) -> RefusedCall:
    """A name that no tool has, and those it may have meant."""
    names = sorted(tools)
    near = get_close_matches(name[:_LONGEST_NAME], names, n=3)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif names:
        more = ", …" if len(names) > _LISTED else ""
        hint = f"There are: {', '.join(names[:_LISTED])}{more}."
    else:
        hint = "There are no tools."
    return RefusedCall(f"There is no tool named {shown(name)!r}. {hint}")


def read_input(call: ToolUse) -> dict[str, Any] | RefusedCall:
    """The input of a call as an object. None at all counts as an empty one: that is what some models send."""
    try:
        text = call.input.decode("utf-8") if isinstance(call.input, (bytes, bytearray)) else str(call.input)
        value = json.loads(text, parse_constant=_no_number) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else shown(error)
        return _invalid(call, f"is not valid JSON ({why})")
    if not isinstance(value, dict):
        return _invalid(call, "is not a JSON object")
    return value


def _invalid(call: ToolUse, problem: str) -> RefusedCall:
    return RefusedCall(f"The input of {shown(call.name)} {problem}. Call it again with one JSON object.", invalid=True)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")
