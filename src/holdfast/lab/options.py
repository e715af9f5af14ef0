"""How traces are replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.caches import Noise
from holdfast.core.repairs import MOVES
from holdfast.errors import HoldfastError
from holdfast.report.logs import Trace

from .client_faults import FAULTS
from .contenders import Repair, nearest
from .gaps import PATTERNS, SEEDS


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """How traces are replayed. No `gaps`: as recorded, and where nothing was, a steady pace."""

    gaps: str | None = None
    """A name of `PATTERNS`."""
    seeds: tuple[int, ...] = SEEDS[:1]
    """What gaps, faults and noise are drawn from; every session is played once for each."""
    fault: str | None = None
    """The client's fault, a name of `FAULTS`."""
    noise: Noise | None = None
    """How unreliable the provider's cache is."""
    ttl_raise: Literal["yes", "no"] | None = None
    """Whether a write over a shorter-lived entry gets its own lifetime; None: according to the facts."""
    repair: Repair = "suggest"
    client: str | None = None
    """Whose markers the requests bear before a strategy sees them; a name of `PEERS`."""
    fresh: bool = False
    """Whether the engine forgets between sessions what it has learned."""
    cold: bool = False
    """Whether sessions begin with an empty cache although their first requests were billed as read."""
    optimum: bool = True
    """Whether the optimum is searched."""
    dump: Path | None = None
    """A file that every body is written to as it was sent."""

    def __post_init__(self) -> None:
        if self.gaps is not None and self.gaps not in PATTERNS:
            raise HoldfastError(f"there is no gap pattern {self.gaps!r}; {nearest(self.gaps, PATTERNS)}")
        if self.fault is not None and self.fault not in FAULTS:
            raise HoldfastError(f"there is no fault {self.fault!r}; {nearest(self.fault, tuple(FAULTS))}")
        if self.ttl_raise not in (None, "yes", "no"):
            raise HoldfastError(f"ttl_raise is yes or no, not {self.ttl_raise!r}.")

    def pattern(self, trace: Trace) -> str:
        return self.gaps or ("real" if trace.timed else "none")

    @property
    def warm(self) -> bool:
        """Whether sessions begin with what their first requests read. A fault changes what they would have read, and a
        dump has no such entries."""
        return not self.cold and self.fault is None and self.dump is None

    def billed(self, trace: Trace) -> bool:
        """Whether the recorded bill is one for the requests that are replayed: the same ones at the same times."""
        return self.fault is None and self.pattern(trace) == "real"

    @property
    def whole_engine(self) -> bool:
        """Whether bodies are needed even where a trace has none."""
        return self.fault is not None or self.dump is not None or self.repair in MOVES
