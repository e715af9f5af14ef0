"""How traces are replayed."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from holdfast.caches import Noise
from holdfast.core.repairs import MOVES
from holdfast.errors import HoldfastError
from holdfast.report.logs import Trace

from .client_faults import FAULTS
from .contenders import Repair, nearest
from .gaps import PATTERNS, SEEDS


class Options(Struct, frozen=True, kw_only=True):
    """How traces are replayed. No `gaps`: as recorded, and where nothing was, a steady pace."""

    gaps: str | None = None
    seeds: tuple[int, ...] = SEEDS[:1]
    fault: str | None = None
    noise: Noise | None = None
    ttl_raise: str | None = None
    repair: Repair = "suggest"
    client: str | None = None
    fresh: bool = False
    cold: bool = False
    optimum: bool = True
    dump: Path | None = None

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
        """Whether sessions begin with what their first requests read. A fault changes what they would have read, and
        whoever prices a dump knows only what is in it."""
        return not self.cold and self.fault is None and self.dump is None

    def billed(self, trace: Trace) -> bool:
        """Whether the recorded bill is one for the requests that are replayed: the same ones at the same times."""
        return self.fault is None and self.pattern(trace) == "real"

    @property
    def whole_engine(self) -> bool:
        """Whether bodies are needed even where a trace has none."""
        return self.fault is not None or self.dump is not None or self.repair in MOVES
