"""Sessions from logs replay like the traces they tell of: the same requests, the same costs, the same breaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.lab import (
    DEFAULT,
    STRATEGY_NAMES,
    ReplayOptions,
    Result,
    Shape,
    ShapeBlock,
    Trace,
    TraceStep,
    run,
    used_models,
)
from holdfast.records import Request, Usage, usage
from holdfast.report.logs.conversations import MOST, Growth
from holdfast.report.logs.discovery import LogReader, sources
from holdfast.report.logs.records import BrokenSource, LoggedRequest, Record, Source
from holdfast.report.logs.selection import TURN, SecondReading, SessionChooser, TraceBuilder
from holdfast.store import Call, open_store
from holdfast.store import operations as op
from holdfast.wire import DIALECTS
from tests.lab.recordings import needs_recordings, own, recorded
from tests.lab.replay.coding_sessions import coding_session
from tests.report.logs import opencode_logs
from tests.report.logs.claude_logs import START, Talk, used
from tests.report.logs.shaped_logs import as_pi, as_rollout, as_transcript

OPUS, SONNET = "claude-opus-4-6", "claude-sonnet-4-5"  # the second caches from 1,024 tokens on
MARKED = {"cache_control": {"type": "ephemeral"}}
LOG = Source(path=Path("log"), format="bodies", size=0)

Make = Callable[[Trace, Path], Path]
LOGS: dict[str, Make] = {
    "claude-code": lambda trace, place: as_transcript(trace, place / f"{trace.name}.jsonl"),
    "codex": as_rollout,
    "codex without records": lambda trace, place: as_rollout(trace, place, records=False),
    "pi": as_pi,
}
ALL_LOGS = pytest.mark.parametrize("make", LOGS.values(), ids=LOGS)


def read(top: Path, limit: int | None = None, session: str | None = None) -> tuple[SessionChooser, SecondReading]:
    picking, reading = SessionChooser(session), LogReader()
    for source in sources([top]):
        for record in reading.records(source, lambda _: None):
            picking.add(source, record)
    again, reading = picking.chosen(limit), LogReader()
    for source in again.sources:
        for record in reading.records(source, lambda _: None):
            again.add(source, record)
    return picking, again


def traces(top: Path, limit: int | None = None) -> list[Trace]:
    return read(top, limit)[1].tracing.traces()


def one(*records: LoggedRequest, origin: str = "") -> Trace:
    tracing = TraceBuilder({"s"})
    for record in records:
        tracing.add(record, origin)
    [trace] = tracing.traces()
    return trace


def logged(number: int, read: int = 0, written: int = 0, **more: object) -> LoggedRequest:
    known = {"session": "s", "source": f"log:{number}", "model": OPUS, "at": START + 9.0 * number}
    return LoggedRequest(**(known | {"usage": usage(input=3, read=read, writes={"5m": written}, output=100)} | more))  # type: ignore[arg-type]


def results(trace: Trace, strategies: Sequence[str] = STRATEGY_NAMES, model: str = OPUS) -> dict[str, Result]:
    """What was played, from an empty cache: not every log tells what was written for how long."""
    played = run([trace], strategies, [model], ReplayOptions(cold=True)).results
    return {result.strategy: result for result in played if result.kind != "billed"}


def costs_alike(trace: Trace, log: Trace, near: float) -> None:
    """Under every strategy; without a learning one in between, breaks are the very same."""
    expected, found = results(trace), results(log)
    assert found.keys() == expected.keys()
    for name, result in found.items():
        assert float(result.cost_tokens) == pytest.approx(float(expected[name].cost_tokens), rel=near), name
        if name not in ("economic", "optimal"):
            counts = (result.breaks, result.resets, result.causes)
            assert counts == (expected[name].breaks, expected[name].resets, expected[name].causes), name


def told(step: TraceStep) -> tuple[str, str | None, int, int]:
    """Who spoke, and how many tools were called and answered; of what is before a compaction nothing is left."""
    assert isinstance(step.content, Shape)
    kinds = [block.type for block in step.content.added]
    return step.kind, step.reset, 0 if step.reset else kinds.count("tool_use"), kinds.count("tool_result")


@pytest.mark.slow
@pytest.mark.unmeasured
@ALL_LOGS
def test_a_session_comes_back_from_a_log_of_it(tmp_path: Path, make: Make) -> None:
    trace = coding_session()
    [log] = traces(make(trace, tmp_path))
    assert [told(step) for step in log.steps] == [told(step) for step in trace.steps]
    assert [step.at for step in log.steps] == [step.at for step in trace.steps]
    assert [step.number for step in log.steps] == list(range(1, 41))
    costs_alike(trace, log, near=0.002)


@needs_recordings
@pytest.mark.slow
@ALL_LOGS
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_recorded_sessions_replay_alike(tmp_path: Path, name: str, make: Make) -> None:
    trace = recorded(name)
    [log] = traces(make(trace, tmp_path))
    assert [told(step) for step in log.steps] == [told(step) for step in trace.steps]
    costs_alike(trace, log, near=0.003)


def test_sub_agents_are_lanes_of_the_session_in_the_order_of_time(tmp_path: Path) -> None:
    trace = coding_session(agent=True)
    [log] = traces(as_transcript(trace, tmp_path / "own.jsonl"))
    assert [step.at for step in log.steps] == [step.at for step in trace.steps]
    assert [step.lane.endswith("#sidechain") for step in log.steps] == [step.lane != OPUS for step in trace.steps]
    assert len({step.lane for step in log.steps}) == 2
    costs_alike(trace, log, near=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_where_only_bills_are_known_the_rest_is_told_by_them(known: bool) -> None:
    """As the gateway's store has it: neither blocks nor who spoke; opencode tells the latter."""
    trace = coding_session()
    log = one(
        *(
            logged(
                step.number,
                at=START + (step.at or 0),
                usage=step.usage,
                reset=step.reset,
                kind=step.kind if known else None,
            )
            for step in trace.steps
        )
    )
    kinds = [step.kind for step in trace.steps if step.reset is None]  # pauses of users are long here
    assert [step.kind for step in log.steps if step.reset is None] == kinds
    costs_alike(trace, log, near=0.02)


