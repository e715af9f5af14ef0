"""`holdfast replay` as a user sees it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.cli import run
from holdfast.cli.replay import command
from holdfast.lab import DEFAULT, ReplayOptions, write
from holdfast.report.logs.records import Record, Source
from holdfast.report.logs.selection import SessionChooser
from tests.cli.commands import output, refused
from tests.lab.replay.coding_sessions import coding_session
from tests.report.logs.shaped_logs import as_transcript

OWN = Path(__file__).parents[1] / "fixtures" / "traces"


@pytest.fixture
def trace(workspace: Path) -> Path:
    path = workspace / "own.jsonl"
    write(coding_session(), path)
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    """What a command that succeeds prints."""
    assert run(["replay", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    return out, err


def test_a_table_the_cheapest_first(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, trace)
    lines = out.splitlines()
    title = "anthropic:claude-opus-4-6: 40 requests of 1 session; the output costs $0.2000 beside, whoever marks."
    assert lines[0] == title
    assert lines[2].split() == (
        "STRATEGY COST /OPTIMAL HIT WRITTEN 5m WRITTEN 1h BREAKS MAIN CAUSE SURPRISES".split()  # noqa: SIM905
    )
    rows = [line.replace("as billed", "as-billed").split() for line in lines[3:9]]
    assert {row[0] for row in rows} == {*DEFAULT, "as-billed"}
    assert [float(row[1].removeprefix("$")) for row in rows] == sorted(float(row[1].removeprefix("$")) for row in rows)
    assert rows[1][:3:2] == ["optimal", "1.000"]
    assert rows[-1][0] == "none"
    causes = {row[0]: line for row, line in zip(rows, lines[3:9], strict=True)}
    assert "ttl_expired_5m" in causes["rolling"]
    assert "ttl_expired_5m (2)" in causes["economic"]
    assert lines[10].startswith("Method: every request planned by the engine")
    assert lines[11].startswith("Optimum: markers and lifetimes with hindsight, ttl_raise no, without pings. Versions:")
    assert re.fullmatch(r"200 requests replayed in .* s \([\d,]+ a second\); the optimum took .* s\.", lines[-1])
    assert err == ""


def test_json_is_the_same_every_time(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (trace, "--strategy", "all", "--gaps", "office", "--seeds", "11,23", "--format", "json")
    texts = [re.sub(r'"(optimum_)?seconds": [\d.e-]+', "", said(capsys, *arguments)[0]) for _ in range(2)]
    assert texts[0] == texts[1]
    found = json.loads(said(capsys, *arguments)[0])
    assert found["seeds"] == [11, 23]
    assert found["gaps"] == "office"
    economic = next(each for each in found["results"] if each["strategy"] == "economic")
    assert economic["requests"] == 80
    assert isinstance(economic["cost_usd"], float)
    assert economic["over_optimal"] > 1
    assert {each["seed"] for each in found["sessions"]} == {11, 23}


def test_markdown(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, trace, "--format", "md", "--strategy", "rolling,none", "--model", "gpt-6.1-sol,gpt-5.5")
    assert "| strategy | cost | hit | written 30m | breaks | main cause | surprises |" in out
    assert "|---|---:|---:|---:|---:|---|---:|" in out
    assert "openai:gpt-5.5: 40 requests" in out
    assert "has no optimum to compare with" in out


def test_html_goes_into_a_file(trace: Path, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, trace, "--format", "html", "--output", "report.html", "--strategy", "economic,optimal")
    assert (out, err) == ("", "holdfast: the report is in report.html\n")
    page = (workspace / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "economic" in page


def test_bodies_are_dumped(trace: Path, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(capsys, trace, "--strategy", "rolling", "--dump", "bodies.jsonl")
    assert err == "holdfast: the bodies are in bodies.jsonl\n"
    lines = [json.loads(line) for line in (workspace / "bodies.jsonl").read_text().splitlines()]
    assert len(lines) == 40
    assert {"at", "body", "predicted"} <= set(lines[0])


def test_texts_come_at_a_steady_pace(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, OWN / "session.json", "--strategy", "rolling,none", "--model", "claude-opus-4-6")
    assert "with gaps: none" in out
    assert "session is without recorded times: user turns come every 10 s there" in out


def test_a_directory_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, OWN, "--strategy", "economic,claude-code,none", "--model", "claude-sonnet-5-5")
    assert "with gaps: real where recorded, else none" in out
    assert "What the engine learns in a session it keeps for the author's next one." in out


def test_faults_noise_and_clients(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(
        capsys,
        trace,
        *("--strategy", "economic,passthrough", "--client", "claude-code", "--no-optimum"),
        *("--fault", "clock-at-head", "--repair", "on", "--noise", "eviction=0.02,small=0.1", "--seed", "23"),
    )
    assert "(fault: clock-at-head; noise: eviction=0.02,small_tokens=8192,small_miss=0.1)" in out
    assert "seed 23" in out
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["economic", "passthrough"]
    assert "/OPTIMAL" not in out


def test_values_are_mended_too(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What moves values needs bodies, whatever moves beside them: the whole engine plays a shape trace then."""
    assert ReplayOptions(repair="values").whole_engine
    faulty = ("--strategy", "rolling", "--no-optimum", "--fault", "clock-at-head", "--format", "json", "--repair")
    costs = [
        json.loads(said(capsys, trace, *faulty, level)[0])["results"][0]["cost_usd"] for level in ("suggest", "values")
    ]
    assert costs[1] < costs[0] / 2


