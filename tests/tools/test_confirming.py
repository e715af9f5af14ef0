"""Who decides whether a call may run, what is remembered, and that nothing that goes wrong is ever a yes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import ConfirmSettings
from holdfast.records.events import Event
from holdfast.records.events.tools import ToolConfirmationRequested, ToolConfirmationResolved
from holdfast.tools import confirmation
from holdfast.tools.confirmation import Confirmations, Decision, Question
from holdfast.tools.contract import Cancel, Effect, Tool, ToolContext
from holdfast.tools.workspace import Workspace
from tests.tools.dispatch_bench import says, tool_named

CHANGING: list[Effect] = ["write", "execute", "network"]


def about(input: Mapping[str, Any]) -> str:
    return str(input["path"])


def write(**fields: Any) -> Tool:
    return tool_named("write_file", says(), "write", **{"subject": about} | fields)


class User:
    """Answers what it is told to, and keeps the questions."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[Question] = []
        self._answers = list(answers)

    async def __call__(self, question: Question) -> Decision:
        self.asked.append(question)
        await asyncio.sleep(0)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def context(root: Path, told: list[Event] | None = None) -> ToolContext:
    tell: Callable[[Event], None] = (lambda event: None) if told is None else told.append
    return ToolContext(session="s", tool_use_id="u", workspace=Workspace(root), cancel=Cancel(), emit=tell)


def decide(
    confirmations: Confirmations, root: Path, tool: Tool | None = None, path: str = "a", told: list[Event] | None = None
) -> Decision:
    return asyncio.run(confirmations.decide(tool or write(), {"path": path}, context(root, told)))


@pytest.mark.parametrize("effect", ["none", "read"])
def test_what_changes_nothing_is_not_asked(tmp_path: Path, effect: Effect) -> None:
    for mode in ("ask", "allow", "deny"):
        assert decide(Confirmations(ConfirmSettings(mode=mode)), tmp_path, tool_named("t", says(), effect)).allowed


@pytest.mark.parametrize("effect", CHANGING)
def test_what_changes_something_is_asked_once_each_time(tmp_path: Path, effect: Effect) -> None:
    user = User(Decision(True), Decision(False, why="not now"))
    told: list[Event] = []
    confirmations = Confirmations(ConfirmSettings(), ask=user)
    tool = tool_named("t", says(), effect, subject=about)
    assert decide(confirmations, tmp_path, tool, told=told) == Decision(True)
    assert decide(confirmations, tmp_path, tool, told=told) == Decision(False, why="not now")
    assert len(user.asked) == 2
    assert [event.type for event in told] == ["tool.confirmation_requested", "tool.confirmation_resolved"] * 2
    assert isinstance(told[0], ToolConfirmationRequested)
    assert told[0].question == user.asked[0].text
    assert [event.allowed_to_run for event in told if isinstance(event, ToolConfirmationResolved)] == [True, False]


def test_a_tool_may_say_itself_whether_it_asks(tmp_path: Path) -> None:
    user = User(Decision(False))
    confirmations = Confirmations(ConfirmSettings(), ask=user)
    assert decide(confirmations, tmp_path, write(confirm=False)).allowed
    assert not decide(confirmations, tmp_path, tool_named("look", says(), "read", confirm=True)).allowed
    assert [question.tool for question in user.asked] == ["look"]


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (ConfirmSettings(mode="allow"), True),
        (ConfirmSettings(mode="deny"), False),
        (ConfirmSettings(mode="ask"), False),
        (ConfirmSettings(mode="deny", allow=("write_file",)), True),
        (ConfirmSettings(mode="ask", allow=("write_file",)), True),
        (ConfirmSettings(mode="allow", deny=("write_file",)), False),
        (ConfirmSettings(mode="allow", allow=("write_file",), deny=("write_file",)), False),
    ],
)
def test_settings_decide_and_deny_wins(tmp_path: Path, settings: ConfirmSettings, allowed: bool) -> None:
    decision = decide(Confirmations(settings), tmp_path)
    assert decision.allowed is allowed
    assert allowed or "write_file" in decision.why


def test_deny_also_holds_for_what_changes_nothing_and_for_what_was_allowed(tmp_path: Path) -> None:
    assert not decide(
        Confirmations(ConfirmSettings(deny=("look",))), tmp_path, tool_named("look", says(), "read")
    ).allowed
    home = tmp_path / "home"
    decide(Confirmations(ConfirmSettings(), home=home, ask=User(Decision(True, "always"))), tmp_path)
    assert not decide(Confirmations(ConfirmSettings(deny=("write_file",)), home=home), tmp_path).allowed