def test_nothing_cached_is_all_plain_input() -> None:
    """A client without markers: sizes are those of the whole prompt."""
    log = one(*(logged(n, usage=Usage(input=5_000 * n, output=40), added=()) for n in range(1, 21)))
    found = results(log, ["none", "automatic", "optimal"])
    assert found["none"].cost_tokens == sum(5_000 * n for n in range(1, 21))
    assert found["automatic"].cost_tokens < found["none"].cost_tokens / 3
    assert found["automatic"].breaks == 0


def test_a_prompt_that_shrank_but_read_no_less_goes_on() -> None:
    sizes = [(2_048, 6_952), (8_960, 300), (9_216, 20), (9_216, 900)]  # the third is shorter than the second

    def covered(sizes: Sequence[tuple[int, int]]) -> int:
        bills = [Usage(input=new, read=old, output=9) for old, new in sizes]
        return results(one(*(logged(n, usage=bill) for n, bill in enumerate(bills))), ["automatic"])["automatic"].read

    assert covered(sizes) == 9_000 + 9_260 + 9_260
    assert covered([*sizes[:2], (1_024, 7_000), (8_000, 900)]) == 9_000 + 0 + 8_024  # something was taken away


def bodies(trace: Trace, *, marked: bool = False) -> list[LoggedRequest]:
    found = []
    for step in trace.steps:
        assert isinstance(step.content, Request)
        raw = DIALECTS["anthropic"].encode(replace(step.content, model=OPUS))
        if marked:
            body = json.loads(raw)
            for block in body["messages"][-1]["content"]:
                block.update(MARKED)
            raw = json.dumps(body | MARKED).encode()
        found.append(logged(step.number, body=raw, dialect="anthropic", at=None, usage=None))
    return found


def test_bodies_replay_like_the_session_they_are_of() -> None:
    trace = own("session")
    log = one(*bodies(trace))
    assert not log.timed
    assert [step.kind for step in log.steps] == [step.kind for step in trace.steps]
    expected, found = (
        {name: (each.cost_tokens, each.read) for name, each in results(session, DEFAULT, SONNET).items()}
        for session in (trace, log)
    )
    assert found == expected
    assert found["rolling"][1] > 0
    first, second = log.steps[0].content, log.steps[1].content
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert first.messages[0] is second.messages[0]  # kept once


def test_the_clients_own_markers_are_taken_away() -> None:
    records = bodies(own("session"), marked=True)
    assert all(b"cache_control" in (record.body or b"") for record in records)
    found = results(one(*records), ["none", "automatic"], SONNET)
    assert found["none"].read == 0
    assert found["automatic"].read > 0


