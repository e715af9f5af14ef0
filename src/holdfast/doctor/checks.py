"""The results of checks, and checks that run side by side and cannot fail the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.wording import printable

State = Literal["ok", "note", "warning", "problem"]


class CheckResult(Struct, frozen=True):
    """One finding. A note is worth knowing, a warning may be what is wrong, a problem is."""

    state: State
    topic: str
    what: str
    cure: str = ""


Check = Callable[[], Iterable[CheckResult]]


def checked(topic: str, check: Check) -> list[CheckResult]:
    """Run a check and return its results; any exception becomes a result too."""
    try:
        return list(check())
    except HoldfastError as problem:
        return [CheckResult("problem", topic, line) for line in str(problem).splitlines()]
    except Exception as problem:  # noqa: BLE001  the other checks go on, and this one is told
        finding = f"could not be checked ({type(problem).__name__}: {printable(str(problem)[:200])})"
        return [CheckResult("warning", topic, finding, "try again; if it stays, report it")]


def side_by_side(checks: Sequence[tuple[str, Check]], seconds: float) -> list[CheckResult]:
    """All of them at once, in their order, each under its topic or `topic: what`. One that takes longer is left
    behind, and this is said of it."""
    results: list[list[CheckResult] | None] = [None] * len(checks)

    def work(place: int, topic: str, check: Check) -> None:
        results[place] = checked(topic.partition(": ")[0], check)

    threads = [
        threading.Thread(target=work, args=(place, *each), daemon=True, name=f"doctor-{each[0]}")
        for place, each in enumerate(checks)
    ]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [
        line
        for (topic, _), lines in zip(checks, results, strict=True)
        for line in ([_late(topic, seconds)] if lines is None else lines)
    ]


def _late(check: str, seconds: float) -> CheckResult:
    topic, sign, what = check.partition(": ")
    return CheckResult("warning", topic, f"{what}{sign}no answer within {seconds:g} seconds")
