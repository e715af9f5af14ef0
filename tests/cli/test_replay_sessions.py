"""`holdfast replay` on sessions of several models and authors, beside what their clients were billed."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.cli import run
from holdfast.facts import price
from holdfast.lab import Shape, ShapeBlock, Trace, TraceStep, write
from holdfast.lab.tally import quantile
from holdfast.records import usage
from holdfast.store import Call, open_store
from holdfast.store import operations as op
from tests.lab.recordings import RECORDED, needs_recordings
from tests.lab.replay.coding_sessions import coding_session
from tests.report.logs.shaped_logs import as_transcript

OPUS, HAIKU = "anthropic:claude-opus-4-6", "anthropic:claude-haiku-4-5"
SUM = "recorded"


def replayed(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert run(["replay", *map(str, arguments), "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(["replay", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def row(report: dict[str, Any], strategy: str, model: str = OPUS) -> dict[str, Any]:
    (found,) = [each for each in report["results"] if (each["model"], each["strategy"]) == (model, strategy)]
    return dict(found)


def rows_of(report: dict[str, Any], strategy: str, model: str = OPUS) -> list[dict[str, Any]]:
    return [each for each in report["sessions"] if (each["model"], each["strategy"]) == (model, strategy)]


def lane(
    name: str, model: str, bills: list[tuple[int, int]], *, at: float = 0.0, ttl: str = "5m", gap: float = 20.0
) -> list[TraceStep]:
    """A lane whose requests read and wrote so many tokens."""
    added = (ShapeBlock("user", "text", 900),)
    return [
        TraceStep(
            number=0,
            at=at + gap * number,
            first_token_at=at + gap * number + 3,
            lane=model,
            model=model,
            kind="user",
            content=Shape(added),
            usage=usage(read=read, writes={ttl: written}, output=50),
        )
        for number, (read, written) in enumerate(bills)
    ]


def session(name: str, *lanes: list[TraceStep], **more: Any) -> Trace:
    steps = sorted((step for each in lanes for step in each), key=lambda step: step.at or 0.0)
    numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, 1))
    return Trace(name, f"{name}.jsonl:1", numbered, **more)


MAIN = [(0, 20_000), (20_000, 2_000), (22_000, 1_500), (23_500, 4_000)]
SIDE = [(0, 6_000), (6_000, 500)]


@pytest.fixture
def mixed(workspace: Path) -> Path:
    """A session on one model whose side calls go to another."""
    path = workspace / "mixed.jsonl"
    write(session("mixed", lane("m", "claude-opus-4-6", MAIN), lane("s", "claude-haiku-4-5", SIDE, at=5.0)), path)
    return path


def test_every_lane_goes_to_the_model_it_was_recorded_with(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = replayed(capsys, mixed, "--strategy", "rolling,none,optimal")
    assert report["models"] == [OPUS, HAIKU]
    for name in ("rolling", "none", "optimal", "as billed"):
        whole, parts = row(report, name, SUM), [row(report, name, model) for model in (OPUS, HAIKU)]
        assert [part["requests"] for part in parts] == [4, 2]
        for field in ("requests", "input", "read", "output"):
            assert whole[field] == sum(part[field] for part in parts), field
        assert whole["cost_usd"] == pytest.approx(sum(part["cost_usd"] for part in parts))
        assert whole["output_usd"] == pytest.approx(50 * (4 * 25e-6 + 2 * 5e-6))
    # nothing is cached: the tokens of each model at its own price
    assert row(report, "none", SUM)["cost_usd"] == pytest.approx(93_000 * 5e-6 + 12_500 * 1e-6)
    rolling, best = row(report, "rolling", SUM), row(report, "optimal", SUM)
    assert rolling["over_optimal"] == pytest.approx(rolling["cost_usd"] / best["cost_usd"])
    assert report["results"][0]["model"] == SUM


def test_what_models_differ_in_is_compared_in_dollars(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Haiku caches nothing below its floor: tokens would put the many cheap ones before the few dear ones."""
    path = workspace / "mixed.jsonl"
    main = lane("m", "claude-opus-4-6", [(0, 20_000), (20_000, 100)], gap=600.0)
    write(session("mixed", main, lane("s", "claude-haiku-4-5", [(0, 90_000), (90_000, 9)], at=1.0)), path)
    report = replayed(capsys, path, "--strategy", "rolling,rolling-1h,none")
    costs = [each["cost_usd"] for each in report["results"] if each["model"] == SUM]
    assert costs == sorted(costs)
    out = shown(capsys, path, "--strategy", "rolling,none")
    assert out.startswith("2 models, each lane on its own: 4 requests of 1 session; the output costs $0.0030 beside")
    titles = [line for line in out.splitlines() if line.startswith("anthropic:")]
    assert [title.partition(";")[0] for title in titles] == [
        f"{OPUS}: 2 requests of 1 session",
        f"{HAIKU}: 2 requests of 1 session",
    ]
    assert f"recorded with: {OPUS} (2 requests), {HAIKU} (2 requests); --model puts all on one." in out