def test_a_lane_with_a_body_missing_is_told_by_its_bills() -> None:
    """The other lanes of the session keep their texts, and both are replayed together."""
    spoken = bodies(own("session"))
    timed = [replace(record, at=START + 20.0 * n) for n, record in enumerate(spoken)]
    side = [logged(n, 2_000 * n, 2_000, agent="task", at=START + 20.0 * n + 5) for n in range(5)]
    side[1] = replace(side[1], body=spoken[0].body, dialect="anthropic")
    log = one(*timed, *side)
    kinds = {step.lane: type(step.content) for step in log.steps}
    assert kinds == {OPUS: Request, f"{OPUS} task#sidechain": Shape}
    result = results(log, ["rolling", "none"])
    assert result["rolling"].requests == len(spoken) + 5
    assert result["rolling"].cost_tokens < result["none"].cost_tokens


def test_requests_that_failed_are_left_out() -> None:
    tracing = TraceBuilder({"s"})
    for record in (logged(1, 0, 900), logged(2, usage=None), logged(3, usage=Usage(output=3)), logged(4, 900, 50)):
        tracing.add(record)
    [log] = tracing.traces()
    assert [(step.number, step.at) for step in log.steps] == [(1, 0.0), (2, 27.0)]
    assert tracing.failed == 2


def test_times_never_go_backwards_in_a_lane_and_missing_ones_are_filled() -> None:
    times = [START + 5, START + 3, None, START + 9]
    log = one(
        *(logged(n, 100 * n, 100, at=at, first_token_at=START + 4) for n, at in enumerate(times)),
        logged(9, 50, 50, agent="task", at=START + 1),
    )
    assert [(step.lane, step.at, step.first_token_at) for step in log.steps] == [
        (f"{OPUS} task#sidechain", 0.0, None),
        (OPUS, 4.0, 4.0),
        (OPUS, 4.0, 4.0),
        (OPUS, 4.0, 4.0),
        (OPUS, 8.0, 8.0),
    ]


def test_one_request_is_a_session() -> None:
    assert {name: each.requests for name, each in results(one(logged(1, 0, 5_000))).items()} == dict.fromkeys(
        STRATEGY_NAMES, 1
    )


def test_branches_are_no_sub_agents() -> None:
    agents = ["", "branch 1", "compaction 2", "explore", "explore branch 2"]
    log = one(*(logged(n, 0, 2_000, agent=agent) for n, agent in enumerate(agents)))
    assert [step.lane.removeprefix(OPUS) for step in log.steps] == [
        "",
        " branch 1",
        " compaction 2",
        " explore#sidechain",
        " explore branch 2#sidechain",
    ]


