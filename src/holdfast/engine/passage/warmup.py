"""Loads what is loaded on first use: vocabulary, prices, patterns.

Without it our part of a process's first request would take too long, and it would go unplanned.
"""

from __future__ import annotations

from functools import cache

from holdfast.config import Settings
from holdfast.core.repairs import load_patterns
from holdfast.engine import EngineCore
from holdfast.wire import DIALECTS

from ..identity import Identities
from .client_request import Incoming
from .fail_open import Timers
from .passage import Passages

_TEXT = b'[{"role":"user","content":"Is anybody there?"}]'
_SMALL = {
    "anthropic": (b'{"model":"claude-sonnet-4-5","max_tokens":100,"messages":%b}' % _TEXT, ""),
    "openai_chat": (b'{"model":"gpt-5","messages":%b}' % _TEXT, ""),
    "openai_responses": (b'{"model":"gpt-5","input":%b}' % _TEXT, ""),
    "gemini": (b'{"contents":[{"role":"user","parts":[{"text":"Is anybody there?"}]}]}', "gemini-2.5-flash"),
}


def _frozen_clock() -> float:
    """Return a constant time, for work without a time limit."""
    return 0.0


@cache
def warm_up() -> None:
    """A request in each dialect that goes nowhere, through an engine of its own. Once in a process."""
    load_patterns()
    passages = Passages(EngineCore(), Identities(bytes(32)), Settings(), timers=Timers(_frozen_clock, _frozen_clock))
    for name, (raw, model) in _SMALL.items():
        passages.begin(Incoming("POST", "/", "", (), raw), DIALECTS[name], model).cut()
