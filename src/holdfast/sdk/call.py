"""One request from the client's body to its verdict."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core import Plan, Preflight, Verdict
from holdfast.core.repairs import Repair
from holdfast.engine import EngineCore, Lane, Partial, PreparedCall
from holdfast.errors import wrong_argument
from holdfast.records import Usage

from .responses import usage_of


class Call:
    """A request that may go out; `Engine.prepare` makes it.

    Send `raw`, say `first_token()` when the answer begins, and end the call once: `settle` with what was billed, or
    `abandon`. Times are seconds since 1970, by default those of the engine's clock.
    """

    def __init__(self, core: EngineCore, prepared: PreparedCall, moment: Callable[[float | None], float]) -> None:
        self._core, self._moment = core, moment
        self.prepared = prepared

    @property
    def id(self) -> str:
        return self.prepared.call

    @property
    def lane(self) -> Lane:
        return self.prepared.lane

    @property
    def raw(self) -> bytes:
        """The bytes to send."""
        return self.prepared.raw

    @property
    def body(self) -> dict[str, object]:
        """The same as a dict, for SDKs: `client.messages.create(**call.body)`."""
        return msgspec.json.decode(self.prepared.raw, type=dict[str, object])

    @property
    def plan(self) -> Plan:
        """The markers by block, and the reasons for them."""
        return self.prepared.core.plan

    @property
    def prediction(self) -> Preflight:
        """Tokens that will be read, written and billed as input; dollars of that (`this`) and of a cold cache."""
        return self.prepared.preflight

    @property
    def markers(self) -> tuple[tuple[str, str], ...]:
        """Where markers stand in what is sent: path and lifetime."""
        return self.prepared.markers

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What was repaired, and what more would help."""
        return self.prepared.repairs

    @property
    def verdict(self) -> Verdict | None:
        """What was predicted beside what came; None until the call is settled."""
        return self.prepared.verdict

    def first_token(self, usage: object = None, *, now: float | None = None) -> None:
        """The answer begins: the entries it writes can be read. `usage` is what the provider has said by now."""
        said = None if usage is None else self._usage("call.first_token", usage)
        self._core.first_token(self.prepared, now=self._moment(now), usage=said)

    def settle(self, usage: object, *, now: float | None = None) -> Verdict:
        """The answer is complete. `usage` is a `Usage`, or what the provider gave: the SDK's usage object, its dict, or
        the whole answer. A call that is settled again gives its first verdict."""
        billed = self._usage("call.settle", usage)
        return self._core.settle(self.prepared, billed, now=self._moment(now))

    def abandon(
        self, usage: object = None, *, output: int = 0, error: str = "", now: float | None = None
    ) -> Usage | None:
        """The call was cancelled, failed (`error` says how) or was cut. `usage` is what the provider had said and
        `output` how many tokens had come, if the answer had begun. Returns what was booked."""
        if not isinstance(output, int):
            raise wrong_argument("call.abandon(output=…)", output, "the number of tokens that had come, such as 120")
        said = None if usage is None else self._usage("call.abandon", usage)
        moment = self._moment(now)
        return self._core.abandon(self.prepared, now=moment, error=error, partial=Partial(said, output))

    def _usage(self, method: str, usage: object) -> Usage:
        return usage_of(usage, dialect=self.prepared.sent.dialect, method=method)

    def __repr__(self) -> str:
        state = "settled" if self.verdict is not None else "ended" if self.prepared.core.done else "pending"
        return f"<Call {self.id} of {self.lane.id}: {state}>"
