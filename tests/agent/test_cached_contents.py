"""Gemini's cached contents through an agent's sessions, in front of a simulated provider on a virtual clock."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.agent import cached_contents
from holdfast.agent.contract import Task, Unreachable
from holdfast.agent.session import Session
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import MaskSettings
from holdfast.config.sections.cache import CacheSettings, GeminiSettings
from holdfast.engine import PreparedCall
from holdfast.records import Request, ToolResult
from holdfast.simulator import HttpRequest
from holdfast.simulator.faults import Fault, FaultMatch, Options
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.provider import workspace
from tests.agent.bench import Bench, calls, settings

MODEL = "gemini:gemini-2.5-pro"
KEY = {"x-goog-api-key": "simulated"}
PERSONA = "You keep the records of a library, and answer questions about them. " * 500


def diligent(request: Request) -> object:
    """A model that reads a file eight times before it answers."""
    done = sum(isinstance(block, ToolResult) for message in request.messages for block in message.content)
    return {"call": [{"tool": "read_file", "input": {"path": "a.txt", "offset": done + 1}}]} if done < 8 else "Done."


def config(enabled: bool = True, **more: Any) -> Settings:
    gemini = GeminiSettings(enabled=enabled, **more.pop("gemini", {}))
    return settings(model=MODEL, cache=CacheSettings(gemini=gemini), **more)


def gemini_bench(place: Path, chosen: Any = None, **more: Any) -> Bench:
    return Bench(place, config=chosen or config(), persona=PERSONA, **more)


def live(bench: Bench) -> list[str]:
    answer = bench.simulator.answer(HttpRequest("GET", "/v1beta/cachedContents", KEY, {}, b""))
    return [each["name"] for each in json.loads(answer.body).get("cachedContents", [])]


def made(bench: Bench, method: str = "POST") -> list[str]:
    """The objects that such calls were made for, and answered."""
    return [
        json.loads(answer)["name"] if method == "POST" else path.removeprefix("/v1beta/")
        for verb, path, _, status, answer in bench.sent_beside
        if verb == method and status == 200
    ]


def named(bench: Bench) -> list[str | None]:
    """The object that each request names."""
    return [json.loads(raw).get("cachedContent") for _, _, raw in bench.sent]


def forget(bench: Bench) -> None:
    """The provider lets go of all objects, before their time."""
    for name in live(bench):
        bench.simulator.answer(HttpRequest("DELETE", f"/v1beta/{name}", KEY, {}, b""))


async def settled(bench: Bench) -> None:
    """Until the calls beside the requests are over."""
    while bench.sessions.contents.under_way:
        await asyncio.sleep(0)


async def talk(bench: Bench, session: Session, turns: int, *, pause: float = 30.0, first: int = 0) -> None:
    for number in range(first, first + turns):
        turn = await session.ask(f"question {number}")
        assert turn.ended == "completed", turn.problem
        await settled(bench)
        bench.clock.advance(pause)


async def talked(bench: Bench, turns: int, **options: Any) -> Session:
    """A new session of so many turns."""
    session = await bench.begin(**options)
    await talk(bench, session, turns)
    return session


def whole(bench: Bench, raw: bytes) -> dict[str, Any]:
    """A request with what the object that it names holds in its place."""
    members: dict[str, Any] = json.loads(raw)
    name = members.pop("cachedContent", None)
    if name is None:
        return members
    body = next(
        json.loads(sent)
        for method, _, sent, status, answer in bench.sent_beside
        if method == "POST" and status == 200 and json.loads(answer)["name"] == name
    )
    held = {key: value for key, value in body.items() if key in ("systemInstruction", "tools", "toolConfig")}
    assert not held.keys() & members.keys()
    return {**members, **held, "contents": [*body.get("contents", []), *members["contents"]]}


class TestLifecycle:
    async def test_created_beside_a_request_named_by_the_next_deleted_at_the_end(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            session = await talked(bench, 6)
            assert len(made(bench)) == 1
            assert named(bench)[0] is None
            use = named(bench).index(made(bench)[0])
            assert set(named(bench)[use:]) == {made(bench)[0]}
            assert all(usage.read > 4_096 for usage in bench.used()[use:])
            assert live(bench) == made(bench)
            await session.end()
            assert live(bench) == []
            assert made(bench, "DELETE") == made(bench)
            assert not bench.breaks()

    async def test_deleted_when_the_session_is_closed_and_made_again_when_it_goes_on(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            session = await talked(bench, 5)
            await session.close()
            assert live(bench) == []
            session = await bench.sessions.resume(session.id)
            await talk(bench, session, 4, first=5)
            assert len(made(bench)) == 2
            assert named(bench)[-1] == made(bench)[1]

    async def test_deleted_when_the_agent_closes(self, tmp_path: Path) -> None:
        bench = gemini_bench(tmp_path)
        await talked(bench, 5)
        assert live(bench)
        await bench.close()
        assert live(bench) == []

    async def test_one_of_a_process_that_was_killed_is_named_again(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            session = await talked(bench, 5)
            session = await bench.resumed(session, clean=False)
            await talk(bench, session, 1, first=5)
            assert len(made(bench)) == 1
            assert named(bench)[-1] == made(bench)[0]
            await session.close()
            assert live(bench) == []

    async def test_refreshed_at_half_life_by_the_request_that_uses_it(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            session = await talked(bench, 8)
            begun = bench.clock.now()
            for number in range(8, 26):
                await talk(bench, session, 1, first=number, pause=240.0)
            refreshed = [path for method, path, *_ in bench.sent_beside if method == "PATCH"]
            assert bench.clock.now() - begun > 3_600
            assert 1 <= len(refreshed) <= 3
            assert len(made(bench)) == 1
            assert set(named(bench)[-18:]) == set(made(bench))

    async def test_refreshed_while_a_session_is_open_and_nothing_is_asked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cached_contents, "TICK_S", 0.001)
        async with gemini_bench(tmp_path) as bench:
            session = await talked(bench, 15)
            bench.clock.advance(1_700)
            for _ in range(200):  # the clock of the agent's chores is a real one
                await asyncio.sleep(0.002)
                if made(bench, "PATCH"):
                    break
            bench.clock.advance(1_900)
            assert live(bench) == made(bench)  # it would have run out
            bench.clock.advance(3_600)
            await asyncio.sleep(0.01)
            assert live(bench) == []  # and does, where nobody comes back
            assert session in bench.sessions.open_sessions()

    async def test_a_process_for_each_message_pays_for_one_that_it_never_names_once_a_day(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            session = await bench.sessions.create()
            for number in range(20):
                await talk(bench, session, 1, first=number)
                await session.close()
                session = await bench.sessions.resume(session.id)
            assert len(made(bench)) == 1
            assert set(named(bench)) == {None}

    async def test_at_most_max_active(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path, config(gemini={"max_active": 2, "refresh_at": 0.2})) as bench:
            for number in range(3):
                await talked(bench, 5, system_prompt=f"Shelf {number}. " * 3_000)
                assert named(bench)[-1] == made(bench)[-1]
                assert len(live(bench)) == min(number + 1, 2)
                bench.clock.advance(900)
            assert len(made(bench, "DELETE")) == 1

    async def test_off_by_default(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path, settings(model=MODEL)) as bench:
            session = await talked(bench, 6)
            await session.end()
        assert bench.sent_beside == []
        assert set(named(bench)) == {None}

    async def test_sub_agents_have_their_own(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path, reply=diligent) as bench:
            (bench.workspace / "a.txt").write_text("a\n")
            session = await bench.sessions.create()
            delegated = await session.delegate([Task(task=f"Read it, part {n}.", role="reader") for n in range(2)])
            assert [each.status for each in delegated] == ["completed", "completed"]
            by = [sub for (sub, _), name in zip(bench.sent_by, named(bench), strict=True) if name]
            assert set(by) == {each.id for each in delegated}
            assert len(made(bench)) == 1  # they begin alike, and share it
            assert live(bench) == []  # and are done


class TestSameWords:
    """What an object holds and what is sent beside it are the request, whatever happens to the conversation."""

    async def test_tools_masking_and_compaction(self, tmp_path: Path) -> None:
        chosen = config(
            mask=MaskSettings(keep_window=1, trigger_chars=2_000, release_chars=1_000), compaction={"anchor_turns": 0}
        )
        async with gemini_bench(tmp_path, chosen) as bench:
            plans: list[PreparedCall] = []
            session = await bench.sessions.create()
            session.on_planned = plans.append
            for number in range(12):
                (bench.workspace / f"{number}.txt").write_text(f"line of {number}\n" * 200)
                turn = await session.ask(calls(("read_file", {"path": f"{number}.txt"})))
                assert turn.ended == "completed", turn.problem
                await settled(bench)
                bench.clock.advance(4_000 if number == 6 else 20)
                if number == 9:
                    await session.compact()
            used = [name for name in named(bench) if name]
            assert len(set(used)) > 1  # a changed prefix has another object
            assert len(plans) == len(bench.sent)
            for plan, (_, _, raw) in zip(plans, bench.sent, strict=True):
                assert whole(bench, raw) == json.loads(plan.sent.raw)
            assert bench.events("tool.masked")
        assert live(bench) == []

    async def test_another_system_text_has_another_object(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            for text in ("You keep books. " * 3_000, "You sell books. " * 3_000):
                await talked(bench, 5, system_prompt=text)
            assert len(set(made(bench))) == 2
            assert {name for name in named(bench)[:5] if name} & {name for name in named(bench)[5:] if name} == set()


class TestFailures:
    async def test_a_forgotten_object_is_not_noticed(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path) as bench:
            session = await talked(bench, 5)
            forget(bench)
            await talk(bench, session, 1, first=5)
            assert [bool(name) for name in named(bench)[-2:]] == [True, False]
            first, again = (raw for _, _, raw in bench.sent[-2:])
            assert whole(bench, first) == json.loads(again)
            await talk(bench, session, 2, first=6)
            assert made(bench)[0] not in named(bench)[6:]

    async def test_it_is_sent_again_only_once(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path, config(agent={"retries": 0})) as bench:
            session = await talked(bench, 5)
            forget(bench)
            message = "CachedContent not found (or permission denied)"
            bench.simulator.faults.add(
                Fault(
                    "status",
                    times=3,
                    options=Options(status=403, message=message),
                    match=FaultMatch(path="enerateContent"),
                )
            )
            before = len(bench.sent)
            turn = await session.ask("question 5")
            assert (turn.ended, len(bench.sent) - before) == ("failed", 2)
            assert message in turn.problem

    @pytest.mark.parametrize("outcome", [400, 429, 500, Unreachable("away"), RuntimeError("broken")], ids=str)
    async def test_what_cannot_be_made_disturbs_nobody(
        self, tmp_path: Path, outcome: int | Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried: list[str] = []

        async def fail(_: Simulated, request: Any) -> tuple[int, bytes]:
            tried.append(request.method)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome, b"{}"

        monkeypatch.setattr(Simulated, "send", fail)
        async with gemini_bench(tmp_path) as bench:
            await talked(bench, 6)
            assert set(named(bench)) == {None}
            assert tried == ["POST"]  # not tried again yet

    async def test_a_refused_request_asks_for_nothing_and_the_next_one_does(self, tmp_path: Path) -> None:
        async with gemini_bench(tmp_path, config(agent={"retries": 1})) as bench:
            session = await talked(bench, 1)
            bench.simulator.faults.add(Fault("status", times=1, options=Options(status=503)))
            await talk(bench, session, 4, first=1)
            assert len(made(bench)) == 1
            assert named(bench)[-1] == made(bench)[0]

    async def test_a_provider_that_takes_no_such_calls_is_told_of_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with gemini_bench(tmp_path) as bench:

            class Plain:
                def __init__(self, provider: Any) -> None:
                    self.open = provider.open

            bench.sessions.provider = bench.sessions.contents.provider = Plain(bench.sessions.provider)
            with caplog.at_level(logging.WARNING):
                for _ in range(2):
                    await talked(bench, 5)
            assert [record.getMessage() for record in caplog.records].count(
                "cache.gemini.enabled has no effect: Plain has no method `send` for calls beside the requests."
            ) == 1

    async def test_a_session_that_is_closed_while_one_is_made_leaves_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = Simulated.send

        async def late(provider: Simulated, request: Any) -> tuple[int, bytes]:
            await asyncio.sleep(0.05)
            return await send(provider, request)

        monkeypatch.setattr(Simulated, "send", late)
        async with gemini_bench(tmp_path) as bench:
            session = await bench.sessions.create()
            for number in range(4):
                await session.ask(f"question {number}")
                bench.clock.advance(30)
                if bench.sessions.contents.under_way:
                    break
            assert bench.sessions.contents.under_way
            await session.end()
            assert len(made(bench)) == 1
            assert live(bench) == []


class TestOtherClocks:
    @pytest.mark.parametrize("apart_s", [-7_200, 7_200])
    async def test_an_object_lives_as_long_as_was_asked_whatever_the_clock_here_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart_s: int
    ) -> None:
        send = Simulated.send

        async def elsewhere(provider: Simulated, request: Any) -> tuple[int, bytes]:
            status, raw = await send(provider, request)
            answer = json.loads(raw) if raw else {}
            if "expireTime" in answer:
                end = datetime.fromisoformat(answer["expireTime"]) + timedelta(seconds=apart_s)
                raw = json.dumps({**answer, "expireTime": end.isoformat()}).encode()
            return status, raw

        monkeypatch.setattr(Simulated, "send", elsewhere)
        async with gemini_bench(tmp_path) as bench:
            await talk(bench, await bench.sessions.create(), 24, pause=150.0)
            assert len(made(bench)) == 1
            assert made(bench, "PATCH")
            assert named(bench).count(made(bench)[0]) > 10
            assert not [each for each in bench.simulator.journal.records() if each.status != 200]


class TestUnusable:
    async def test_one_that_can_be_made_and_not_used_is_paid_for_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send = Simulated.send

        async def other(provider: Simulated, request: Any) -> tuple[int, bytes]:
            status, raw = await send(provider, request)
            return status, raw.replace(b"cachedContents/", b"cachedContents/of-another-project-")

        monkeypatch.setattr(Simulated, "send", other)
        async with gemini_bench(tmp_path) as bench:
            session = await bench.sessions.create()
            await talk(bench, session, 12, pause=5.0)
            assert len(made(bench)) == 1
            assert sum(name is not None for name in named(bench)) == 1

    @pytest.mark.parametrize(
        "answer",
        [b"", b"[]", b'{"name":"\xff"}', {"name": ""}, {"name": "../files/x"}, {"tokens": -5}, {"tokens": 2**70}],
    )
    async def test_an_answer_that_describes_none_is_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | dict[str, Any]
    ) -> None:
        async def odd(provider: Simulated, request: Any) -> tuple[int, bytes]:
            if isinstance(answer, bytes):
                return 200, answer
            tokens = {"totalTokenCount": answer.get("tokens", 20_000)}
            made = {"name": answer.get("name", "cachedContents/x"), "expireTime": "2099-01-01T00:00:00Z"}
            return 200, json.dumps({**made, "usageMetadata": tokens}).encode()

        monkeypatch.setattr(Simulated, "send", odd)
        async with gemini_bench(tmp_path) as bench:
            session = await bench.sessions.create()
            await talk(bench, session, 6, pause=5.0)
            assert set(named(bench)) == {None}
            assert len(bench.sent_beside) == 1


class TestCosts:
    async def test_one_sum_and_less_than_without(self, tmp_path: Path) -> None:
        """What is billed and shown holds creation and storage, and is less than without objects."""
        paid: dict[bool, Decimal] = {}
        for enabled in (True, False):
            async with gemini_bench(tmp_path / str(enabled), config(enabled)) as bench:
                session = await bench.sessions.create()
                await talk(bench, session, 24, pause=150.0)
                shown = session.totals().cost
                bench.store.flush()
                (booked,) = bench.store.sessions()
                rows = bench.store.calls()
                assert shown is not None
                assert shown == sum((row.usage.cost or Decimal(0) for row in rows if row.usage), Decimal(0))
                tokens = sum((facts.price(usage, MODEL).cost or Decimal(0) for usage in bench.used()), Decimal(0))
                rates = facts.rates(MODEL)
                assert rates.storage_hour is not None
                extra = shown - tokens
                if enabled:
                    hours = bench.simulator.stored()[workspace(HttpRequest("POST", "/", KEY))]
                    created = sum(
                        json.loads(answer)["usageMetadata"]["totalTokenCount"] for *_, answer in bench.sent_beside[:1]
                    )
                    due = created * rates.input + Decimal(str(hours)) * rates.storage_hour
                    assert float(extra) == pytest.approx(float(due), rel=0.06)  # the last pause is not charged yet
                else:
                    assert extra == 0
                paid[enabled] = shown
                assert booked
        assert paid[True] < paid[False]
