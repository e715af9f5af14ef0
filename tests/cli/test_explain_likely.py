"""`holdfast explain` on logs that tell little: what is likely is said, what reads prove is priced, no model is
invented."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import run as main
from holdfast.facts import rates
from tests.cli.commands import refused
from tests.report.logs import opencode_logs, pi_logs
from tests.report.logs.claude_logs import START

Capture = pytest.CaptureFixture[str]
SONNET = "anthropic:claude-sonnet-4-5"
SPRING_2027 = 1_805_000_000.0


def report(capsys: Capture, *arguments: str) -> Any:
    assert main(["explain", *arguments, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def talk(turns: int, lost: set[int], *, start: float = START, in_tools: int = -1) -> pi_logs.Session:
    """A session of pi's: each turn is a message and a result of a tool. At the turns of `lost` the first request reads
    nothing; at `in_tools` the second one."""
    session, covered, at = pi_logs.Session(at=start), 0, start
    for turn in range(turns):
        for step in range(2):
            at += 20
            (session.asks if step == 0 else session.result)(at)
            missed = (turn in lost and step == 0) or (turn == in_tools and step == 1)
            read = 0 if missed else covered
            written = covered - read + 3_000
            session.answers(at + 1, pi_logs.used(input=3, read=read, written=written, output=50))
            covered = read + written
    return session


class TestPosition:
    def test_with_a_message_now_and_then_it_is_likely_a_new_start(self, tmp_path: Path, capsys: Capture) -> None:
        path = talk(12, {4, 9}, start=SPRING_2027).save(tmp_path)
        breaks = report(capsys, str(path))["sessions"][0]["breaks"]
        assert [each["cause"] for each in breaks] == ["system_prompt_changed"] * 2
        assert [each["kind"] for each in breaks] == ["user"] * 2
        assert "likely the client was started anew" in breaks[0]["advice"]
        assert "pi up to March 2026" not in breaks[0]["advice"]
        assert breaks[0]["cure"] == "system_prompt_changed"

    def test_with_every_message_it_is_likely_made_anew_for_each(self, tmp_path: Path, capsys: Capture) -> None:
        path = talk(6, {1, 2, 3, 5}).save(tmp_path)
        found = report(capsys, str(path))
        breaks = found["sessions"][0]["breaks"]
        assert {each["cause"] for each in breaks} == {"system_prompt_changed"}
        assert "at 4 of 5 first requests after a user's message" in breaks[0]["advice"]
        assert "is made anew for every message" in breaks[0]["advice"]
        (cure,) = found["totals"]["cures"]
        assert (cure["cure"], cure["breaks"]) == ("system_prompt_changed", 4)
        assert cure["saves_usd"] == found["totals"]["break_cost_usd"]

    def test_of_a_client_and_its_time_what_is_known_is_said(self, tmp_path: Path, capsys: Capture) -> None:
        path = talk(6, {3}, start=1_764_000_000.0).save(tmp_path)
        (one,) = report(capsys, str(path))["sessions"][0]["breaks"]
        assert one["advice"].startswith("pi up to March 2026 writes the time into its system text at every start")

    def test_in_the_middle_of_a_turn_nothing_is_likely(self, tmp_path: Path, capsys: Capture) -> None:
        path = talk(6, set(), in_tools=3).save(tmp_path)
        (one,) = report(capsys, str(path))["sessions"][0]["breaks"]
        assert (one["cause"], one["kind"]) == ("unknown", "tools")

    def test_an_entry_that_comes_back_was_lost_by_the_provider(self, tmp_path: Path, capsys: Capture) -> None:
        session = talk(3, set())
        session.asks(START + 200)
        session.answers(START + 201, pi_logs.used(input=3, written=1_000, output=50))
        session.asks(START + 220)
        session.answers(START + 221, pi_logs.used(input=3, read=18_000, written=3_000, output=50))
        (one,) = report(capsys, str(session.save(tmp_path)))["sessions"][0]["breaks"]
        assert one["cause"] == "likely_server_side"


class TestLifetimes:
    def used(self, tmp_path: Path, capsys: Capture, pause: float) -> tuple[Any, Decimal]:
        base = opencode_logs.Base(tmp_path / "opencode.db")
        session, at, covered = base.session(), START, 0
        for turn in range(3):
            base.asks(session, at)
            base.answers(session, at + 1, opencode_logs.used(input=3, read=covered, written=5_000, output=50))
            covered, at = covered + 5_000, at + (pause if turn == 1 else 30)
        base.connection.commit()
        base.connection.close()
        found = report(capsys, str(tmp_path / "opencode.db"))["sessions"][0]
        return found["usage"], Decimal(str(found["cost_usd"]))

    @pytest.mark.parametrize(("pause", "ttl"), [(30.0, "5m"), (1_200.0, "1h")])
    def test_writes_that_outlived_five_minutes_are_priced_as_hours(
        self, tmp_path: Path, capsys: Capture, pause: float, ttl: str
    ) -> None:
        usage, cost = self.used(tmp_path, capsys, pause)
        assert usage["write_1h"] == (15_000 if ttl == "1h" else 0)
        price = rates(SONNET)
        paid = 15_000 * price.write(ttl) + 15_000 * price.read + 9 * price.input + 150 * price.output
        assert abs(cost - paid) < Decimal("0.000001")


def conversation(**more: Any) -> str:
    said = [{"role": "system", "content": "Rules. " * 2_000}]
    for turn in range(4):
        said += [{"role": "user", "content": f"q{turn} " * 200}, {"role": "assistant", "content": f"a{turn}"}]
    return json.dumps({"session": "s", "messages": said, **more}) + "\n"


class TestModels:
    def test_a_log_that_names_none_has_no_dollars(self, tmp_path: Path, capsys: Capture) -> None:
        path = tmp_path / "chats.jsonl"
        path.write_text(conversation())
        (session,) = report(capsys, str(path))["sessions"]
        assert (session["model"], session["cost_usd"]) == ("", None)
        assert session["usage"]["read"] + session["usage"]["input"] > 8_000
        assert main(["explain", str(path)]) == 0
        assert "1 session names no model: tokens only" in " ".join(capsys.readouterr().out.split())
        assert "name no model; name one with --model" in refused("replay", str(path), "--strategy", "rolling")

    @pytest.mark.parametrize("named", [True, False])
    def test_replay_takes_the_same(self, tmp_path: Path, capsys: Capture, named: bool) -> None:
        path = tmp_path / "chats.jsonl"
        path.write_text(conversation(model="gpt-5.5") if named else conversation())
        chosen = () if named else ("--model", "gpt-5.5")
        (session,) = report(capsys, str(path), *chosen)["sessions"]
        assert session["model"] == "gpt-5.5"
        assert session["cost_usd"] is not None
        assert main(["replay", str(path), "--strategy", "rolling", *chosen]) == 0
        assert capsys.readouterr().out.startswith("openai:gpt-5.5: 4 requests of 1 session")

    def test_a_model_that_a_log_names_stays(self, tmp_path: Path, capsys: Capture) -> None:
        path = tmp_path / "chats.jsonl"
        path.write_text(conversation(model="gpt-5.5"))
        assert report(capsys, str(path), "--model", "claude-opus-4-6")["sessions"][0]["model"] == "gpt-5.5"

    def test_one_of_which_nothing_is_known_is_refused(self, tmp_path: Path) -> None:
        assert "nothing is known of the model 'gpt-55'" in refused("explain", str(tmp_path), "--model", "gpt-55")
