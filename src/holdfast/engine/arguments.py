"""What the engine may be made of and asked with, checked where the mistake is made."""

from __future__ import annotations

from pathlib import Path

from holdfast.config import Settings
from holdfast.errors import ArgumentError, kind_of, wrong_argument
from holdfast.records.events import Bus
from holdfast.wire import Body

from .lane import Lane

_SETTINGS = (
    "settings, such as Engine(load_config({'cache.strategy': 'economic'})) with load_config of holdfast, "
    "or nothing for the defaults: Engine()"
)


def check_engine(settings: object, store: object, bus: object) -> None:
    """HoldfastError where an engine cannot be made of these."""
    if isinstance(settings, type) or not (settings is None or isinstance(settings, Settings) or callable(settings)):
        raise wrong_argument("Engine", settings, _SETTINGS)
    if callable(settings) and not isinstance(found := settings(""), Settings):
        raise ArgumentError(f"Engine got a function for its settings that returns {kind_of(found)}; give {_SETTINGS}")
    if isinstance(store, (str, bytes, Path)) or (store is not None and not hasattr(store, "put_call")):
        raise wrong_argument(
            "Engine(store=…)", store, "an open store, such as Engine(store=open_store('holdfast.db')) of holdfast"
        )
    if bus is not None and not isinstance(bus, Bus):
        raise wrong_argument("Engine(bus=…)", bus, "a Bus of holdfast, such as Engine(bus=Bus())")


def check_request(body: object, lane: object) -> None:
    """HoldfastError where these are not a request and whom it belongs to."""
    if not isinstance(body, Body):
        raise wrong_argument(
            "engine.prepare",
            body,
            "a body that was read, such as engine.parse(DIALECTS['anthropic'], raw) with DIALECTS of holdfast.wire",
        )
    check_lane("engine.prepare", lane)


def check_lane(what: str, lane: object) -> None:
    if not isinstance(lane, Lane):
        raise wrong_argument(what, lane, "a lane, such as Lane(tenant='me', session='s1', id='s1/main')")
