"""Who places the markers of a replay: a strategy of the engine, another tool, or one who knows the future.

The engine's strategies plan for a client without markers, or for one whose markers another tool would have placed
(`client`). Another tool is a client that places its markers itself, and the engine lets all of them pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Literal, cast

from msgspec import Struct

from holdfast.config.sections import CacheSettings, Strategy
from holdfast.core.strategies import STRATEGIES
from holdfast.errors import HoldfastError

from .peers import PEERS, Peer
from .results import Kind

Repair = Literal["off", "suggest", "values", "on"]

OPTIMAL = "optimal"
FIXED: dict[str, Strategy] = {
    "rolling-5m": "rolling",
    "rolling-1h": "rolling",
    "two-point-5m": "two-point",
    "two-point-1h": "two-point",
}
"""The engine's strategies with one lifetime for everything."""

SUMMARIES = {
    "economic": "Holdfast's own: markers and lifetimes by expected cost, learned from what comes back.",
    "rolling": "The last tool, the end of the system text and the last block, for five minutes.",
    "rolling-5m": "The same as rolling.",
    "rolling-1h": "The same places as rolling, all for one hour.",
    "two-point": "The last tool and the end of the system text, for five minutes.",
    "two-point-5m": "The same as two-point.",
    "two-point-1h": "The same places as two-point, for one hour.",
    "zones": "Markers by zone of the conversation, short at first and long after confirmed reads.",
    "three-block": "Tools and the end of the system text for one hour, the tail for five minutes or one hour.",
    "passthrough": "As the client sends it: without --client no markers at all.",
    OPTIMAL: "The least that markers and lifetimes can cost with hindsight, without pings; Anthropic's rules only.",
}
ENGINE = ("economic", *(name for name in STRATEGIES if name != "economic"))
STRATEGY_NAMES: tuple[str, ...] = (*ENGINE, *FIXED, *PEERS, OPTIMAL)
DEFAULT = ("economic", "rolling", "automatic", "none", OPTIMAL)
ALL = tuple(name for name in STRATEGY_NAMES if name not in ("rolling-5m", "two-point-5m", "passthrough"))
"""What `all` means: everything but what is the same under another name."""

_PASSING = CacheSettings(strategy="passthrough", repair="off")


class Contender(Struct, frozen=True):
    """One of those compared: `settings` are the engine's, `peer` is the tool that places the client's own markers, None
    for a client that has none."""

    name: str
    kind: Kind
    settings: CacheSettings
    peer: Peer | None = None


def contenders(names: Sequence[str], *, client: str | None, repair: Repair) -> tuple[Contender, ...]:
    """Those that are named, each once; `all` names them all."""
    client_peer = None if client is None else _peer(client)
    all_names = [each for name in names for each in (_all(client) if name == "all" else (name,))]
    return tuple(_contender(name, client_peer, repair) for name in dict.fromkeys(all_names))


def summary(name: str) -> str:
    """One sentence on what it does."""
    return PEERS[name].summary if name in PEERS else SUMMARIES[name]


def _all(client: str | None) -> tuple[str, ...]:
    return ALL if client is None else ("passthrough", *ALL)


def _contender(name: str, client: Peer | None, repair: Repair) -> Contender:
    if name in PEERS:
        return Contender(name, "peer", _PASSING, PEERS[name])
    if name == OPTIMAL:
        return Contender(name, "bound", _PASSING)
    if name not in STRATEGY_NAMES:
        raise HoldfastError(f"there is no strategy {name!r}; {nearest(name, (*STRATEGY_NAMES, 'all'))}")
    long = {"": "long"} if name.endswith("-1h") else {}
    settings = CacheSettings(
        strategy=FIXED.get(name) or cast(Strategy, name),
        client_markers="manage" if client is None else "improve",
        repair=repair,
        retention_overrides=cast(dict[str, Literal["long"]], long),
    )
    return Contender(name, "engine", settings, client)


def _peer(name: str) -> Peer:
    if name not in PEERS:
        raise HoldfastError(f"there is no client {name!r}; {nearest(name, PEERS)}")
    return PEERS[name]


def nearest(name: str, choices: Collection[str]) -> str:
    """A hint that ends a sentence: the nearest name, or all of them."""
    close = get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(choices)}."
