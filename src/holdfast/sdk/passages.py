"""Calls of the SDKs within this process through an engine, with memory where the settings ask for it.

An engine with a store does for them what the gateway does: it also writes reports of breaks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from secrets import token_bytes

from holdfast.config import inert, load_config, secret
from holdfast.engine import EngineCore, Reports
from holdfast.engine.identity import Identities
from holdfast.engine.passage import Passages, Switch, warm_up
from holdfast.memory import MemoryInjector
from holdfast.notices import warn_once

_log = logging.getLogger(__name__)


def passages_of(engine: EngineCore, clock: Callable[[], float]) -> Passages:
    """Return an engine's passages. Without a store, what it learns and the key that separates its tenants end with it,
    and there is no memory. A request's tenant is that of its credential, as in the gateway."""
    warm_up()
    settings = engine.settings()
    if without_effect := inert.warning_of(settings, "sdk"):
        inert.warn(without_effect)
    store = engine.store
    if store is None and settings.memory.inject:
        warn_once(_log, "memory.inject is on, but nothing is stored; give the engine a store: Engine(…, store=…)")
    key = token_bytes(32)
    if store is not None:
        here = load_config()
        key = secret(here.home, "tenant-key").encode()
        engine.report_to(Reports.configured(here, settings))
    switch = Switch.from_environment()
    switch.remember(store)
    # Also where nobody asks for memory: conversations that were given some before are told apart from those that the
    # client itself changed.
    memory = None
    if store is not None:
        memory = MemoryInjector(engine, store, engine.settings, agents=None, clock=clock)
    identities = Identities(key, store=store)
    return Passages(engine, identities, engine.settings, clock=clock, remembering=memory, switch=switch)