def test_lifetimes_that_are_raised(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "ttl_raise yes" in said(capsys, trace, "--ttl-raise", "yes", "--strategy", "rolling")[0]


def test_what_strategies_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "--list")
    assert out.splitlines()[0].startswith("economic ")
    assert len(out.splitlines()) == 18


def test_interrupted_it_shows_what_is_finished(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played = 0

    @contextmanager
    def bar(total: int, label: str) -> Iterator[Callable[[int], None]]:
        def moved(count: int) -> None:
            nonlocal played
            played += count
            if played == 3 * 40:  # in the middle of the second session
                raise KeyboardInterrupt

        assert total == 2 * 2 * 40
        yield moved

    monkeypatch.setattr(command, "progress_bar", bar)
    assert run(["replay", str(trace), str(trace), "--strategy", "rolling,none"]) == 130
    out, err = capsys.readouterr()
    assert "40 requests of 1 session" in out
    assert err == "holdfast: interrupted: this is what came of 1 of 2 sessions\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--strategy", "economy"], "there is no strategy 'economy'; did you mean economic?"),
        (["--strategy", ","], "--strategy names nothing; `holdfast replay --list` says what there is."),
        (["--model", "claude-opus-9"], "nothing is known of the model 'claude-opus-9'; did you mean claude-opus-5?"),
        (["--gaps", "never"], "there is no gap pattern 'never'; known are real, none, minutes, office."),
        (["--fault", "clock"], "there is no fault 'clock'; did you mean clock-at-head?"),
        (["--client", "litelm"], "there is no client 'litelm'; did you mean litellm?"),
        (["--seeds", "many"], "--seeds: 'many' is not understood; write all, or numbers such as 11,23."),
        (["--noise", "loud=1"], "--noise: 'loud=1' is not understood; give some of eviction"),
        (["--output", "nowhere/report"], "the report cannot be written to nowhere/report"),
    ],
)
def test_problems_are_one_sentence(
    trace: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(trace), *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"holdfast: {problem}")
    assert err.count("\n") == 1


def test_traces_that_cannot_be_read(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "odd.jsonl").write_text('{"some": "thing"}\n')
    (workspace / "empty.jsonl").write_text("\n")
    (workspace / "empty").mkdir()
    write(coding_session(2), workspace / "shape.jsonl")
    lines = (workspace / "shape.jsonl").read_text().splitlines()
    (workspace / "shape.jsonl").write_text(f"{lines[0]}\n{lines[1][:-9]}\n")
    for name, problem in (
        ("missing.jsonl", "missing.jsonl cannot be read (No such file or directory); check the path."),
        ("odd.jsonl", "odd.jsonl is of no known format; known are Claude Code transcripts"),
        ("empty.jsonl", "empty.jsonl is empty; known are Claude Code transcripts"),
        ("empty", "empty holds no log of a known format; known are Claude Code transcripts"),
        ("shape.jsonl", "shape.jsonl:2: not JSON"),
    ):
        assert run(["replay", name]) == 1
        assert capsys.readouterr().err.startswith(f"holdfast: {problem}")
    assert run(["replay", str(OWN / "session.json"), "--gaps", "real", "--model", "claude-opus-4-6"]) == 1
    problem = "session has no recorded times; use a gap pattern other than real."
    assert capsys.readouterr().err == f"holdfast: {problem}\n"


