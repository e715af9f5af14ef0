"""Makes a request that went wrong smaller, as long as it still goes wrong in the same manner."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from .fuzzing_cases import Case
from .fuzzing_wire import NUMBER

TIMEOUT_S = 20.0
_ALIKE = 12
"""Characters by which two faults are the same."""


Ask = Callable[[Case], str | None]


def shrunk(case: Case, fault: str, ask: Ask) -> tuple[Case, bool]:
    """The smallest request found, and whether it fails alone: with a key and in a session nobody had before."""
    tried = iter(range(10**9))

    def fails(each: Case) -> bool:
        number = b"shrink-%d" % next(tried)
        headers = [(name, number if name == NUMBER else _fresh(name, value, number)) for name, value in each.headers]
        try:
            found = ask(msgspec.structs.replace(each, number=number, headers=headers)) or ""
        except Exception as error:  # noqa: BLE001  it may be what is looked for
            found = type(error).__name__
        return found[:_ALIKE] == fault[:_ALIKE]

    if not fails(case):
        return case, False
    ends = time.monotonic() + TIMEOUT_S
    smaller: Case | None = case
    while smaller is not None and time.monotonic() < ends:
        case = smaller
        smaller = next((each for each in _smaller(case) if time.monotonic() < ends and fails(each)), None)
    return case, True


def _fresh(name: bytes, value: bytes, number: bytes) -> bytes:
    """A tenant of its own for every try."""
    return value + number if name.lower() in (b"x-api-key", b"authorization", b"x-goog-api-key") else value


def _smaller(case: Case) -> Iterator[Case]:
    for index, (name, _) in enumerate(case.headers):
        if name != NUMBER:
            yield msgspec.structs.replace(case, headers=case.headers[:index] + case.headers[index + 1 :])
    if case.manner != "whole":
        yield msgspec.structs.replace(case, manner="whole")
    if case.plain is None or case.plain != case.body:
        return
    try:
        value = copy.deepcopy(json.loads(case.body))
    except (ValueError, RecursionError):
        half = len(case.body) // 2
        for body in (case.body[:half], case.body[half:]):
            if body:
                yield msgspec.structs.replace(case, body=body, plain=body)
        return
    for each in _less(value):
        body = json.dumps(each, separators=(",", ":")).encode()
        if len(body) < len(case.body):
            yield msgspec.structs.replace(case, body=body, plain=body)


def _less(value: Any) -> Iterator[Any]:
    """The value without one of its parts, the large ones first; with one of its texts halved."""
    parts: list[tuple[int, tuple[Any, ...]]] = []
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while waiting:
        each, path = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            parts.append((len(json.dumps(each[key])), (*path, key)))
            waiting.append((each[key], (*path, key)))
    for _, path in sorted(parts, key=lambda part: -part[0]):
        found = copy.deepcopy(value)
        inner = found
        for key in path[:-1]:
            inner = inner[key]
        last = inner.pop(path[-1])
        yield found
        if isinstance(last, str) and len(last) > 8:
            inner.insert(path[-1], last[: len(last) // 2]) if isinstance(inner, list) else inner.update(
                {path[-1]: last[: len(last) // 2]}
            )
            yield found
