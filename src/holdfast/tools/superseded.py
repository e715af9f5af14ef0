"""Results that say nothing any more: files that were read again or changed, errors that were overcome.

A later call counts only if it was made after the result was there: what runs side by side overtakes nothing.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from .observations import Observation

Death = Literal["superseded", "overcome"]

_READS, _WRITES = frozenset({"read_file"}), frozenset({"write_file", "patch_file"})
_PATH = "path"
_SUBJECTS = ("path", "command", "pattern", "query", "url", "name")
"""What a call is about, in the order of trust: a call that failed is overcome by one about the same."""

_UNSAID = (("offset", 1), ("offset", None), ("limit", None))

Key = tuple[str, ...]


def deaths(observations: Sequence[Observation], failed: Collection[str] = ()) -> dict[int, Death]:
    """Which of the results are dead, by their number. `failed` are the ids of calls known to have failed, where the
    dialect does not say."""
    inputs = [_input(each) for each in observations]
    errors = [each.is_error or each.call.id in failed for each in observations]
    latest: dict[Key, int] = {}  # the last successful call that makes others dead
    for each, input_, error in zip(observations, inputs, errors, strict=True):
        for key in () if error else _makes_dead(each, input_):
            latest[key] = max(latest.get(key, -1), each.call.at)
    dead: dict[int, Death] = {}
    for number, (each, input_, error) in enumerate(zip(observations, inputs, errors, strict=True)):
        for key in _killed_by(each, input_, error):
            if latest.get(key, -1) > each.site.blocks[-1]:
                dead[number] = "overcome" if error else "superseded"
    return dead


def _input(each: Observation) -> Mapping[str, Any]:
    """What a call was given. Some models write it as JSON text, once more inside a string."""
    value: Any = each.call.input
    for _ in range(2):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        if isinstance(value, dict):
            return value
        if not isinstance(value, str):
            break
    return {}


def _makes_dead(each: Observation, given: Mapping[str, Any]) -> tuple[Key, ...]:
    """What a successful call makes dead."""
    keys: tuple[Key, ...] = (("failed", each.tool, _subject(given)),)
    if each.tool in _READS:
        keys += (("read", _path(given), _rest(given)),)
    elif each.tool in _WRITES:
        keys += (("written", _path(given)),)
    return keys


def _killed_by(each: Observation, given: Mapping[str, Any], error: bool) -> tuple[Key, ...]:
    """What would make this result dead."""
    if error:
        return (("failed", each.tool, _subject(given)),)
    if each.tool in _READS and _path(given):
        return ("read", _path(given), _rest(given)), ("written", _path(given))
    return ()


def _path(given: Mapping[str, Any]) -> str:
    path = given.get(_PATH)
    return posixpath.normpath(path) if isinstance(path, str) and path else ""


def _rest(given: Mapping[str, Any]) -> str:
    """Which part of a file is read; from the first line on is what nobody needs to say."""
    return _text({key: value for key, value in given.items() if key != _PATH and (key, value) not in _UNSAID})


def _subject(given: Mapping[str, Any]) -> str:
    for name in _SUBJECTS:
        value = given.get(name)
        if isinstance(value, str) and value:
            return f"{name}={posixpath.normpath(value) if name == _PATH else value}"
    return _text(given)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