def test_without_logs_it_needs_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay"]) == 2
    assert "Error: No logs of known clients were found under your home directory;" in capsys.readouterr().err
    assert "holdfast replay session.jsonl" in output("replay", "--help")


def transcripts(home: Path, count: int = 3, model: str | None = None) -> Path:
    """Sessions of Claude Code under a home directory, each a day after the one before, the last one with an agent."""
    projects = home / ".claude" / "projects" / "-work"
    for number in range(count):
        trace = coding_session(12, name=f"session-{number}", compaction=0, agent=number == count - 1)
        steps = [
            replace(
                step,
                at=(step.at or 0) + 86_400 * number,
                first_token_at=(step.first_token_at or 0) + 86_400 * number,
                model=model or step.model,
                lane=step.lane if model is None else model,
            )
            for step in trace.steps
        ]
        as_transcript(replace(trace, steps=tuple(steps)), projects / f"session-{number}.jsonl")
    return projects


def test_the_logs_of_known_clients(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcripts(workspace / "home")
    out, err = said(capsys, "--limit", "2", "--strategy", "economic,rolling,none")
    assert out.startswith("anthropic:claude-opus-4-6: 27 requests of 2 sessions;")
    assert re.search(r"\nFrom 3 logs of Claude Code \(0.\d MB\): the latest 2 of 3 sessions; --limit takes more", out)
    assert "\nThe model is that of the logs: anthropic:claude-opus-4-6 (27 requests); --model names others.\n" in out
    assert "at the recorded times" in out
    assert re.fullmatch(r"holdfast: reading 3 logs of Claude Code \(0.\d MB\)\n", err)
    assert "MB): 3 sessions.\n" in said(capsys, "--strategy", "none")[0]


def test_a_directory_of_logs_and_one_session_of_it(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    projects = transcripts(workspace)
    with (projects / "session-0.jsonl").open("a") as file:
        file.write("{torn\n")
    out, err = said(capsys, projects, "--session", "session-0", "--strategy", "none", "--format", "json")
    found = json.loads(out)
    assert found["traces"] == ["session-0"]
    assert found["results"][0]["requests"] == 12
    assert found["notes"][0].endswith(": 1 session.")
    assert err.splitlines()[0] == "holdfast: 1 line could not be read and was left out:"
    assert "session-0.jsonl:" in err
    assert "begins with 'x'; without --session the latest are replayed" in refused(
        "replay", str(projects), "--session", "x"
    )


def test_a_log_replays_as_its_trace_does(trace: Path, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = as_transcript(coding_session(), workspace / "log.jsonl")
    texts = [said(capsys, path, "--strategy", "all", "--format", "json")[0] for path in (trace, log)]
    assert json.loads(texts[0])["results"] == json.loads(texts[1])["results"]


def test_logs_and_traces_together(trace: Path, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    projects = transcripts(workspace)
    out, _ = said(capsys, trace, projects, OWN / "session.json", "--strategy", "none", "--format", "json", "--fresh")
    assert json.loads(out)["traces"] == ["own", "session", "session-0", "session-1", "session-2"]
    assert (
        refused("replay", str(trace), "--session", "other")
        == "holdfast: no session begins with 'other'; without --session all are replayed.\n"
    )


def bodies(workspace: Path, *lines: dict[str, object]) -> Path:
    path = workspace / "requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def body(turns: int, model: str = "claude-sonnet-4-5") -> dict[str, object]:
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": f"{n} " + "word " * 900} for n in range(2 * turns - 1)
    ]
    return {"model": model, "max_tokens": 99, "system": "Be brief. " * 200, "messages": messages}


def test_bodies_without_times(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bodies(workspace, *({"session": "s", "body": body(turns)} for turns in range(1, 6)))
    out, _ = said(capsys, path, "--strategy", "automatic,none")
    assert out.startswith("anthropic:claude-sonnet-4-5: 5 requests of 1 session")
    assert "s is without recorded times: user turns come every 10 s there" in out
    assert "s has no recorded times" in refused("replay", str(path), "--gaps", "real")


def test_what_cannot_be_replayed_is_counted(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"input_tokens": 3, "output_tokens": 9, "cache_creation_input_tokens": 9_000}
    bare = {"previous_response_id": "r", "input": "and?", "model": "gpt-5.5"}  # the provider keeps the rest
    lines = [{"session": "s", "body": body(1), "usage": usage}, {"session": "t", "body": bare}]
    out, _ = said(capsys, bodies(workspace, *lines), "--strategy", "none")
    assert "1 session was left out: no request has usage or a body that can be read." in out
    assert run(["replay", str(bodies(workspace, lines[1]))]) == 1
    problem = "1 session of 1 log of request bodies (0.0 MB) cannot be replayed: the requests have neither usage nor"
    assert problem in capsys.readouterr().err


def test_several_models_and_one_of_which_nothing_is_known(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["claude-sonnet-4-5", "claude-sonnet-4-5", "gpt-5.5", "claude-haiku-4-5", "gpt-6.1-sol", "home-made"]
    lines = [{"session": f"s{n}", "body": body(2, model)} for n, model in enumerate(models)]
    out, _ = said(capsys, bodies(workspace, *lines), "--strategy", "none")
    assert [
        line.partition(";")[0].rstrip(".") for line in out.splitlines() if re.search(r": \d requests? of \d", line)
    ] == [
        "4 models, each lane on its own: 6 requests of 6 sessions",
        "anthropic:claude-sonnet-4-5: 3 requests of 3 sessions",
        "openai:gpt-5.5: 1 request of 1 session",
        "anthropic:claude-haiku-4-5: 1 request of 1 session",
        "openai:gpt-6.1-sol: 1 request of 1 session",
    ]
    assert "Every lane is replayed on the model it was recorded with: anthropic:claude-sonnet-4-5 (2 requests), " in out
    assert "Nothing is known of the caches of home-made (1 request): replayed on anthropic:claude-sonnet-4-5." in out
    path = bodies(workspace, lines[-1])
    assert "nothing is known of the models of these logs (home-made (1 request)); name one" in refused(
        "replay", str(path)
    )
    assert said(capsys, path, "--model", "gpt-5.5", "--strategy", "none")[0].startswith("openai:gpt-5.5: 1 request of")


def test_interrupted_while_logs_are_read(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle of a log: nothing has been replayed by then."""
    real = SessionChooser.add

    def add(self: SessionChooser, source: Source, record: Record) -> None:
        real(self, source, record)
        if not self.broken:
            self.broken = 1
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(SessionChooser, "add", add)
    assert run(["replay", str(transcripts(workspace))]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == "holdfast: interrupted while the logs were read; nothing was replayed"


def test_models_and_strategies_may_be_named_one_by_one(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ("--model", "claude-opus-4-6", "--model", "gpt-5.5", "--strategy", "none", "--strategy", "rolling,none")
    out, _ = said(capsys, trace, *named, "--no-optimum", "--format", "json")
    found = [(each["model"], each["strategy"]) for each in json.loads(out)["results"] if each["kind"] != "billed"]
    models = ("anthropic:claude-opus-4-6", "openai:gpt-5.5")
    assert sorted(found) == [(model, name) for model in models for name in ("none", "rolling")]


@pytest.mark.parametrize("option", ["--dump", "--output"])
def test_nothing_that_is_read_is_written_over(option: str, trace: Path, workspace: Path) -> None:
    before = trace.read_bytes()
    for given in (trace, workspace):  # a directory stands for its files
        assert f"{option} would write over {trace}" in refused("replay", str(given), option, str(trace))
    assert trace.read_bytes() == before
    assert "--output would write over same.txt" in refused(
        "replay", str(trace), "--dump", "same.txt", "--output", "same.txt"
    )


def test_a_report_that_cannot_be_written_is_told_before_the_work(
    trace: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_play", lambda _: pytest.fail("it was played"))
    assert "(it is a directory); choose another --output" in refused("replay", str(trace), "--output", str(workspace))
    assert "(there is no such directory); choose another --output" in refused(
        "replay", str(trace), "--output", "missing/report.html"
    )


def test_there_are_only_so_many_replicas(trace: Path) -> None:
    assert "there are at most 1,000 replicas" in refused("replay", str(trace), "--noise", "replicas=1000000000")