def test_pings_of_the_gateway_are_no_requests(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    with open_store(path) as store:
        for number, kind in enumerate(["request", "ping", "request", "side"]):
            call = Call(
                tenant="t", id=f"c{number}", session="s", lane="l", model=f"anthropic:{OPUS}", started_at=number
            )
            store.write(op.PutCall(replace(call, kind=kind, status="settled", usage=usage(read=900, writes={"5m": 9}))))
    picking, again = read(path)
    [log] = again.tracing.traces()
    assert [step.lane.removeprefix(f"anthropic:{OPUS}") for step in log.steps] == ["", "", " side#sidechain"]
    assert picking.sessions == 1


def test_opencode_tells_user_turns_from_tool_loops(tmp_path: Path) -> None:
    store = opencode_logs.Base(tmp_path / "opencode.db")
    session = store.session(START)
    for turn in range(2):
        store.asks(session, START + 100 * turn)
        for number in range(3):
            at = START + 100 * turn + 10 * number
            store.answers(session, at + 1, opencode_logs.used(4, 9_000 * turn + 900 * number, 1_000, 20))
    [log] = traces(store.save())
    assert [step.kind for step in log.steps] == ["user", "tools", "tools"] * 2


def talk(name: str, at: float, *counts: Usage | None) -> list[Record]:
    return [
        logged(number, session=name, source=f"{name}:{number}", at=at + number, usage=each)
        for number, each in enumerate(counts)
    ]


def pick(*sessions: list[Record]) -> SessionChooser:
    picking = SessionChooser()
    for records in sessions:
        for record in records:
            picking.add(LOG, record)
    return picking


def test_the_latest_sessions_are_chosen_whatever_their_order() -> None:
    bill = Usage(input=900)
    picking = pick(
        talk("old", 10, bill, bill), talk("new", 900, bill), talk("failed", 950, None, None), talk("middle", 50, bill)
    )
    picking.add(LOG, BrokenSource("x:1", "not JSON"))
    assert picking.known == ["old", "middle", "new"]
    assert (picking.sessions, picking.broken) == (4, 1)
    assert picking.chosen(2).sessions == ["middle", "new"]
    assert picking.chosen().sessions == ["old", "middle", "new"]
    picking = pick(*(talk(f"{n:03}", n * 10, bill) for n in range(99)))
    assert picking.chosen().sessions == [f"{n:03}" for n in range(79, 99)]


def test_without_a_number_the_requests_are_bounded_too() -> None:
    bill = Usage(input=900)
    picking = pick(talk("old", 0, *[bill] * 10), talk("long", 1e6, *[bill] * 9_000), talk("new", 2e6, *[bill] * 999))
    assert picking.chosen().sessions == ["long", "new"]
    assert picking.chosen(3).sessions == ["old", "long", "new"]
    assert pick(talk("long", 0, *[bill] * 20_000)).chosen().sessions == ["long"]


def test_what_a_client_copied_into_another_file_counts_where_it_was_first(tmp_path: Path) -> None:
    first = Talk("aaaa")
    first.asks(START)
    first.answers(START + 2, used(write_5m=9_000), model=OPUS)
    fork = Talk("bbbb", lines=[line.replace('"sessionId":"aaaa"', '"sessionId":"bbbb"') for line in first.lines])
    first.asks(START + 30, chars=9_000)  # the longer file is the first
    first.write(tmp_path / "aaaa.jsonl")
    fork.asks(START + 60)
    fork.answers(START + 62, used(read=9_000, write_5m=50), model=OPUS)
    fork.write(tmp_path / "bbbb.jsonl")
    again = read(tmp_path, limit=1)[1]
    assert (again.sessions, [source.path.name for source in again.sources]) == (["bbbb"], ["bbbb.jsonl"])
    [log] = again.tracing.traces()
    assert [step.usage and step.usage.read for step in log.steps] == [9_000]
    assert [len(trace.steps) for trace in traces(tmp_path)] == [1, 1]
    assert read(tmp_path, session="aa")[1].sessions == ["aaaa"]


def test_models_of_logs_most_used_first() -> None:
    names = (
        [OPUS] * 3 + [f"anthropic:{OPUS}"] + ["claude-haiku-4-5"] * 3 + ["gpt-5.5"] * 2 + ["claude-sonnet-5-5", "mine"]
    )
    logs = [one(logged(1, 0, 900, model=name)) for name in names]
    used = used_models(logs)
    assert used.known == (
        (f"anthropic:{OPUS}", 4),
        ("anthropic:claude-haiku-4-5", 3),
        ("openai:gpt-5.5", 2),
        ("anthropic:claude-sonnet-5-5", 1),
    )
    assert used.unknown == (("mine", 1),)


def test_what_is_new_to_each_model_and_no_more_than_is_kept() -> None:
    said = Growth()
    said.says("user", ("text", 1, 5))
    assert said.new("a") == (ShapeBlock("user", "text", 5),)
    said.says("assistant", ("tool_use", 2, 9))
    answer = said.end
    said.says("user", ("tool_result", 1, 7))
    assert [block.chars for block in said.new("a", answer)] == [4, 4]
    assert [block.chars for block in said.new("b")] == [5, 4, 4, 7]
    assert [block.chars for block in said.new("a")] == [7]
    assert said.new("a") == ()
    said.says("user", ("text", 1, 1))
    said.cut()
    assert said.new("a") == ()
    for size in range(3 * MOST):
        said.says("user", ("text", 1, size))
    new = said.new("a")
    assert len(new) <= MOST
    assert new[-1].chars == 3 * MOST - 1


def test_pauses_tell_user_turns_where_nothing_else_does() -> None:
    times = [0.0, 10.0, 10.0 + TURN, 11.0 + 2 * TURN]
    log = one(*(logged(n, 900 * n, 900, at=START + at) for n, at in enumerate(times)))
    assert [step.kind for step in log.steps] == ["user", "tools", "tools", "user"]
