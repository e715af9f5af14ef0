"""The engine against a simulated provider: bytes that pass its checks, predictions that hold, lanes that go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.config.sections.cache import CacheSettings, OpenAISettings
from holdfast.engine import EngineCore, Lane
from holdfast.engine import state as engine_state
from holdfast.engine.state import facts_of
from holdfast.wire import DIALECTS, Unreadable
from tests.engine.driver import worked
from tests.engine.edits import edit_of
from tests.properties.sessions import Talk
from tests.shapes import load

from .driver import HOST, MODELS, START, Driver, raw_of, talk

DIALECT = pytest.mark.parametrize("dialect", MODELS)


@DIALECT
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_a_conversation_is_accepted_and_predicted(dialect: str, stored: bool, tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db" if stored else None)
    for turns, gap in enumerate((1, 20, 200, 290, 310, 4_000)):
        prepared, used, verdict = driver.send(talk(turns), gap, dialect=dialect)
        if dialect != "gemini":  # implicit caching leaves something to chance
            assert verdict.predicted == replace(used, cost=None, price_version=None)
        assert verdict.explained or dialect == "gemini"
        assert used.cost is not None
        assert prepared.preflight is not None
    driver.close()


@pytest.mark.parametrize("how", ["improve", "respect", "manage"])
def test_a_client_with_markers_of_its_own_is_accepted_and_predicted(how: str) -> None:
    driver = Driver(CacheSettings(client_markers=how))  # type: ignore[arg-type]
    for turns in range(4):
        _, used, verdict = driver.send(talk(turns, marks=(("system", "1h"), ("last", "5m"))))
        assert verdict.explained
        assert (used.read > 0) is (turns > 0)


def test_a_plan_that_changes_nothing_sends_the_client_s_bytes() -> None:
    driver = Driver(CacheSettings(strategy="passthrough"))
    body = driver.body(raw_of(talk(2, marks=(("last", "5m"),))))
    prepared = driver.engine.prepare(body, lane=driver.lane, now=START)
    assert prepared.raw is body.raw


def test_an_automatic_marker_is_replaced_where_markers_are_managed() -> None:
    for how, stays in (("manage", False), ("respect", True)):
        driver = Driver(CacheSettings(client_markers=how))  # type: ignore[arg-type]
        prepared = driver.prepare(raw_of(talk(1), cache_control={"type": "ephemeral", "ttl": "1h"}))
        sent = json.loads(prepared.raw)
        assert ("cache_control" in sent) is stays
        driver.finish(prepared, driver.bill(prepared))
        assert prepared.markers[-1][0] == "messages[2].content[0]"


def test_an_unreadable_body_is_told_not_raised() -> None:
    found = EngineCore().parse(DIALECTS["anthropic"], b'{"model": "claude')
    assert isinstance(found, Unreadable)


@pytest.mark.parametrize(
    ("dialect", "model", "ref"),
    [
        ("anthropic", "claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("gemini", "models/gemini-2.5-pro", "gemini:gemini-2.5-pro"),
        ("openai_chat", "gpt-6.1-sol", "openai:gpt-6.1-sol"),
        ("openai_chat", "deepseek-chat", "deepseek:deepseek-chat"),
    ],
)
def test_facts_come_by_the_dialect_and_the_model(dialect: str, model: str, ref: str) -> None:
    body = DIALECTS[dialect].parse(raw_of(talk(), dialect, model), model=model)
    assert not isinstance(body, Unreadable)
    assert facts_of(body).ref == ref


# What the prefix is made of


def test_the_attribution_line_of_claude_code_is_no_part_of_the_prefix() -> None:
    shapes = [each for each in load("claude-code-2.1.325") if each.run == "basic"]
    driver = Driver()
    before = 0
    for number, shape in enumerate(shapes):
        raw = shape.body.replace(b"cc_version=2.1.325.ad7", b"cc_version=2.1.325.%03d" % number)
        assert raw != shape.body
        driver.wait(5)
        prepared = driver.prepare(raw)
        exchange = driver.bill(prepared, check=False)
        verdict = driver.finish(prepared, exchange)
        assert verdict.explained
        assert verdict.finding is None
        assert verdict.usage.read >= before
        assert (verdict.usage.read > 0) is (number > 0)
        before = verdict.usage.read
        paths = [prepared.path(index) for index in range(len(prepared.core.prompt.blocks))]
        assert "system[0]" not in paths
        assert "system[1]" in paths
        assert f"cc_version=2.1.325.{number:03d}".encode() in prepared.raw


# OpenAI's storage (document C)


@pytest.mark.parametrize("enabled", [False, True])
@DIALECT
def test_completions_are_stored_on_responses_only(dialect: str, enabled: bool) -> None:
    driver = Driver(CacheSettings(openai=OpenAISettings(store_completions=enabled)))
    sent = json.loads(driver.prepare(talk(), dialect=dialect).raw)
    assert (sent.get("store") is True) is (enabled and dialect == "openai_responses")


def test_a_client_s_own_choice_about_storage_is_left_alone() -> None:
    driver = Driver(CacheSettings(openai=OpenAISettings(store_completions=True)))
    prepared = driver.prepare(raw_of(talk(), "openai_responses", store=False), dialect="openai_responses")
    assert json.loads(prepared.raw)["store"] is False


# Calls that do not end well


def test_a_cancelled_call_leaves_nothing() -> None:
    driver = Driver().after(talk(0))
    prepared = driver.prepare(talk(1))
    exchange = driver.bill(prepared)
    exchange.abandon()
    driver.engine.abandon(prepared, now=driver.now)
    _, used, verdict = driver.send(talk(1))
    assert verdict.explained
    assert verdict.finding is None
    assert used.written > 1_000


def test_a_cut_call_has_written() -> None:
    driver = Driver().after(talk(0))
    prepared = driver.prepare(talk(1))
    exchange = driver.bill(prepared)
    driver.begin(prepared, exchange)
    driver.engine.abandon(prepared, now=driver.now, error="cut")
    _, used, verdict = driver.send(talk(1))
    assert verdict.explained
    assert used.written == 0


def test_parallel_calls_pay_both_and_are_predicted() -> None:
    driver = Driver().after(talk(0))
    calls = [driver.prepare(talk(1)), driver.prepare(talk(1))]
    exchanges = [driver.bill(call) for call in calls]
    verdicts = [driver.finish(*pair) for pair in zip(calls, exchanges, strict=True)]
    assert all(verdict.explained for verdict in verdicts)
    assert verdicts[0].usage.writes == verdicts[1].usage.writes != ()
    assert driver.send(talk(2))[2].explained


def test_an_end_that_comes_twice_counts_once() -> None:
    driver = Driver()
    prepared, _, verdict = driver.send(talk(0))
    driver.engine.abandon(prepared, now=driver.now)
    again = driver.send(talk(1))[2]
    assert again.explained
    assert again.usage.read == verdict.usage.written


# Fence, resets, ends


def test_the_fence_holds_until_the_entry_expires() -> None:
    driver = Driver()
    assert driver.engine.fence(driver.lane, now=START) == 0
    prepared, _, _ = driver.send(talk(1))
    blocks = len(prepared.core.prompt.blocks)
    at = prepared.core.outcome.at
    assert driver.engine.fence(driver.lane, now=at + 300) == blocks
    assert dict(prepared.markers)["system[0]"] == "5m"  # nothing is known of the client's pauses
    assert driver.engine.fence(driver.lane, now=at + 301) == 0


def test_the_fence_holds_through_a_restart(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db")
    prepared, _, _ = driver.send(talk(1))
    before = driver.engine.fence(driver.lane, now=driver.now)
    assert before == len(prepared.core.prompt.blocks)
    driver.restart()
    assert driver.engine.fence(driver.lane, now=driver.now) == before
    assert driver.engine.fence(driver.lane, now=driver.now + 4_000) == 0
    driver.close()


def test_an_announced_reason_makes_a_reset_of_a_break() -> None:
    for announce in (False, True):
        driver = Driver().after(talk(6))
        if announce:
            driver.engine.announce(driver.lane, "compaction", now=driver.now)
        _, _, verdict = driver.send(Talk([HOST], ["bash", "read"], [("user", 0, ["a summary " * 40])]))
        assert verdict.finding.reason == ("compaction" if announce else None)
        assert verdict.finding.cause == (None if announce else "messages_rewritten")


def test_what_a_lane_kept_goes_with_it() -> None:
    driver = Driver().after(talk(1))
    driver.engine.end(driver.lane, now=driver.now)
    assert driver.engine.fence(driver.lane, now=driver.now) == 0
    _, used, verdict = driver.send(talk(1))
    assert used.written == 0  # the entries are the provider's and stay
    assert verdict.explained


def test_bodies_of_ended_lanes_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded by the bytes of the lanes there are."""
    driver = Driver()
    size = len(raw_of(talk(1)))
    monkeypatch.setattr(engine_state, "KEPT_BODIES", 2 * size + 10)
    for number in range(4):
        lane = replace(driver.lane, id=f"ended {number}")
        driver.send(talk(1), lane=lane)
        driver.engine.end(lane, now=driver.now)
    for name in ("a", "b"):
        driver.send(talk(1), lane=replace(driver.lane, id=name))
    for name in ("a", "b"):
        assert driver.prepare(talk(1), lane=replace(driver.lane, id=name)).earlier is not None


