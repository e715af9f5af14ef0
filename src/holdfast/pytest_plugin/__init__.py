"""The pytest plugin: a gate that keeps an agent's prompt prefix from becoming unstable unnoticed.

`assert_prefix_stable` checks requests in the order they were sent; the fixture `prefix_recorder` records what clients
send. pytest imports this file in every session, whether or not anybody uses it, so everything else is imported when it
is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from decimal import Decimal

    from .bodies import RecordedRequest
    from .findings import PrefixCheck, PrefixUnstable
    from .recorder import Recorder, RecorderServer
else:
    __getattr__, _, _ = lazy_exports(
        __name__, {".findings": "PrefixCheck PrefixUnstable", ".bodies": "RecordedRequest", ".recorder": "Recorder"}
    )

__all__ = ["PrefixCheck", "PrefixUnstable", "RecordedRequest", "Recorder", "assert_prefix_stable", "prefix_recorder"]

_RATE, _MODEL, _REDACT = "holdfast_rate", "holdfast_model", "holdfast_redact"


def assert_prefix_stable(
    requests: Iterable[object],
    *,
    model: str | None = None,
    dialect: str | None = None,
    lane: str | Sequence[Hashable] | Callable[[RecordedRequest], Hashable] | None = None,
    resets: Mapping[int, str] | None = None,
    allow: Iterable[str] = (),
    rate: str | float | Decimal | None = None,
    require_markers: bool = False,
    at_least: int = 1,
    redact: bool | None = None,
) -> PrefixCheck:
    """Fail unless every request begins with what its conversation had sent before (docs/pytest.md).

    `requests` are bodies in the order they were sent: bytes, texts, dicts, recorded requests of the fixture or request
    objects of httpx, httpx2 and requests. `model` has its rules and prices used, whatever the bodies name; `dialect`
    says how all of them are written. `lane` says which conversation each belongs to. `resets` allows a departure at a
    request, with its reason; `allow` allows a kind of departure everywhere. `rate` is how often such requests are sent,
    for the yearly cost. `require_markers` demands cache markers where the provider needs them. At least so many
    requests have to continue another (`at_least`), or nothing was proved. `redact` masks the texts that are shown.
    """
    __tracebackhide__ = True
    from .check import CheckOptions, assert_stable

    options = CheckOptions(
        model=model,
        dialect=dialect,
        lane=lane,
        resets=resets,
        allow=allow,
        rate=rate,
        require_markers=require_markers,
        at_least=at_least,
        redact=redact,
    )
    return assert_stable(requests, options, _SessionOptions.now)


@pytest.fixture(scope="session")
def _holdfast_server() -> Iterator[RecorderServer]:
    from .recorder import serving

    with serving(assert_prefix_stable) as server:
        yield server


@pytest.fixture
def prefix_recorder(_holdfast_server: RecorderServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Records what the SDK clients of this test send, and answers them like the provider, on this machine."""
    import os

    with _holdfast_server.recorder() as recorder:
        for name, value in recorder.environment(os.environ).items():
            monkeypatch.setenv(name, value)
        yield recorder


class _SessionOptions:
    """The options of the command line and the ini file, and the counts of checks. None outside of pytest."""

    now: _SessionOptions | None = None

    def __init__(self, config: pytest.Config) -> None:
        self.rate: str | None = config.getoption(_RATE) or config.getini(_RATE) or None
        self.model: str | None = config.getoption(_MODEL) or config.getini(_MODEL) or None
        self.redact = bool(config.getini(_REDACT))
        self.before = _SessionOptions.now  # a pytest that runs inside another one
        self.counts = {"checks": 0, "requests": 0, "failed": 0, "unmarked": 0}

    def add(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.counts[name] += count


_key = pytest.StashKey[_SessionOptions]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast", "prompt prefixes")
    rate = "how often such requests are sent, for the yearly cost of a break, such as `200 sessions/day`"
    model = "the model whose cache rules and prices count, whatever the requests name"
    group.addoption("--holdfast-rate", dest=_RATE, metavar="RATE", help=rate)
    group.addoption("--holdfast-model", dest=_MODEL, metavar="MODEL", help=model)
    parser.addini(_RATE, f"{rate} (default: 1,000 requests/day)")
    parser.addini(_MODEL, model)
    parser.addini(_REDACT, "mask the texts in failure messages", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_key] = _SessionOptions.now = _SessionOptions(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _key in config.stash:
        _SessionOptions.now = config.stash[_key].before


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker_output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)  # a worker of pytest-xdist
    if worker_output is not None:
        worker_output["holdfast"] = session.config.stash[_key].counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended: what it counted."""
    node.config.stash[_key].add(getattr(node, "workeroutput", {}).get("holdfast", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash[_key].counts
    if not counts["checks"] or config.get_verbosity() < -1:
        return
    checks, requests = counts["checks"], counts["requests"]
    line = f"holdfast: {checks} prefix check{'' if checks == 1 else 's'} of {requests:,} request"
    line += ", " if requests == 1 else "s, "
    line += f"{counts['failed']} not stable" if counts["failed"] else "all stable"
    if counts["unmarked"]:
        line += f"; {counts['unmarked']} without cache markers"
    terminalreporter.write_line(line, red=bool(counts["failed"]))
