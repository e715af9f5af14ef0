"""What a chat cost, by every command that says so: after compaction, a fork and sub-agents they agree to the token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from holdfast import facts
from holdfast.cli import run as main
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.cli.chats import Chatting

SCRIPT = """
delay: {first_token: 0, per_token: 0}
rules:
  - when: {tool_result: delegate}
    say: They are done.
  - when: {contains: ASK-OTHERS}
    call: {tool: delegate, input: {tasks: [{task: Count, role: helper}, {task: Look, role: helper}]}}
  - when: {contains: ""}
    say: A short answer.
"""
ALL = re.compile(
    r"In all: \d+ turns?, (?P<calls>[\d,]+) calls?, in (?P<input>[\d,]+), read (?P<read>[\d,]+) \(\d+%\),"
    r"\s+written (?P<written>[\d,]+), out (?P<output>[\d,]+): (?P<cost>\$\d+\.\d+)"
)
HERE = re.compile(r"^Here: .* · \$(?P<own>[\d.]+) \(without cache .*\) · sub-agents \$(?P<others>[\d.]+)", re.M)


class Figures(NamedTuple):
    calls: int
    input: int
    read: int
    written: int
    output: int
    cost: str


@pytest.fixture
def chat(chat: Chatting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chatting]:
    chat.script.write_text(SCRIPT)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("HOLDFAST_AGENT_MODEL", "anthropic:claude-haiku-4-5")
    monkeypatch.setenv("HOLDFAST_AGENT_COMPACTION_KEEP_RECENT_TOKENS", "1000")
    monkeypatch.setenv("HOLDFAST_AGENT_COMPACTION_ANCHOR_TURNS", "0")
    with running(Simulator(script=load_script(chat.script))) as address:
        monkeypatch.setenv("HOLDFAST_UPSTREAM_ANTHROPIC", address)
        yield chat


WORDS = "word " * 4_000
TALK = f"One {WORDS}\nand {WORDS}\n/cost\nASK-OTHERS\n/cost\nTwo {WORDS}\n/cost\n/compact\nThree\n/cost\n"


def figures(text: str) -> list[Figures]:
    """What each `/cost` said of the whole session."""
    return [
        Figures(*(int(each[name].replace(",", "")) for name in Figures._fields[:-1]), each["cost"])
        for each in ALL.finditer(text)
    ]


def reported(sums: dict[str, Any]) -> Figures:
    tokens = (sums[f"{kind}_tokens"] for kind in ("uncached", "cached", "creation", "output"))
    return Figures(sums["calls"], *tokens, f"${Decimal(sums['cost']):.4f}")


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def listed(chat: Chatting) -> dict[str, str]:
    rows = chat("--list", simulate=False).out.splitlines()[1:]
    return {row.split()[0]: cost[0] for row in rows if (cost := re.findall(r"\$[\d.]+", row))}


def test_all_commands_say_the_same(chat: Chatting, capsys: pytest.CaptureFixture[str]) -> None:
    first = chat("--yes", input=TALK, simulate=False)
    said = figures(first.out)[-1]
    assert said.calls == 10  # five of turns, two of sub-agents, three attempts at a summary
    fork = chat("--fork", first.session, input="Four\n/cost\n", simulate=False)
    forked = figures(fork.out)[-1]
    assert forked.calls == 1  # what came before the fork was paid there
    again = chat("--resume", first.session, input="/cost\n", simulate=False)
    assert figures(again.out)[-1] == said

    sessions = {each["id"]: each for each in read(capsys, "sessions")["sessions"]}
    bill = read(capsys, "bill", "--by", "session")
    billed = {each["id"]: each for each in bill["sessions"]}
    assert set(sessions) == set(billed) == {first.session, fork.session}  # sub-agents stand under their parent
    for id_, figure in ((first.session, said), (fork.session, forked)):
        shown = read(capsys, "show", id_)
        one = read(capsys, "bill", "--session", id_)["total"]
        assert [reported(each) for each in (sessions[id_], billed[id_], shown["session"], one)] == [figure] * 4
        assert next(cost for short, cost in listed(chat).items() if id_.startswith(short)) == figure.cost
        assert sum(lane["calls"] for lane in shown["lanes"]) == figure.calls
    lanes = read(capsys, "show", first.session)["lanes"]
    assert [lane["agent"] for lane in lanes] == [None, "helper", "helper"]
    assert [lane["parent"] for lane in lanes[1:]] == [lanes[0]["id"]] * 2


def test_without_a_bill_the_log_says_the_same(chat: Chatting) -> None:
    """What is simulated is on no bill: there, what the log says counts."""
    first = chat("--yes", input=TALK, simulate=False)
    said = figures(first.out)[-1]
    assert figures(chat("--resume", first.session, input="/cost\n").out) == [said]
    assert figures(chat("--fork", first.session, input="Four\n/cost\n").out)[-1].calls == 1
    *_, here = HERE.finditer(first.out)
    paid = Decimal(here["own"]) + Decimal(here["others"])
    assert abs(paid - Decimal(said.cost[1:])) <= Decimal("0.0001")


def test_our_own_agent_is_compared_with_no_client(chat: Chatting, capsys: pytest.CaptureFixture[str]) -> None:
    chat("--yes", input=TALK, simulate=False)
    for arguments in (["bill"], ["bill", "--by", "client"], ["show"]):
        assert main(arguments) == 0
        assert "alone" not in capsys.readouterr().out
    assert read(capsys, "bill")["total"]["saved"] is None


def test_cached_contents_of_gemini_are_in_all_of_them(
    chat: Chatting, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made, named and deleted by a chat, and their cost is in `/cost` and on the bill."""
    (chat.workspace / "AGENTS.md").write_text("A rule that every agent has to know. " * 4_000)
    simulator = Simulator(script=load_script(chat.script))
    monkeypatch.setenv("HOLDFAST_AGENT_MODEL", "gemini:gemini-2.5-pro")
    monkeypatch.setenv("HOLDFAST_CACHE_GEMINI_ENABLED", "true")
    with running(simulator) as address:
        monkeypatch.setenv("HOLDFAST_UPSTREAM_GEMINI", address)
        done = chat.done(input="Say it.\n/cost\n" * 6, simulate=False)
    beside = [(record.method, record.status) for record in simulator.journal.records() if "cached" in record.path]
    assert beside == [("POST", 200), ("DELETE", 200)]
    first, *_, last = figures(done.out)
    assert last.read > 2 * first.input * 0.9  # it is made beside a request, and named as soon as it is there
    used = [record.usage for record in simulator.journal.records() if record.usage is not None]
    tokens = sum((facts.price(each, "gemini:gemini-2.5-pro").cost or Decimal(0) for each in used), Decimal(0))
    total = Decimal(last.cost.removeprefix("$"))
    rates = facts.rates("gemini:gemini-2.5-pro")
    assert float(total - tokens) == pytest.approx(float(used[-1].read * rates.input), rel=0.02)  # making the object
    assert reported(read(capsys, "bill", "--session", done.session)["total"]) == last