# Edits


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_an_edit_is_made_when_cold_and_replayed_for_ever(stored: bool, tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db" if stored else None).after(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    prepared = driver.prepare(worked(4), edits={digest: data})
    assert prepared.edits.made
    assert data in prepared.raw
    if driver.store is not None:  # durable before it may be sent
        assert [edit.block for edit in driver.store.edits("t", "l")] == [digest.hex()]
    driver.finish(prepared, driver.bill(prepared))
    if stored:
        driver.restart()
    again, used, verdict = driver.send(worked(5))
    assert data in again.raw
    assert verdict.explained
    assert verdict.finding is None
    assert used.read == prepared.core.prompt.tokens
    driver.close()


def test_an_edit_is_refused_when_warm_and_not_paying() -> None:
    driver = Driver().after(worked(30))
    digest, data = edit_of(driver, worked(31))
    prepared = driver.prepare(worked(31), edits={digest: data})
    assert not prepared.edits.made
    assert "rule 5.5" in prepared.edits.why
    assert data not in prepared.raw
    driver.finish(prepared, driver.bill(prepared))
    assert data not in driver.send(worked(32))[0].raw


def test_edits_that_are_never_to_be_made_are_not() -> None:
    driver = Driver(CacheSettings(edits="never"))
    digest, data = edit_of(driver, worked())
    prepared = driver.prepare(worked(), edits={digest: data})
    assert not prepared.edits.made


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_a_fork_sends_its_parent_s_edits(stored: bool, tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db" if stored else None)
    digest, data = edit_of(driver, worked(3))
    made = driver.prepare(worked(3), edits={digest: data})
    driver.finish(made, driver.bill(made))
    fork = replace(driver.lane, id="fork", parent="l")
    forked, used, verdict = driver.send(worked(4), lane=fork)
    assert data in forked.raw
    assert used.read == made.core.prompt.tokens
    assert verdict.explained
    driver.close()


def test_an_edit_of_the_parent_s_that_came_later_is_not_the_fork_s(tmp_path: Path) -> None:
    """The fork has sent the original, and sends it for ever."""
    driver = Driver(path=tmp_path / "h.db").after(worked(3))
    fork = replace(driver.lane, id="fork", parent="l")
    before, _, _ = driver.send(worked(3), lane=fork)
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(3))
    made = driver.prepare(worked(3), edits={digest: data})
    assert data in made.raw
    driver.finish(made, driver.bill(made))
    driver.restart()
    after, _, _ = driver.send(worked(4), lane=fork)
    assert data not in after.raw
    assert [block.digest for block in after.core.prompt.blocks][: len(before.core.prompt.blocks)] == [
        block.digest for block in before.core.prompt.blocks
    ]
    driver.close()


# What is named by path


def test_volatile_pinned_and_summary_blocks_are_named_by_path() -> None:
    driver = Driver()
    said = talk(1, system=(HOST, "preferences " * 200, "it is noon"))
    prepared = driver.prepare(
        said, volatile=("system[2]", "nowhere"), pinned={"system[1]": "1h"}, summary="messages[0].content[0]"
    )
    asked = prepared.core.request
    assert [prepared.path(block) for block in asked.volatile] == ["system[2]"]
    assert [prepared.path(mark.block) for mark in asked.pinned] == ["system[1]"]
    assert ("system[1]", "1h") in prepared.markers
    assert all(path != "system[2]" for path, _ in prepared.markers)
    driver.finish(prepared, driver.bill(prepared))


def test_settings_are_those_of_the_lane_s_agent() -> None:
    from holdfast.config.keys import Settings

    engine = EngineCore(
        lambda agent: Settings(cache=CacheSettings(strategy="passthrough" if agent == "plain" else "rolling"))
    )
    driver = Driver()
    driver.engine = engine
    for agent in ("plain", ""):
        lane = Lane(tenant="t", session="s", id=f"l {agent}", agent=agent)
        assert bool(driver.prepare(talk(), lane=lane).markers) is (agent == "")
