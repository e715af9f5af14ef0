"""The mechanisms that the engine has for any client: lifetimes, the fence, breaks, markers, what only one provider has.

Each function plays a session in which the mechanism has something to do, with it and without it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.mechanisms_driving import (
    PAUSE,
    QUICK,
    RESPONDING,
    START,
    TOOLS,
    Client,
    Effect,
    asked,
    paid,
    prompt_cost,
    ratio,
    text,
)
from holdfast import facts
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import MaskSettings
from holdfast.config.sections.cache import CacheSettings, GeminiSettings, OpenAISettings
from holdfast.core.call import Verdict
from holdfast.core.gemini_contents import Create
from holdfast.engine import EngineCore, Lane
from holdfast.engine.lane import SideCall
from holdfast.engine.reports import Reports
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.provider import workspace
from holdfast.tools.masking import Masker
from holdfast.wire import DIALECTS, Body

NEVER = 10**9
"""For a setting that says after how much something happens."""
BURSTS = ([QUICK] * 4 + [PAUSE]) * 4
"""Bursts of five turns, with pauses between them."""


def escalation() -> Iterator[Effect]:
    quick = [QUICK] * 2
    yield ratio(
        "escalation, three quick turns, over an hour from the start",
        paid(quick, strategy="zones"),
        paid(quick, strategy="zones", adaptive=False),
        "{} of what an hour from the start costs in a session of three turns",
    )
    yield ratio(
        "escalation, bursts with pauses, over five minutes throughout",
        paid(BURSTS, strategy="zones"),
        paid(BURSTS, strategy="zones", retention="short"),
        "{} of five minutes throughout in one with pauses of 20 minutes",
    )


def fast_escalation() -> Iterator[Effect]:
    gaps, large = [QUICK, PAUSE] * 4, {"system": 30_000}
    with_it, without = (
        paid(gaps, large, strategy="zones", escalate_first_write_tokens=limit) for limit in (20_000, NEVER)
    )
    says = "{} of the cost without it: 30,000 tokens of system text, a pause after every second turn"
    yield ratio("fast escalation, 30,000 tokens of system text", with_it, without, says)
    gaps = [QUICK, PAUSE]
    once, never = (paid(gaps, large, strategy="zones", escalate_first_write_tokens=limit) for limit in (20_000, NEVER))
    yield ratio("fast escalation, one pause only", once, never, "{} with one pause only")


def instability() -> Iterator[Effect]:
    def cost(after: int) -> Decimal:
        client = Client(CacheSettings(strategy="zones", placement="multi-zone", unstable_after_turns=after))
        for turns in range(1, 31):
            request = asked(turns)
            if turns > 6:  # from here on the client writes the time into what was said first
                request["messages"][0]["content"] = text(800, f"it is {turns} o'clock")
            client.send(request)
            client.clock.advance(QUICK)
        return client.paid

    says = "{} of the cost without it, in a session whose first message changes every turn from the seventh on"
    yield ratio("unstable prefix, 24 turns with another first message", cost(5), cost(NEVER), says)


def fence() -> Iterator[Effect]:
    arms = {how: _masking(how) for how in ("fenced", "careless", "never")}
    says = "{} of clearing old results as soon as they are old (40 turns with three results of 1,000 tokens each)"
    yield ratio("fence, over clearing at once", arms["fenced"], arms["careless"], says)
    yield ratio("fence, over never clearing", arms["fenced"], arms["never"], "{} of never clearing any")


def _masking(how: str) -> Decimal:
    """All but the newest 25 results are to go: when the fence allows it or it pays, at once and by the client's own
    hand, or not at all."""
    client, settings = Client(), MaskSettings()
    masker, lane = Masker(settings), client.lane()
    for rounds in range(1, 41):
        old = max(0, 3 * rounds - settings.keep_window)
        body = client.body(_with_results(rounds, cleared=old if how == "careless" else 0))
        now, edits = client.clock.now(), dict[bytes, bytes]()
        if how == "fenced":
            known, prompt = client.engine.ledger(lane, now=now).edits, client.engine.read(body).prompt
            edits = dict(
                masker.requests(body, prompt, fence=partial(client.engine.fence, lane, now=now), already=known).edits
            )
        proposed = client.send(body, edits=edits)[0].edits
        masker.settle(proposed is not None and proposed.made)
        client.clock.advance(QUICK)
    return client.paid


def _with_results(rounds: int, cleared: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": text(100, "look at the logs")}]
    for number in range(rounds):
        ids = [f"call_{3 * number + each}" for each in range(3)]
        calls = [{"type": "tool_use", "id": one, "name": "read", "input": {"path": one}} for one in ids]
        results = [
            {"type": "tool_result", "tool_use_id": one, "content": text(1_000, one) if at >= cleared else "[cleared]"}
            for at, one in enumerate(ids, start=3 * number)
        ]
        messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    return asked(1) | {"messages": messages}


# Rows 6 and 7

Change = Callable[[Client, dict[str, Any]], object]


def _evicted(client: Client, _request: dict[str, Any]) -> None:
    client.simulator = Simulator(clock=client.clock)


FAULTS: dict[str, Change] = {
    "system_prompt_changed": lambda _, request: request.update(system=text(6_000, "rules of today")),
    "tools_changed": lambda _, request: request.update(tools=TOOLS[:-1]),
    "messages_rewritten": lambda _, request: request["messages"][0].update(content=text(800, "said otherwise")),
    "parameters_changed": lambda _, request: request.update(tool_choice={"type": "any"}),
    "model_changed": lambda _, request: request.update(model="claude-opus-4-5"),
    "ttl_expired_5m": lambda client, _: client.clock.advance(PAUSE),
    "likely_server_side": _evicted,
}
"""What goes wrong, by the cause that it should be given."""
TURNS = 8


def detection() -> Iterator[Effect]:
    found = right = false = whole = 0
    for cause in (*FAULTS, None):
        for turn, verdict in _disturbed(cause):
            whole += turn != TURNS or cause is None
            false += verdict.finding is not None and (turn != TURNS or cause is None)
            found += verdict.finding is not None and turn == TURNS and cause is not None
            right += verdict.finding is not None and turn == TURNS and verdict.finding.cause == cause
    says = f"{{}} of {len(FAULTS)} injected breaks found, {right} with the right cause; "
    yield Effect("breaks found", found, f"{says}false alarms in {whole} undisturbed requests: {false}", "", 0)


def _disturbed(cause: str | None, reports: Reports | None = None) -> Iterator[tuple[int, Verdict]]:
    """Eight turns, at the last of which something goes wrong."""
    client = Client(CacheSettings(strategy="rolling"), reports=reports)
    for turns in range(1, TURNS + 1):
        request = asked(turns)
        if turns == TURNS and cause is not None:
            FAULTS[cause](client, request)
        yield turns, client.send(request)[1]
        client.clock.advance(QUICK)
    client.engine.close(now=client.clock.now())  # reports are written beside the requests


def reports() -> Iterator[Effect]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        for cause in FAULTS:
            for _ in _disturbed(cause, Reports(scratch)):
                pass
        lines = [line for file in Path(scratch).glob("*.jsonl") for line in file.read_text().splitlines()]
    told = [json.loads(line) for line in lines]
    with_place = sum("path" in each for each in told)
    tokens = sum(facts.estimate(line) for line in lines) / len(lines)
    size = 2 * facts.estimate(json.dumps(asked(TURNS)))
    yield Effect(
        "break reports",
        len(lines),
        f"{{}} lines for {len(FAULTS)} breaks, {with_place} of them with the block that changed; "
        f"about {round(tokens, -2):.0f} tokens a line, where the two requests to be compared have {round(size, -3):,}",
        "",
        0,
    )


# Rows 9 to 13


def suppression() -> Iterator[Effect]:
    for strategy in ("zones", "economic"):
        with_it, without = (_children(strategy, known) for known in (True, False))
        yield ratio(
            f"sub-agents known as such, {strategy}",
            with_it,
            without,
            f"`{strategy}`: {{}} of eight conversations taken for agents of their own",
        )


def _children(strategy: Literal["zones", "economic"], known: bool) -> Decimal:
    """Eight sub-agents of four requests each, after their parent's first."""
    client = Client(CacheSettings(strategy=strategy, adaptive=False))
    client.send(asked(1, system=20_000))
    before = client.paid
    for child in range(8):
        for turns in range(1, 5):
            request = asked(turns, system=20_000)
            request["messages"][0]["content"] = text(800, f"task {child}")
            client.send(request, lane=f"child {child}", subagent=known)
            client.clock.advance(5)
    return client.paid - before


