"""`GET /analytics/skills`: which skills were loaded, for people with the admin token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import report
from holdfast.store import open_store
from tests.report.skill_sessions import NOON, Session, worked
from tests.simulator.http_client import Client, Response

from .gate import Gated, gated

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    """A gateway on a store in which agents have loaded skills."""
    home = tmp_path_factory.mktemp("home")
    path = worked(home / "agents.db")
    with gated(home, NOWHERE, store__url=f"sqlite:///{path}") as gate:
        yield gate


def ask(gate: Gated, path: str, **headers: str) -> Response:
    return Client(gate.address).send("GET", path, headers={"authorization": f"Bearer {gate.token}", **headers})


def test_a77_loads_by_reason_and_what_was_preloaded_for_nothing(gate: Gated) -> None:
    response = ask(gate, "/analytics/skills")
    assert (response.status, response.headers["cache-control"]) == (200, "no-store")
    found = response.json
    assert [each["skill"] for each in found["skills"]] == ["pdf", "forms", "review"]
    assert found["total"]["loads"] == {"always": 3, "on_demand": 3}
    assert found["total"]["tokens"] == {"always": 3_600, "on_demand": 1_800}
    assert found["total"]["referenced_share"] == pytest.approx(1 / 3)
    assert found["never_referenced"] == ["forms"]


def test_a_window_and_a_tenant(gate: Gated) -> None:
    early = ask(gate, "/analytics/skills?start=2026-11-14T12:00:00Z&end=2026-11-14T13:00:00Z").json
    assert early["window"] == {"start": "2026-11-14T12:00:00Z", "end": "2026-11-14T13:00:00Z"}
    assert early["total"]["loads"] == {"always": 2, "on_demand": 1}
    other = ask(gate, "/analytics/skills?tenant=t2").json
    assert (other["total"]["sessions"], other["total"]["referenced_share"]) == (1, None)
    assert ask(gate, "/analytics/skills?tenant=nobody").json["skills"] == []


def test_what_it_was_not_asked_is_passed_over_as_elsewhere(gate: Gated) -> None:
    for path in ("/analytics/skills", "/analytics/sessions"):
        assert ask(gate, f"{path}?colour=red&format=xml").status == 200


@pytest.mark.parametrize(
    ("query", "says"),
    [("start=yesterday", "start is no time"), ("end=nan", "end is no time"), ("start=2&end=1", "start lies after end")],
)
def test_wrong_windows(gate: Gated, query: str, says: str) -> None:
    response = ask(gate, f"/analytics/skills?{query}")
    assert (response.status, says in response.json["error"]["message"]) == (400, True)


def test_only_with_the_token_and_only_to_be_read(gate: Gated) -> None:
    client = Client(gate.address)
    assert client.send("GET", "/analytics/skills").status == 401
    assert ask(gate, "/analytics/skills", authorization="Bearer wrong").status == 401
    assert ask(gate, "/analytics/skills", origin="https://evil.example").status == 403
    assert client.send("POST", "/analytics/skills").status == 405


def test_what_has_just_been_told_counts(gate: Gated) -> None:
    store = gate.store
    Session(store, "now", tenant="t9", at=NOON).preload("fresh")  # type: ignore[arg-type]
    assert ask(gate, "/analytics/skills?tenant=t9").json["never_referenced"] == ["fresh"]


def test_the_front_page_names_it(gate: Gated) -> None:
    assert b"/analytics/skills" in Client(gate.address).send("GET", "/").body


def test_a_store_that_is_gone_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "no.db").mkdir()
    with gated(tmp_path, NOWHERE, store__url=f"sqlite:///{tmp_path / 'no.db'}") as gate:
        response = ask(gate, "/analytics/skills")
    assert (response.status, "nothing is stored" in response.json["error"]["message"]) == (503, True)


def test_the_answer_is_the_value_of_observe(gate: Gated) -> None:
    with open_store(gate.gateway.store.path) as store:  # type: ignore[union-attr]
        found = report.skills(store, tenant="t1")
    assert ask(gate, "/analytics/skills?tenant=t1").json["total"]["loads"] == found.total.loads