def test_without_anybody_to_ask_it_is_a_refusal_that_says_so(tmp_path: Path) -> None:
    decision = decide(Confirmations(ConfirmSettings()), tmp_path)
    assert decision == Decision(False, why="write_file needs the user's consent, and nobody can be asked here.")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_decision_for_the_session_covers_exactly_its_subject(tmp_path: Path, allowed: bool) -> None:
    user = User(Decision(allowed, "session"), Decision(not allowed))
    confirmations = Confirmations(ConfirmSettings(), home=tmp_path / "home", ask=user)
    other = tmp_path / "other"
    other.mkdir()
    for _ in range(3):
        assert decide(confirmations, tmp_path).allowed is allowed
    assert len(user.asked) == 1
    assert decide(confirmations, tmp_path, path="b").allowed is not allowed
    assert decide(confirmations, tmp_path, tool_named("other", says(), "write", subject=about)).allowed is not allowed
    assert decide(confirmations, other).allowed is not allowed
    assert len(user.asked) == 4
    assert not (tmp_path / "home").exists()


def test_without_a_subject_a_decision_covers_the_tool(tmp_path: Path) -> None:
    user = User(Decision(True, "session"), Decision(False))
    confirmations = Confirmations(ConfirmSettings(), ask=user)
    assert decide(confirmations, tmp_path, write(subject=None), "a").allowed
    assert decide(confirmations, tmp_path, write(subject=None), "b").allowed
    assert not decide(confirmations, tmp_path, write(subject=lambda given: ""), "b").allowed


def broken(input: Mapping[str, Any]) -> str:
    raise KeyError("path")


@pytest.mark.parametrize("subject", [broken, lambda given: None])
def test_a_tool_that_cannot_say_its_subject_gets_no_more_than_this_input(tmp_path: Path, subject: Any) -> None:
    user = User(Decision(True, "session"), Decision(False))
    confirmations = Confirmations(ConfirmSettings(), ask=user)
    assert decide(confirmations, tmp_path, write(subject=subject), "a").allowed
    assert not decide(confirmations, tmp_path, write(subject=subject), "b").allowed


@pytest.mark.parametrize("allowed", [True, False])
def test_a_decision_for_ever_outlives_the_session(tmp_path: Path, allowed: bool) -> None:
    home, first = tmp_path / "deep" / "home", User(Decision(allowed, "always"))
    assert decide(Confirmations(ConfirmSettings(), home=home, ask=first), tmp_path).allowed is allowed
    file = home / confirmation.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["decisions"] == [
        {"workspace": str(tmp_path), "tool": "write_file", "subject": "a", "allowed": allowed}
    ]
    later = User(Decision(not allowed))
    assert decide(Confirmations(ConfirmSettings(), home=home, ask=later), tmp_path).allowed is allowed
    assert decide(Confirmations(ConfirmSettings(), home=home), tmp_path).allowed is allowed
    assert not later.asked
    decide(Confirmations(ConfirmSettings(), home=home, ask=later), tmp_path, path="b")
    decide(Confirmations(ConfirmSettings(), home=home, ask=later), home)
    assert len(later.asked) == 2