def zones() -> Iterator[Effect]:
    for gaps, when in (([QUICK] * 24, "25 quick turns"), (BURSTS, "bursts with pauses of 20 minutes")):
        by_zone, long, short = (
            paid(gaps, strategy="zones", placement="multi-zone", adaptive=adaptive, retention=retention)
            for adaptive, retention in ((True, "long"), (False, "long"), (True, "short"))
        )
        yield ratio(f"zones, {when}, over an hour", by_zone, long, f"in {when} {{}} of an hour everywhere")
        yield ratio(f"zones, {when}, over five minutes", by_zone, short, "{} of five minutes everywhere")
    slow = [QUICK] * 4 + [PAUSE / 2] * 12
    promoted, kept = (paid(slow, strategy="zones", promote_recent_zone=choice) for choice in (True, False))
    says = "the recent zone made long where turns have become slow: {} of leaving it short"
    yield ratio("recent zone promoted, a turn in 10 minutes", promoted, kept, says)


def markers() -> Iterator[Effect]:
    gaps = [QUICK] * 19
    none = paid(gaps, strategy="passthrough")
    says = "{} of the cost without markers, in a session of 20 turns"
    yield ratio("Anthropic's markers, over none", paid(gaps), none, says)


class Gem:
    """A client of Gemini that makes the calls the engine asks for. Bills come from the simulator alone."""

    name, ref, key = "gemini-3-pro", "gemini:gemini-3-pro", {"x-goog-api-key": "k"}
    lane = Lane(tenant="t", session="s", id="s/main", client="bench", agent="librarian")

    def __init__(self, *, enabled: bool) -> None:
        self.clock = VirtualClock(START)
        self.simulator = Simulator(clock=self.clock)
        self.engine = EngineCore(Settings(cache=CacheSettings(gemini=GeminiSettings(enabled=enabled))), strict=True)
        self.paid, self.created = Decimal(0), 0

    def talk(self, turns: int, gap: float) -> Decimal:
        """What so many turns cost, with making and keeping cached contents."""
        for number in range(1, turns + 1):
            for call in self.engine.chores(self.lane, now=self.clock.now()):
                self.engine.chore_done(self.lane, call, *self._side(call), now=self.clock.now())
            self._turn(number)
            self.clock.advance(gap)
        for call in self.engine.end(self.lane, now=self.clock.now()):
            self._side(call)
        rates = facts.rates(self.ref)
        assert rates is not None
        assert rates.storage_hour is not None
        hours = self.simulator.stored().get(workspace(HttpRequest("POST", "/", self.key)), 0.0)
        return self.paid + Decimal(hours) * rates.storage_hour + self.created * rates.input

    def _turn(self, turns: int) -> None:
        now = self.clock.now()
        contents = [{"role": "user", "parts": [{"text": text(200, "question 0")}]}]
        for turn in range(1, turns):
            contents += [
                {"role": "model", "parts": [{"text": text(200, f"answer {turn}")}]},
                {"role": "user", "parts": [{"text": text(200, f"question {turn}")}]},
            ]
        whole = {"contents": contents, "systemInstruction": {"parts": [{"text": text(20_000, "rules")}]}}
        body = self.engine.parse(DIALECTS["gemini"], json.dumps(whole).encode(), model=self.name)
        assert isinstance(body, Body)
        prepared = self.engine.prepare(body, lane=self.lane, now=now)
        for call in prepared.before:
            self.engine.answered(prepared, call, *self._side(call), now=now)
        path = f"/v1beta/models/{self.name}:generateContent"
        answer = self.simulator.answer(HttpRequest("POST", path, self.key, {}, prepared.raw))
        if answer.status != 200:
            raise RuntimeError(answer.body.decode()[:500])
        used = self.simulator.journal.records()[-1].usage
        assert used is not None
        self.paid += prompt_cost(self.ref, used)
        self.engine.settle(prepared, used, now=now)

    def _side(self, call: SideCall) -> tuple[int, bytes]:
        send = call.send
        answer = self.simulator.answer(HttpRequest(send.method, send.path, self.key, send.query, send.body))
        if isinstance(call.command, Create) and answer.status == 200:
            self.created += json.loads(answer.body)["usageMetadata"]["totalTokenCount"]
        return answer.status, answer.body


