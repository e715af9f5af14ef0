"""Loaded skills: by reason, by session, and which preloaded bodies were ever asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast import report
from holdfast.config.sections.cache import CacheSettings
from holdfast.facts.tokens import heuristic_tokens
from holdfast.report.skill_usage import REASONS, SKILL_LOAD
from holdfast.store import SqliteStore, open_existing, open_store
from holdfast.tools import contract
from tests.report.skill_sessions import HOUR, NOON, Session, worked
from tests.skills.sessions import SkillRoom, load, session, sized
from tests.support.toolboxes import do


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "h.db") as opened:
        yield opened


def test_a77_loads_by_reason_and_the_share_of_preloaded_bodies_ever_referenced(tmp_path: Path) -> None:
    opened = open_existing(worked(tmp_path / "h.db"))
    assert opened is not None
    with opened:
        found = report.skills(opened)
    assert [each.skill for each in found.skills] == ["pdf", "forms", "review"], "the one with most tokens first"
    pdf, forms, review = found.skills
    assert (pdf.loads, pdf.tokens) == ({"always": 2, "on_demand": 1}, {"always": 2_400, "on_demand": 1_200})
    assert (pdf.sessions, pdf.preloaded, pdf.referenced, pdf.referenced_share) == (3, 2, 1, 0.5)
    assert (forms.loads, forms.preloaded, forms.referenced, forms.referenced_share) == (
        {"always": 1, "on_demand": 0},
        1,
        0,
        0.0,
    )
    assert (review.loads, review.tokens) == ({"always": 0, "on_demand": 2}, {"always": 0, "on_demand": 600})
    assert (review.preloaded, review.referenced, review.referenced_share) == (0, 0, None)
    assert found.never_referenced == ("forms",)
    total = found.total
    assert (total.skill, total.loads) == (None, {"always": 3, "on_demand": 3})
    assert (total.sessions, total.preloaded, total.referenced) == (3, 3, 1)
    assert total.referenced_share == 1 / 3
    assert total.last == report.window(NOON + 2 * HOUR + 1_000_000, None).start


def test_as_json(tmp_path: Path) -> None:
    with open_store(worked(tmp_path / "h.db")) as store:
        found = json.loads(msgspec.json.encode(report.skills(store, start=NOON, end=NOON + HOUR)))
    assert list(found) == ["window", "skills", "total", "never_referenced"]
    assert found["window"] == {"start": "2026-11-14T12:00:00Z", "end": "2026-11-14T13:00:00Z"}
    assert found["total"]["last"] == "2026-11-14T12:00:05Z"


def test_the_window_counts_events_by_their_own_time(store: SqliteStore) -> None:
    session = Session(store, "s").preload("pdf")
    loaded = session.at
    session.point("pdf")
    asked = session.at
    store.flush()

    def share(start: int | None, end: int | None) -> tuple[int, float | None]:
        total = report.skills(store, start=start, end=end).total
        return total.loads["always"], total.referenced_share

    assert share(None, None) == (1, 1.0)
    assert share(loaded, asked + 1) == (1, 1.0), "the start is included, the end is not"
    assert share(loaded, asked) == (1, 0.0), "it was asked for after the window"
    assert share(loaded + 1, None) == (0, None), "what was loaded before it is not of this window"
    assert share(NOON - HOUR, NOON) == (0, None)
    assert share(0, 0) == (0, None)


def test_a_tenant_has_its_own_sessions(tmp_path: Path) -> None:
    with open_store(worked(tmp_path / "h.db")) as store:
        one, two = (report.skills(store, tenant=tenant).total for tenant in ("t1", "t2"))
        assert (one.loads, one.sessions) == ({"always": 3, "on_demand": 2}, 2)
        assert (two.loads, two.sessions, two.referenced_share) == ({"always": 0, "on_demand": 1}, 1, None)
        assert report.skills(store, tenant="t3").skills == ()


def test_a_pointer_counts_only_where_the_body_is(store: SqliteStore) -> None:
    Session(store, "here").preload("pdf")
    Session(store, "elsewhere").point("pdf")
    Session(store, "here", tenant="other").point("pdf")
    Session(store, "here", at=NOON + HOUR).point("forms")
    store.flush()
    assert report.skills(store).total.referenced == 0


def test_what_is_no_reference(store: SqliteStore) -> None:
    session = Session(store, "s").preload("pdf")
    session.point("pdf", tool="mcp__x__skill_load").refuse("pdf").load("pdf", again=True)
    session.complete({"skill_id": "pdf", "already_preloaded": False}).complete({"already_preloaded": True})
    session.complete({"skill_id": "pdf", "already_preloaded": "yes"}).complete("").complete("[1]").complete("{")
    session.complete("", output='"tool":"skill_load","metadata":"{already_preloaded: true}"', tool="read_file")
    store.flush()
    found = report.skills(store)
    assert (found.total.preloaded, found.total.referenced) == (1, 0)
    assert found.never_referenced == ("pdf",)


def test_a_session_that_preloads_again_has_the_body_once(store: SqliteStore) -> None:
    session = Session(store, "s").preload("pdf").point("pdf").preload("pdf").point("pdf")
    session.load("pdf")
    store.flush()
    (pdf,) = report.skills(store).skills
    assert (pdf.loads, pdf.sessions) == ({"always": 2, "on_demand": 1}, 1)
    assert (pdf.preloaded, pdf.referenced, pdf.referenced_share) == (1, 1, 1.0)


def test_a58_a_reason_that_nothing_gives_yet_would_be_counted(store: SqliteStore) -> None:
    Session(store, "s").loaded("pdf", "auto_suggested", 7, None)
    store.flush()
    (pdf,) = report.skills(store).skills
    assert pdf.loads == {"always": 0, "on_demand": 0, "auto_suggested": 1}
    assert (sum(pdf.tokens.values()), pdf.preloaded) == (7, 0)


def test_without_a_store_and_without_a_load_everything_is_nothing(store: SqliteStore) -> None:
    for empty in (None, store):
        found = report.skills(empty, start=NOON)
        assert (found.skills, found.never_referenced, found.window.end) == ((), (), None)
        assert found.total.loads == dict.fromkeys(REASONS, 0)
        assert (found.total.sessions, found.total.referenced_share, found.total.last) == (0, None, None)


def test_an_event_of_another_version_is_left_out(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    Session(store, "s").preload("pdf").preload("forms")
    store.flush()
    changed = []

    def visit_events(visit, types, *rest, **more):  # type: ignore[no-untyped-def]
        def change(event):  # type: ignore[no-untyped-def]
            changed.append(event)
            visit(msgspec.structs.replace(event, payload=b'{"skill": 1}') if len(changed) == 1 else event)

        SqliteStore.visit_events(store, change, types, *rest, **more)

    monkeypatch.setattr(store, "visit_events", visit_events)
    assert [each.skill for each in report.skills(store).skills] == ["forms"]


def test_a77_what_the_tools_themselves_tell_is_counted(store: SqliteStore, tmp_path: Path) -> None:
    """A real session: two bodies in its prompt, one of them asked for, and one that is loaded twice."""
    skills = session(sized("a", 1_200), sized("b", 1_200), sized("c", 9_000))
    box = SkillRoom(tmp_path).open(skills, store=store, tenant="t1")
    composed = skills.compose(
        "You help.", count=heuristic_tokens, cache=CacheSettings(padding="always", padding_min=2_000, padding_max=3_000)
    )
    assert composed.preloaded == ("a", "b")
    skills.announce(box.journal)
    do(box, load("b", "u1"))
    do(box, load("c", "u2"))
    do(box, load("c", "u3"), load("nothing", "u4"))
    store.flush()
    found = report.skills(store)
    assert found.total.loads == {"always": 2, "on_demand": 1}
    assert found.total.tokens == {"always": 2_400, "on_demand": 9_000}
    assert (found.total.preloaded, found.total.referenced, found.never_referenced) == (2, 1, ("a",))


def test_it_knows_the_tool_by_its_name() -> None:
    assert contract.SKILL_LOAD == SKILL_LOAD
    script = "import sys, holdfast.report; assert 'holdfast.tools' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)  # the tools take longer to import than most questions
