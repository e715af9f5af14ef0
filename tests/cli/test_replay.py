"""`holdfast replay` as a user sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli import replay, run
from holdfast.traces import write
from tests.traces.lab import made

OWN = Path(__file__).parents[1] / "fixtures" / "traces"


@pytest.fixture
def trace(workspace: Path) -> Path:
    path = workspace / "own.jsonl"
    write(made.session(), path)
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
    rows = [line.split() for line in lines[3:8]]
    assert {row[0] for row in rows} == {"economic", "rolling", "automatic", "none", "optimal"}
    assert [float(row[1].removeprefix("$")) for row in rows] == sorted(float(row[1].removeprefix("$")) for row in rows)
    assert rows[0][:3:2] == ["optimal", "1.000"]
    assert rows[-1][0] == "none"
    assert "ttl_expired_5m" in lines[4]
    assert lines[9].startswith("Method: every request planned by the engine")
    assert lines[10].startswith("Optimum: markers and lifetimes with hindsight, ttl_raise no, without pings. Versions:")
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
    out, _ = said(capsys, OWN / "session.json", "--strategy", "rolling,none")
    assert "with gaps: none" in out
    assert "session is without recorded times: user turns come every 10 s there" in out


def test_a_directory_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, OWN, "--strategy", "economic,claude-code,none", "--model", "claude-sonnet-5-5")
    assert "with gaps: real where recorded, else none" in out
    assert "Each session begins with an empty cache; the engine keeps what it learned from those before it." in out


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
    def bar(total: int) -> Iterator[Callable[[int], None]]:
        def moved(count: int) -> None:
            nonlocal played
            played += count
            if played == 3 * 40:  # in the middle of the second session
                raise KeyboardInterrupt

        assert total == 2 * 2 * 40
        yield moved

    monkeypatch.setattr(replay, "_bar", bar)
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
    for name, problem in (
        ("missing.jsonl", "missing.jsonl cannot be read (No such file or directory); check the path."),
        ("odd.jsonl", "odd.jsonl:1: of no known format; known are shape traces"),
    ):
        assert run(["replay", name]) == 1
        assert capsys.readouterr().err.startswith(f"holdfast: {problem}")
    assert run(["replay", str(OWN / "session.json"), "--gaps", "real"]) == 1
    problem = "session has no recorded times; use a gap pattern other than real."
    assert capsys.readouterr().err == f"holdfast: {problem}\n"


def test_it_needs_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay"]) == 2
    assert "Missing argument 'TRACE...'" in capsys.readouterr().err
    assert run(["replay", "--help"]) == 0
    assert "holdfast replay session.jsonl" in capsys.readouterr().out