def contents() -> Iterator[Effect]:
    for turns, gap, when in ((40, 30.0, "a turn every half minute"), (20, 600.0, "a turn in 10 minutes")):
        on, off = (Gem(enabled=enabled).talk(turns, gap) for enabled in (True, False))
        says = f"with {when} {{}} of the provider's own caching, storage included"
        yield ratio(f"Gemini's cached contents, {when}", on, off, says)


def stored() -> Iterator[Effect]:
    arms = {on: _responses(on) for on in (True, False)}
    (cost, said, size), (plain, _, less) = arms[True], arms[False]
    yield Effect(
        "stored completions",
        float(cost / plain),
        f"{{}} of the cost; {said} of 8 requests ask for it, none without, for {size - less} bytes each",
        digits=3,
    )


def _responses(store: bool) -> tuple[Decimal, int, int]:
    """What eight turns cost, how many requests ask to be stored, and the bytes of the last."""
    client = Client(CacheSettings(openai=OpenAISettings(store_completions=store)), dialect="openai_responses")
    said, raw = 0, b""
    for turns in range(1, 9):
        items = [{"role": each["role"], "content": each["content"]} for each in asked(turns)["messages"]]
        request = {"model": RESPONDING, "instructions": text(6_000, "rules"), "input": items}
        raw = client.send(request)[0].raw
        said += json.loads(raw).get("store") is True
        client.clock.advance(QUICK)
    return client.paid, said, len(raw)
