"""A day's work in a real database: an engine in front of simulated providers, with all that can happen to a call."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from holdfast.config.sections.cache import CacheSettings, KeepaliveSettings
from holdfast.core.planner import Verdict
from holdfast.engine import Lane, PreparedCall, UnplannedCall
from holdfast.records import Usage, usage
from holdfast.records.events.sessions import GatewayPreflight
from holdfast.simulator import HttpRequest
from tests.engine.driver import HEADERS, HOST, START, Driver, talk
from tests.properties.sessions import Talk

SONNET, GPT, UNPRICED = "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol", "anthropic:claude-mythos-5-1"
HAIKU = "anthropic:claude-haiku-4-5"
CODING, CHAT, NEW = "5f0c7c1e-coding", "01KA3ZCHAT", "mythical"


class Workday(Struct, frozen=True):
    """What was done, as the engine told it: calls by a name, with what was billed and found."""

    path: Path
    calls: Mapping[str, str]
    usages: Mapping[str, Usage]
    verdicts: Mapping[str, Verdict]
    prepared: Mapping[str, PreparedCall]

    @property
    def cost(self) -> Decimal:
        return sum((used.cost or Decimal(0) for used in self.usages.values()), Decimal(0))


class Work(Driver):
    def __init__(self, path: Path) -> None:
        super().__init__(CacheSettings(strategy="rolling", keepalive=KeepaliveSettings(enabled=True)), path=path)
        self.calls: dict[str, str] = {}
        self.usages: dict[str, Usage] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.requests: dict[str, PreparedCall] = {}

    def turn(
        self, name: str, lane: Lane, said: Talk, gap: float = 10.0, dialect: str = "anthropic", **more: str
    ) -> None:
        prepared, used, verdict = self.send(said, gap, lane=lane, dialect=dialect, **more)
        self.calls[name], self.usages[name], self.verdicts[name] = prepared.call, used, verdict
        self.requests[name] = prepared

    def record(self, name: str, lane: Lane, kind: str, model: str, used: Usage | None, why: str) -> None:
        self.wait(5)
        self.calls[name] = call = self.engine.call_id()
        self.engine.note(
            UnplannedCall(
                id=call, lane=lane, kind=kind, model=model, started=self.now, ended=self.now + 1, usage=used, why=why
            )
        )

    def unanswered(self, name: str, lane: Lane, said: Talk, error: str) -> None:
        self.wait(3)
        prepared = self.prepare(said, lane=lane)
        self.calls[name] = prepared.call
        if error != "pending":
            self.bill(prepared).abandon()
            self.engine.abandon(prepared, now=self.now + 1, error=error)

    def ping(self, name: str, lane: Lane) -> None:
        """Wait for the lane's next ping, and answer it."""
        for _ in range(200):
            self.wait(5)
            for due in self.engine.pings([lane], now=self.now):
                answer = self.simulator.answer(HttpRequest("POST", "/v1/messages", HEADERS, {}, due.raw))
                assert answer.status == 200, answer.body
                used = self.simulator.journal.records()[-1].usage
                assert used is not None
                self.engine.pinged(due, used, now=self.now)
                self.calls[name] = due.call
                return
        raise AssertionError("no ping was due")


def clock(turns: int, minute: int) -> Talk:
    return talk(turns, system=(HOST, f"Current time: 2026-11-15 13:{minute:02}:00\n" + "Rules. " * 900))


def work(path: Path) -> Workday:
    """Three sessions of one tenant and one of another with the same id; the last call of all is still under way."""
    done = Work(path)
    main = Lane(tenant="t-one", session=CODING, id=f"{CODING}/main", client="claude-code")
    scout = Lane(
        tenant="t-one", session=CODING, id=f"{CODING}/scout", client="claude-code", agent="scout", parent=main.id
    )
    title = Lane(tenant="t-one", session=CODING, id=f"{CODING}/side", client="claude-code")
    done.record("title", title, "side", HAIKU, usage(input=900, output=12), why="a title")
    for number in range(3):
        done.turn(f"main {number}", main, clock(number, 1))
    done.turn("scout", scout, talk(0, system=("You are a scout. " * 300,)))
    done.turn("clock", main, clock(3, 2))
    done.turn("after", main, clock(4, 2))
    done.engine.announce(main, "compaction", now=done.now)
    compacted = clock(0, 2)
    compacted.turns[:] = [("user", 0, ["What was said so far, in short. " * 40])]
    done.turn("compacted", main, compacted, 30)
    done.unanswered("failed", main, clock(1, 2), "overloaded_error")
    done.unanswered("left", main, clock(1, 2), "")
    done.record("past", main, "bypassed", SONNET, usage(input=9_000, output=30), why="slow")
    warned = GatewayPreflight(
        call=done.calls["compacted"], action="warned", dollars=Decimal("0.2"), limit=Decimal("0.1")
    )
    done.engine.tell(main, warned, now=done.now)
    chat = Lane(tenant="t-one", session=CHAT, id=f"{CHAT}/main", client="codex")
    for number in range(2):
        done.turn(f"chat {number}", chat, talk(number), dialect="openai_responses")
    mythical = Lane(tenant="t-one", session=NEW, id=f"{NEW}/main", client="evil\x1b[31m\nagent")
    done.turn("mythical", mythical, talk(0), model="claude-mythos-5-1")
    other = Lane(tenant="t-two", session=CODING, id=f"{CODING}/main", client="pi")
    for number in range(12):  # pauses as they have to be seen before anything is kept alive
        done.turn(f"other {number}", other, talk(number), 420.0 if number else 40_000.0)
    done.ping("ping", other)
    done.unanswered("pending", other, talk(12), "pending")
    done.engine.close(now=done.now)
    done.close()
    return Workday(path, done.calls, done.usages, done.verdicts, done.requests)


__all__ = ["CHAT", "CODING", "GPT", "HAIKU", "NEW", "SONNET", "START", "UNPRICED", "Workday", "work"]
