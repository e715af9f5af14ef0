"""How long a request waits for what must be durable: not longer than the store is waited for, also within a process."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.keys import Settings
from holdfast.engine import EngineCore
from holdfast.engine import engine as core
from holdfast.engine.identity import Identities
from holdfast.engine.passage import Incoming, Passages, Timers
from holdfast.store import open_store
from holdfast.wire import DIALECTS

RAW = b'{"model":"claude-sonnet-4-5","max_tokens":1000,"messages":[{"role":"user","content":"Hello."}]}'


def test_an_engine_that_waits_long_does_not_hold_up_a_clients_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def wait(_writes: list[Future[Any]], timeout: float) -> None:
        waited.append(timeout)

    monkeypatch.setattr(core, "wait", wait)
    settings = Settings()
    with open_store(tmp_path / "h.db") as store:
        engine, identities = EngineCore(settings, store=store), Identities(bytes(32), store=store)
        passages = Passages(engine, identities, settings, timers=Timers(lambda: 0.0))
        passages.begin(Incoming("POST", "/v1/messages", "", (), RAW), DIALECTS["anthropic"]).cut()
    assert waited == [settings.gateway.limits.wait_ms / 1_000]
