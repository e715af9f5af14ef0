"""`/healthz` says when the store is damaged or gone, while requests pass as before."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway import admin, assembly, discovery
from holdfast.store import open_store
from tests.simulator.http_client import Client

from .gate import HELLO, Gated, Provider, configured, eventually, gated, hear


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "LOOK_S", 0.0)
    monkeypatch.setattr(admin, "WHOLE_S", 0.0)
    monkeypatch.setattr(admin, "SHARE", 0)


def database(gate: Gated) -> Path:
    return gate.config.home / "holdfast.db"


def filled(gate: Gated) -> Path:
    """The store with calls in it, all of them in the file itself."""
    assert hear(gate.address, HELLO).status == 200
    store = gate.store
    eventually(lambda: [call.status for call in store.calls()] not in ([], ["pending"]))
    with sqlite3.connect(database(gate)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return database(gate)


def deleted(path: Path) -> None:
    for each in path.parent.glob("holdfast.db*"):
        each.unlink()


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.replace(path)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def without_its_log(path: Path) -> None:
    path.with_name("holdfast.db-wal").unlink()
    path.with_name("holdfast.db-shm").unlink()


def overwritten(path: Path) -> None:
    """Every page but the first two."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(8_192)
        file.write(b"\xa5" * (size - 8_192))


def one_page(path: Path) -> None:
    """A page that no question of ours begins with: that of the index of breaks by session."""
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'breaks_by_session'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def directory_gone(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (deleted, "deleted"),
        (replaced, "moved"),
        (emptied, "emptied"),
        (without_its_log, "store"),
        (overwritten, "damaged"),
        (one_page, "damaged"),
        (directory_gone, "deleted"),
    ],
)
def test_a_store_that_is_harmed_under_a_running_gateway(
    gate: Gated, provider: Provider, harm: Callable[[Path], None], says: str
) -> None:
    client = Client(gate.address)
    path = filled(gate)
    before = client.send("GET", "/healthz")
    assert (before.status, before.json["status"], before.json["store"]) == (200, "ok", "ok")
    harm(path)
    found: list[Any] = []
    eventually(lambda: found.append(client.send("GET", "/healthz")) or found[-1].status == 503)
    said = found[-1].json
    assert (said["status"], said["store"], says in said["reason"]) == ("degraded", "down", True), said
    assert str(path.parent) not in found[-1].body.decode()
    heard = hear(gate.address, HELLO)
    assert (heard.status, len(provider.received)) == (200, 2)


def test_a_store_that_could_not_be_opened(provider: Provider, tmp_path: Path) -> None:
    path = configured(tmp_path, provider.address).home / "holdfast.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"This is no database." * 500)
    with gated(tmp_path, provider.address) as gate:
        said = Client(gate.address).send("GET", "/healthz")
        assert (said.status, said.json["store"]) == (503, "down")
        assert "holdfast.db" in said.json["reason"]
        assert str(path.parent) not in said.body.decode()
        assert hear(gate.address, HELLO).status == 200


def test_a_full_disk(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SQLite tells of one: the file must not become larger."""
    monkeypatch.setattr(assembly, "open_store", lambda url: open_store(url, max_bytes=260_000))
    with gated(tmp_path, provider.address) as gate:
        client = Client(gate.address)
        assert client.send("GET", "/healthz").status == 200
        asked: list[int] = []

        def full() -> bool:
            asked.append(hear(gate.address, HELLO).status)
            return bool(client.send("GET", "/healthz").status == 503)

        eventually(full, 30)
        assert set(asked) == {200}


def test_it_recovers(gate: Gated) -> None:
    client, path = Client(gate.address), filled(gate)
    path.rename(path.with_name("aside"))
    assert client.send("GET", "/healthz").status == 503
    path.with_name("aside").rename(path)
    eventually(lambda: client.send("GET", "/healthz").status == 200)


def test_it_is_not_looked_at_for_everybody_who_asks(gate: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "LOOK_S", 3_600.0)
    monkeypatch.setattr(admin, "WHOLE_S", 3_600.0)
    looked: list[bool] = []
    check = type(gate.gateway.store).check  # type: ignore[union-attr]

    def counted(store: Any, *, whole: bool = False) -> None:
        looked.append(whole)
        check(store, whole=whole)

    monkeypatch.setattr(type(gate.gateway.store), "check", counted)
    client = Client(gate.address)
    assert [client.send("GET", "/healthz").status for _ in range(5)] == [200] * 5
    assert looked == [False, True]


def test_a_gateway_with_a_damaged_store_is_still_found(gate: Gated, provider: Provider, tmp_path: Path) -> None:
    deleted(filled(gate))
    assert Client(gate.address).send("GET", "/healthz").status == 503
    port = int(gate.address.rpartition(":")[2])
    assert discovery.find(configured(tmp_path, provider.address, gateway__port=port)) == gate.address