def test_decisions_of_others_stay_when_one_is_added(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for path in "abc":
        decide(Confirmations(ConfirmSettings(), home=home, ask=User(Decision(True, "always"))), tmp_path, path=path)
    assert [each["subject"] for each in json.loads((home / confirmation.FILE).read_text())["decisions"]] == list("abc")
    assert sorted(each.name for each in home.iterdir()) == [confirmation.FILE, confirmation.FILE + ".lock"]


FINE = '{"decisions":[{"workspace":"%s","tool":"write_file","subject":"a","allowed":%s}]}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '{"decisions":5}',
        '{"decisions":[5]}',
        FINE % ("{root}", "1"),
        FINE % ("{root}", '"true"'),
        FINE.replace('"subject":"a",', "") % ("{root}", "true"),
        "[" * 100_000,
        "\udcff\udcfe",
        FINE % ("{root}", "true") + "x",
    ],
)
def test_a_broken_file_is_never_a_yes_and_never_a_crash(tmp_path: Path, text: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    raw = os.fsencode(text.replace("{root}", str(tmp_path)))
    (home / confirmation.FILE).write_bytes(raw)
    (home / confirmation.FILE).chmod(0o600)
    user = User(Decision(False, "always"))
    assert not decide(Confirmations(ConfirmSettings(), home=home), tmp_path).allowed
    assert not decide(Confirmations(ConfirmSettings(), home=home, ask=user), tmp_path).allowed
    assert len(user.asked) == 1
    assert decide(Confirmations(ConfirmSettings(), home=home), tmp_path).why == "The user has refused this before."


def test_a_file_that_is_fine_is_believed_and_a_refusal_in_it_wins(tmp_path: Path) -> None:
    file = tmp_path / confirmation.FILE
    file.write_text(FINE % (tmp_path, "true"))
    file.chmod(0o600)
    assert decide(Confirmations(ConfirmSettings(), home=tmp_path), tmp_path).allowed
    both = [{"workspace": str(tmp_path), "tool": "write_file", "subject": "a", "allowed": a} for a in (True, False)]
    file.write_text(json.dumps({"decisions": both}))
    assert not decide(Confirmations(ConfirmSettings(), home=tmp_path), tmp_path).allowed


def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / confirmation.FILE
    file.write_text(FINE % (tmp_path, "true"))
    file.chmod(0o622)
    assert not decide(Confirmations(ConfirmSettings(), home=tmp_path), tmp_path).allowed
    file.chmod(0o600)
    target = file.rename(tmp_path / "elsewhere")
    file.symlink_to(target)
    assert not decide(Confirmations(ConfirmSettings(), home=tmp_path), tmp_path).allowed


@pytest.mark.parametrize("place", ["pipe", "directory", "home is a file"])
def test_a_place_that_cannot_hold_it_makes_the_decision_last_for_the_session(tmp_path: Path, place: str) -> None:
    home = tmp_path / "home"
    if place == "home is a file":
        home.write_text("x")
    else:
        home.mkdir()
        (home / confirmation.FILE).mkdir() if place == "directory" else os.mkfifo(home / confirmation.FILE)
    user = User(Decision(True, "always"))
    confirmations = Confirmations(ConfirmSettings(), home=home, ask=user)
    assert decide(confirmations, tmp_path).allowed
    assert decide(confirmations, tmp_path).allowed
    assert len(user.asked) == 1


def test_two_processes_do_not_lose_each_others_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "LOCK_TIMEOUT_S", 0.03)
    file = confirmation.DecisionFile(tmp_path)
    lock = os.open(tmp_path / f"{confirmation.FILE}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not file.put(tmp_path, "t", None, True)
        assert file.find(tmp_path, "t", None) is None
    finally:
        os.close(lock)
    assert file.put(tmp_path, "t", None, True)
    assert file.find(tmp_path, "t", None) is True


@pytest.mark.parametrize(
    "answer",
    [ValueError("terminal gone"), SystemExit(1), asyncio.CancelledError(), None, True, "yes", Decision("no")],  # type: ignore[arg-type]
)
def test_a_question_that_goes_wrong_is_a_refusal(tmp_path: Path, answer: Any) -> None:
    told: list[Event] = []
    decision = decide(Confirmations(ConfirmSettings(), ask=User(answer)), tmp_path, told=told)
    assert not decision.allowed
    assert decision.why
    assert isinstance(told[-1], ToolConfirmationResolved)
    assert not told[-1].allowed_to_run


def test_questions_are_asked_one_at_a_time_and_an_answer_meanwhile_is_used(tmp_path: Path) -> None:
    now, most = 0, 0
    asked: list[str] = []

    async def ask(question: Question) -> Decision:
        nonlocal now, most
        now += 1
        most = max(most, now)
        asked.append(question.subject)
        await asyncio.sleep(0.001)
        now -= 1
        return Decision(True, "session")

    async def main() -> list[Decision]:
        confirmations = Confirmations(ConfirmSettings(), ask=ask)
        paths = [{"path": name} for name in "aabbaac"]
        return await asyncio.gather(*(confirmations.decide(write(), path, context(tmp_path)) for path in paths))

    assert all(decision.allowed for decision in asyncio.run(main()))
    assert most == 1
    assert asked == ["a", "b", "c"]


async def test_a_question_that_is_given_up_frees_the_way_for_the_next(tmp_path: Path) -> None:
    began = asyncio.Event()
    told: list[Event] = []

    async def ask(question: Question) -> Decision:
        if question.subject == "hangs":
            began.set()
            await asyncio.Event().wait()
        return Decision(True)

    confirmations = Confirmations(ConfirmSettings(), ask=ask)
    hanging = asyncio.create_task(confirmations.decide(write(), {"path": "hangs"}, context(tmp_path, told)))
    await began.wait()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert isinstance(told[-1], ToolConfirmationResolved)
    assert (await confirmations.decide(write(), {"path": "b"}, context(tmp_path))).allowed
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_question_says_all_of_it_in_printable_characters(tmp_path: Path) -> None:
    user = User(Decision(False))
    confirmations = Confirmations(ConfirmSettings(), ask=user)
    command = "rm -rf x\x1b[2K\x1b[1A \u202eevil\ud800\n" + "y" * 5_000
    decide(
        confirmations, tmp_path, tool_named("run_command", says(), "execute", subject=about, source="builtin"), command
    )
    (question,) = user.asked
    assert question.text.startswith("run_command wants to run a command: rm -rf x\\x1b[2K\\x1b[1A \\u202eevil�\nyyy")
    assert question.text.endswith("y" * 5_000)
    assert (question.tool, question.effect, question.input) == ("run_command", "execute", {"path": command})
    decide(confirmations, tmp_path, tool_named("mcp__a__b", says(), "network", source="mcp", server="a"), "x")
    decide(confirmations, tmp_path, tool_named("invoice", says(), "write"), "x")
    assert user.asked[1].text == 'mcp__a__b is to be called, a tool of the MCP server a: {"path": "x"}'
    assert user.asked[2].text == 'invoice wants to change something: {"path": "x"}'