def test_a_model_that_is_named_gets_everything(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = replayed(capsys, mixed, "--model", "claude-opus-4-6", "--strategy", "none")
    assert report["models"] == [OPUS]
    assert {each["model"] for each in report["results"]} == {OPUS}
    assert row(report, "none")["cost_usd"] == pytest.approx((93_000 + 12_500) * 5e-6)


def test_models_have_caches_of_their_own(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same prompt on two models: the second finds nothing of the first one's."""
    path = workspace / "same.jsonl"
    first, second = lane("m", "claude-opus-4-6", [(0, 20_000)]), lane("s", "claude-opus-4-5", [(0, 20_000)], at=9.0)
    write(session("same", first, second), path)
    assert row(replayed(capsys, path, "--strategy", "rolling"), "rolling", SUM)["read"] == 0


@pytest.mark.parametrize("form", ["html", "md"])
def test_other_forms_have_it_too(mixed: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, mixed, mixed, "--strategy", "rolling,none", "--format", form)
    for said in ("as billed", OPUS, HAIKU, "P90" if form == "html" else "p90"):
        assert said in out


# What was billed


def test_the_bill_is_a_row_at_the_same_prices(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = replayed(capsys, mixed, "--strategy", "none")
    paid = {
        model: sum((price(usage(read=r, writes={"5m": w}), model).cost or Decimal(0) for r, w in bills), Decimal(0))
        for model, bills in ((OPUS, MAIN), (HAIKU, SIDE))
    }
    for model in (OPUS, HAIKU):
        assert row(report, "as billed", model)["cost_usd"] == pytest.approx(float(paid[model]))
    billed = row(report, "as billed", SUM)
    assert billed["cost_usd"] == pytest.approx(float(sum(paid.values())))
    assert (billed["kind"], billed["read"], billed["writes"]) == ("billed", 65_500 + 6_000, {"5m": 27_500 + 6_500})
    none = row(report, "none", SUM)
    assert none["over_billed"] == pytest.approx(none["cost_usd"] / billed["cost_usd"])
    assert none["dearer"] == 1.0
    assert billed["dearer"] is None


def test_there_is_no_bill_for_other_pauses_or_other_requests(
    mixed: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (("--gaps", "office"), ("--fault", "tools-shuffled")):
        report = replayed(capsys, mixed, "--strategy", "none", *options)
        assert {each["strategy"] for each in report["results"]} == {"none"}
    bare = coding_session(4)
    path = workspace / "bare.jsonl"
    write(replace(bare, steps=tuple(replace(step, usage=None) for step in bare.steps)), path)
    report = replayed(capsys, mixed, path, "--strategy", "none", "--model", "claude-opus-4-6")
    assert [each["strategy"] for each in report["results"]] == ["none"]
    assert row(report, "none")["dearer"] == 1.0  # of the one session that tells
    assert any("1 of 2 sessions tell what they were billed" in note for note in report["notes"])


def test_a_log_without_writes_is_priced_as_it_was_billed(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain input becomes part of the prompt for the replay; the bill stays what it was."""
    lines = [
        {"session": "s", "at": 10.0 * n, "model": "gpt-5.5", "body": _chat(n), "usage": _openai(4_000 * n, 1_024)}
        for n in (1, 2, 3)
    ]
    path = workspace / "requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = replayed(capsys, path, "--strategy", "none")
    billed = row(report, "as billed", "openai:gpt-5.5")
    prompt = billed["input"] + billed["read"]
    assert billed["read"] / prompt == pytest.approx(3 * 1_024 / 24_000, rel=0.2)  # in the tokens of the texts
    assert prompt == row(report, "none", "openai:gpt-5.5")["input"] + row(report, "none", "openai:gpt-5.5")["read"]


def _openai(prompt: int, cached: int) -> dict[str, object]:
    return {"prompt_tokens": prompt, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": cached}}


def _chat(turns: int) -> dict[str, object]:
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": f"{n} " + "word " * 900} for n in range(2 * turns - 1)
    ]
    return {"model": "gpt-5.5", "messages": messages}


# Sessions that began warm


@pytest.mark.parametrize("repair", ["suggest", "on"])
def test_a_session_begins_with_what_it_read_first(
    repair: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both ways to replay: prompts through the core, and bodies through the whole engine."""
    path = workspace / "warm.jsonl"
    write(session("warm", lane("m", "claude-opus-4-6", [(15_000, 3_000), (18_000, 1_000)])), path)
    names = "economic,rolling,claude-code,automatic,none,optimal"
    report = replayed(capsys, path, "--strategy", names, "--repair", repair)
    for name in names.split(","):
        assert row(report, name)["read"] == (0 if name == "none" else 15_000 + 18_000), name
    assert report["warm"] == 1
    assert row(report, "rolling")["surprises"] == 1  # the engine learns of it from the bill
    assert row(report, "rolling")["over_optimal"] == pytest.approx(row(report, "as billed")["over_optimal"])
    cold = replayed(capsys, path, "--strategy", names, "--repair", repair, "--cold")
    assert cold["warm"] == 0
    assert row(cold, "rolling")["read"] == row(cold, "optimal")["read"] == 18_000
    assert row(cold, "optimal")["cost_usd"] > row(report, "optimal")["cost_usd"]
    out = shown(capsys, path, "--strategy", "rolling")
    assert "The session began warm: what the first request of a lane was billed as read is in the cache" in out


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_what_was_there_lives_as_long_as_what_the_lane_wrote(
    ttl: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workspace / "warm.jsonl"
    bills = [(15_000, 3_000), (18_000, 1_000)]
    write(session("warm", lane("m", "claude-opus-4-6", bills, ttl=ttl, gap=900.0)), path)
    found = row(replayed(capsys, path, "--strategy", "rolling"), "rolling")
    assert found["read"] == (15_000 if ttl == "5m" else 15_000 + 15_000)
    assert found["writes"]["5m"] == sum(read + written for read, written in bills) - found["read"]


def test_each_lane_begins_with_its_own_read(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = workspace / "warm.jsonl"
    main = lane("m", "claude-opus-4-6", [(0, 20_000), (20_000, 100)])
    write(session("warm", main, lane("s", "claude-haiku-4-5", [(8_000, 400)], at=4_000.0)), path)
    report = replayed(capsys, path, "--strategy", "rolling,optimal")
    assert row(report, "rolling", HAIKU)["read"] == row(report, "optimal", HAIKU)["read"] == 8_000
    assert row(report, "rolling")["read"] == 20_000


def test_whoever_prices_a_dump_finds_an_empty_cache(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = workspace / "warm.jsonl"
    write(session("warm", lane("m", "claude-opus-4-6", [(15_000, 3_000), (18_000, 1_000)])), path)
    report = replayed(capsys, path, "--strategy", "rolling", "--dump", "bodies.jsonl")
    lines = [json.loads(line) for line in (workspace / "bodies.jsonl").read_text().splitlines()]
    assert [line["predicted"]["read"] for line in lines] == [0, 18_000]
    assert row(report, "rolling")["read"] == 18_000


def test_a_dump_says_which_model_a_request_went_to(
    mixed: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(capsys, mixed, "--strategy", "rolling", "--dump", "bodies.jsonl")
    lines = [json.loads(line) for line in (workspace / "bodies.jsonl").read_text().splitlines()]
    assert [line["model"] for line in lines] == [OPUS, HAIKU, OPUS, HAIKU, OPUS, OPUS]
    assert [line["body"]["model"] for line in lines] == [line["model"].partition(":")[2] for line in lines]


# Authors


def paused(name: str, **more: Any) -> Trace:
    return replace(coding_session(40, name=name), **more)


def learned(report: dict[str, Any]) -> list[tuple[str, float]]:
    return [(each["trace"], each["cost_tokens"]) for each in rows_of(report, "economic")]


def test_sessions_of_an_author_are_played_in_the_order_they_began(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workspace / "own.jsonl"
    began = {"third": 3e9, "first": 1e9, "second": 2e9}
    write([paused(name, started=at) for name, at in began.items()], path)
    report = replayed(capsys, path, "--strategy", "economic")
    assert report["traces"] == ["first", "second", "third"]
    assert [name for name, _ in learned(report)] == ["first", "second", "third"]
    write([paused("third"), paused("first"), paused("second", started=5.0)], path)
    assert replayed(capsys, path, "--strategy", "none")["traces"] == ["second", "third", "first"]


def test_what_is_learned_stays_with_its_author(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"own-{number}" for number in range(4)]
    path = workspace / "own.jsonl"
    costs = {}
    for authors in ("aaaa", "abcd", "aabb"):
        write([paused(name, author=author) for name, author in zip(names, authors, strict=True)], path)
        report = replayed(capsys, path, "--strategy", "economic")
        assert report["authors"] == len(set(authors))
        assert {each["author"] for each in report["sessions"]} == set(authors)
        costs[authors] = [cost for _, cost in learned(report)]
    fresh = [cost for _, cost in learned(replayed(capsys, path, "--strategy", "economic", "--fresh"))]
    assert costs["abcd"] == fresh
    assert len(set(fresh)) == 1
    assert costs["aaaa"][-1] != fresh[-1]
    assert costs["aabb"] == costs["aaaa"][:2] * 2
    assert "keeps for the author's next one (2 authors)." in shown(capsys, path, "--strategy", "none")


def test_a_project_is_an_author_and_so_is_a_tenant_of_the_store(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projects = workspace / "projects"
    for project, day in (("one", 1), ("two", 0), ("one", 2)):
        trace = coding_session(6, name=f"{project}-{day}", compaction=0, agent=False)
        steps = tuple(
            replace(step, at=(step.at or 0) + 86_400 * day, first_token_at=(step.first_token_at or 0) + 86_400 * day)
            for step in trace.steps
        )
        as_transcript(replace(trace, steps=steps), projects / project / f"{trace.name}.jsonl")
    report = replayed(capsys, projects, "--strategy", "none")
    authors = {each["trace"]: Path(each["author"]).name for each in report["sessions"]}
    assert authors == {"one-1": "one", "one-2": "one", "two-0": "two"}
    assert report["traces"] == ["two-0", "one-1", "one-2"]

    with open_store(workspace / "store.db") as store:
        for number, tenant in enumerate(("ann", "bob")):
            for each in range(3):
                call = Call(
                    id=f"{tenant}-{each}",
                    tenant=tenant,
                    lane=tenant,
                    session=tenant,
                    model=OPUS,
                    status="settled",
                    started_at=(1_700_000_000 + 9_000 * number + 9 * each) * 1_000_000,
                    usage=usage(read=5_000 * each, writes={"5m": 5_000}, output=9),
                )
                store.write(op.PutCall(call))
    report = replayed(capsys, workspace / "store.db", "--strategy", "none")
    assert {each["trace"]: each["author"] for each in report["sessions"]} == {"ann": "ann", "bob": "bob"}


# Session by session


def test_quantiles_and_the_share_that_is_dearer_than_billed(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sessions with a pause: who writes for an hour is dearer where there was none."""
    path = workspace / "own.jsonl"
    gaps = [20.0, 20.0, 20.0, 900.0]
    write([session(f"s{n}", lane("m", "claude-opus-4-6", MAIN, gap=gap)) for n, gap in enumerate(gaps)], path)
    report = replayed(capsys, path, "--strategy", "rolling,rolling-1h,optimal")
    for name in ("rolling", "rolling-1h", "optimal", "as billed"):
        ratios = [each["over_optimal"] for each in rows_of(report, name)]
        spread = {"sessions": 4, "p50": quantile(ratios, 0.5), "p90": max(ratios), "worst": max(ratios)}
        assert row(report, name)["spread"] == spread
    assert row(report, "rolling-1h")["dearer"] == 1.0
    assert row(report, "rolling")["dearer"] == 0.25  # after the pause it has to write again
    assert row(report, "rolling")["sessions"] == 4
    out = shown(capsys, path, "--strategy", "rolling,rolling-1h,optimal")
    lines = [line.replace("as billed", "as-billed").split() for line in out.splitlines()]
    assert lines[2][:7] == ["STRATEGY", "COST", "/OPTIMAL", "P50", "P90", "WORST", "DEARER"]
    cells = {line[0]: line for line in lines[3:7]}
    worst = row(report, "rolling")["spread"]["worst"]
    assert worst > row(report, "rolling")["spread"]["p50"]
    assert cells["rolling"][4:7] == [f"{worst:.3f}", f"{worst:.3f}", "25.0%"]
    assert cells["as-billed"][6] == "-"


def test_quantiles_are_nearest_ranks() -> None:
    values = [3.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert [quantile(values, share) for share in (0.5, 0.9, 1.0)] == [6.0, 10.0, 11.0]
    assert quantile([1.5], 0.9) == 1.5


def test_help_says_what_the_columns_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for said in ("every lane on the model it was recorded with", "P50, P90 and WORST", '"as billed"', "--cold"):
        assert said in out


@needs_recordings
@pytest.mark.slow
def test_recorded_sessions_began_warm_and_were_billed(capsys: pytest.CaptureFixture[str]) -> None:
    report = replayed(capsys, RECORDED / "sessions", "--strategy", "rolling,rolling-1h,none,optimal")
    assert len(report["traces"]) == 104
    assert report["warm"] == 94
    billed, best = row(report, "as billed", SUM), row(report, "optimal", SUM)
    assert billed["requests"] == 5_577
    assert best["cost_usd"] < billed["cost_usd"] < row(report, "none", SUM)["cost_usd"] / 5
    parts = [each for each in report["results"] if each["strategy"] == "as billed" and each["model"] != SUM]
    assert billed["cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in parts))
