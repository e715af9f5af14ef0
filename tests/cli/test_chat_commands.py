"""The commands of a chat, carried out in a pipe: what they show and what they change."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from holdfast.agent.contract import InspectedBlock
from holdfast.agent.log import SessionOnDisk
from holdfast.cli.chat import views
from holdfast.cli.chat.commands import COMMANDS, is_command, is_known, meant, run
from holdfast.errors import HoldfastError
from tests.cli.chats import Chatting

LONG = "A rule of the project that every agent has to know. " * 400
"""Enough to be worth caching."""


class TestLines:
    @pytest.mark.parametrize("line", ["/cost", "/unknown", "  /help", "/model x:y", "/"])
    def test_a_slash_begins_a_command(self, line: str) -> None:
        assert is_command(line)

    @pytest.mark.parametrize("line", ["//cost", "/usr/bin/env is missing", "cost", "", "a /cost"])
    def test_all_else_is_a_message(self, line: str) -> None:
        assert not is_command(line)

    def test_in_a_pipe_only_a_command_that_there_is_counts(self) -> None:
        assert is_known("/Cost")
        assert is_known("/quit")
        assert not is_known("/unknown")
        assert not is_known(" /cost")

    def test_two_slashes_mean_one(self) -> None:
        assert meant("//cost") == "/cost"
        assert meant("cost") == "cost"


class TestCommands:
    def test_help_names_every_command(self, chat: Chatting) -> None:
        out = chat(input="/help").out
        for name in COMMANDS:
            assert re.search(rf"^/{name}\b.*\w\.$", out, re.M), name
        assert "//text sends a message that begins with a slash" in out

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("/contxt", "did you mean /context? /help lists all, and //contxt is sent as a message"),
            ("/modle x", "there is no command /modle; did you mean /model? /help lists all"),
            ("/usage", "there is no command /usage; did you mean /cost? /help lists all"),
            ("/xyzzyq", "there is no command /xyzzyq; /help lists all, and //xyzzyq is sent as a message"),
            ("/nosuch", "there is no command /nosuch; /help lists all"),
            ("/", "a command has a name behind its slash; /help lists them"),
        ],
    )
    def test_an_unknown_one_gets_the_nearest_name(self, line: str, said: str) -> None:
        with pytest.raises(HoldfastError, match=re.escape(said)):
            run(None, line)  # type: ignore[arg-type]

    def test_what_takes_nothing_says_so(self, chat: Chatting) -> None:
        done = chat(input="/goal a\n/goal b c\n/cost now\n")
        assert done.code == 1
        assert "/cost takes nothing behind its name, but 'now' stands there; write it alone" in done.err

    def test_help_of_one_command(self, chat: Chatting) -> None:
        done = chat(input="/help goal\n/help /cost\n/help contxt\n")
        assert done.out.splitlines()[0].startswith("/goal [TEXT|off]  Show, set or give up")
        assert "/cost  What this session cost" in done.out
        assert "/model" not in done.out
        assert "there is no command /contxt; did you mean /context?" in done.err

    def test_cost_is_that_of_the_session_and_of_this_chat(self, chat: Chatting) -> None:
        chat("Hello")
        out = chat("--resume", input="Again\n/cost").out
        assert re.search(r"^Here: anthropic:claude-haiku-5-5 · 1 call · in ", out, re.M)
        assert re.search(r"^In all: 2 turns, 2 calls, in [\d,]+, read .* out \d+: \$0\.\d{4}\.$", out, re.M)

    def test_cache_says_what_was_read_what_is_alive_and_what_was_expected(self, chat: Chatting) -> None:
        assert chat(input="/cache").out == "Nothing was sent yet.\n"
        (chat.workspace / "AGENTS.md").write_text(LONG)
        out = chat(input="One\n/cost\nTwo\n/cost\nThree\n/cache").out
        assert re.search(r"^[1-9]\d\.\d% of [\d,]+ prompt tokens were read from the cache;", out, re.M)
        assert re.search(
            r"^([1-9]\d*) of the \d+ blocks of the last request, 0s ago, are under a live entry", out, re.M
        )
        rows = re.findall(r"^\d\d:\d\d:\d\d +([\d,]+) +([\d,]+) +[\d,]+ +[\d,]+ +\$", out, re.M)
        assert len(rows) == 3
        assert rows[0] == ("0", "0")
        assert rows[2][0] == rows[2][1] != "0"
        assert "No breaks." in out

    def test_cache_names_resets_with_their_reasons(self, chat: Chatting) -> None:
        (chat.workspace / "AGENTS.md").write_text(LONG)
        out = chat(input="One\n/model anthropic:claude-sonnet-4-6\nTwo\n/cache").out
        assert re.search(r"^Resets, which have a reason: model_switch at \d\d:\d\d:\d\d\.$", out, re.M)

    def test_context_lists_every_block_and_adds_them_up(self, chat: Chatting) -> None:
        (chat.workspace / "AGENTS.md").write_text(LONG)
        out = chat(input="One\n/cost\nTwo\n/context").out
        shown = re.findall(r"^(tools|system|messages)\[\d+\]\S*  +(\S+) +([\d,]+) +(\S+)  (yes|no) ", out, re.M)
        assert {section for section, *_ in shown} == {"tools", "system", "messages"}
        assert {"tools", "host", "surroundings", "user", "assistant"} <= {owner for _, owner, *_ in shown}
        assert [cached for *_, cached in shown] == sorted((cached for *_, cached in shown), reverse=True)
        whole = sum(int(tokens.replace(",", "")) for _, _, tokens, *_ in shown)
        assert re.search(rf"^{len(shown)} blocks, about {whole:,} of [\d,]+ tokens \(\d+\.\d%\);", out, re.M)
        assert re.search(r"^\[#+\+*\.+\]$", out, re.M)

    def test_skills_and_which_are_loaded(self, chat: Chatting) -> None:
        assert "This session has no skills" in chat(input="/skills").out
        folder = chat.workspace / ".holdfast" / "skills" / "pdf"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Fill forms.\n---\nHow to fill forms.\n")
        out = chat(input="/skills").out
        assert re.search(r"^pdf +\d+ +.*Fill forms\.$", out, re.M)
        assert "0 of 3 loaded on request, 0 of 30,000 tokens." in out

    def test_memory_is_both_files_and_their_caps(self, chat: Chatting) -> None:
        folder = chat.workspace / ".holdfast"
        folder.mkdir()
        (folder / "USER.md").write_text("- likes tea\n")
        (folder / "MEMORY.md").write_text("- x" * 900 + "\n")
        out = chat(input="/memory").out
        assert ".holdfast/USER.md: 12 of 3,072 bytes.\n  - likes tea\n" in out
        assert ".holdfast/MEMORY.md: 2,701 of 4,096 bytes; more than 2,048: it should be consolidated.\n" in out

    def test_a_goal_is_set_shown_and_given_up(self, chat: Chatting) -> None:
        out = chat(input="/goal\n/goal Ship it\n/goal\nHello\n/goal off\n/goal").out
        assert out.split("\n") == [
            "There is no goal; `/goal TEXT` sets one.",
            "The goal is set; the model is told with the next message.",
            "Goal: Ship it",
            "Hello",
            "There is no goal any more.",
            "There is no goal; `/goal TEXT` sets one.",
            "",
        ]

    def test_the_model_is_shown_and_changed_and_what_that_costs_is_said(self, chat: Chatting) -> None:
        done = chat(input="/model\nOne\n/model sonnet-4-6\n/model\nTwo\n/model sonnet-4-6")
        assert "anthropic:claude-haiku-5-5 answers.\n" in done.out
        assert re.search(
            r"anthropic:claude-sonnet-4-6 answers from the next message on\. About [\d,]+ tokens are not cached there: "
            r"sending them anew costs \$0\.\d+ to \$0\.\d+\.",
            done.out,
        )
        assert "anthropic:claude-sonnet-4-6 answers from now on." in done.out
        assert "anthropic:claude-sonnet-4-6 answers already." in done.out
        assert re.search(r"^- anthropic:claude-sonnet-4-6 answers now: [\d,]+ tokens are not cached", done.err, re.M)
        assert re.search(r"^anthropic:claude-sonnet-4-6 · 1 call .* reset: model_switch$", done.err, re.M)

    def test_a_model_that_nobody_knows_is_an_error(self, chat: Chatting) -> None:
        done = chat(input="/model nonsense\nHello")
        assert (done.code, done.out) == (1, "Hello\n")
        assert "no model is named 'nonsense'" in done.err

    def test_a_name_that_several_models_have_is_not_guessed(self, chat: Chatting) -> None:
        done = chat(input="/model sonnet\nHello")
        assert (done.code, done.out) == (1, "Hello\n")
        assert re.search(r"'sonnet' may be one of anthropic:claude-sonnet-[^;]*; name one of them", done.err)

    def test_what_a_change_costs_is_in_between(self, chat: Chatting) -> None:
        done = chat(input="One\n/model sonnet-4-6\nTwo\n/model haiku-4-5\nThree\n/cost")
        low, high = map(Decimal, re.findall(r"anew costs \$([\d.]+) to \$([\d.]+)\.", done.out)[0])
        costs = [Decimal(each) for each in re.findall(r"\$([\d.]+) \(without", done.err)]
        assert low <= costs[1] <= high * Decimal("1.02")
        below = re.findall(r"anew costs \$([\d.]+)\.$", done.out, re.M)  # the floor: nothing is written there
        assert abs(Decimal(below[0]) - costs[2]) <= Decimal("0.0001")
        assert (
            "Here: anthropic:claude-haiku-5-5, anthropic:claude-sonnet-4-6, anthropic:claude-haiku-4-5 · 3 calls"
            in done.out
        )

    def test_cache_says_when_the_prompt_is_too_short_for_one(self, chat: Chatting) -> None:
        said = " ".join(chat(input="/model haiku-4-5\nOne\n/cache").out.split())
        assert "tokens are below the 4,096 that anthropic:claude-haiku-4-5 needs" in said
        assert "left it as it is (it was made for anthropic:claude-haiku-5-5)" in said
        assert "Nothing was cached" not in chat(input="/model sonnet-4-6\nOne\n/cache").out

    def test_a_model_of_which_nothing_is_known_is_taken_with_a_word(self, chat: Chatting) -> None:
        assert "What the change costs is not known." in chat(input="/model anthropic:claude-unheard-of").out

    def test_there_may_be_nothing_to_compact(self, chat: Chatting) -> None:
        done = chat(input="Hello\n/compact")
        assert done.out == "Hello\nNothing was compacted.\n"
        assert done.code == 0

    def test_a_compaction_says_what_it_came_to(self, chat: Chatting) -> None:
        (chat.home).mkdir(parents=True)
        (chat.home / "holdfast.toml").write_text("[agent.compaction]\nanchor_turns = 0\nkeep_recent_tokens = 10\n")
        words = "A long story of the past, which is told again and again. " * 60
        done = chat.done(input="\n/cost\n".join([words] * 6) + "\n/compact\n/cache")
        assert re.search(r"^- Older history was .*: [\d,]+ tokens became [\d,]+\.", done.err, re.M)
        assert "Nothing was compacted" not in done.out

    def test_another_session_takes_its_place(self, chat: Chatting) -> None:
        first = chat("First words").session
        done = chat(input=f"Other words\n/resume\n/resume {first[:20]}\nMore words\n/resume {first}")
        assert f"{first[:10]}" in done.out
        assert re.search(rf"^Session {first}, 1 turn, anthropic:claude-haiku-5-5: First words$", done.out, re.M)
        assert done.session == first
        assert f"this is session {first} already" in done.err
        assert done.code == 1

    def test_without_another_session_there_is_none_to_resume(self, chat: Chatting) -> None:
        assert chat(input="Hello\n/resume").out == "Hello\nThere is no other session of this workspace.\n"

    def test_a_fork_goes_on_and_leaves_the_session_as_it_was(self, chat: Chatting) -> None:
        done = chat(input="/fork\nHello\n/fork\nOn")
        assert "nothing was said yet that a fork could go on from" in done.err
        found = re.search(
            r"^This is session (\w+) now; (\w+) stays as it was: `/resume \2` goes back\.$", done.out, re.M
        )
        assert done.session == found[1]
        assert len(chat.logs) == 2

    def test_exit_ends_it(self, chat: Chatting) -> None:
        done = chat(input="Hello\n/exit\nNever said")
        assert (done.code, done.out) == (0, "Hello\n")
        assert done.session


class TestViews:
    def test_a_bar_shows_what_is_cached_what_is_not_and_what_is_free(self) -> None:
        assert views.bar(50, 75, 100, 42) == f"[{'#' * 20}{'+' * 10}{'.' * 10}]"
        assert views.bar(1, 2, 1_000_000, 22) == f"[#+{'.' * 18}]"
        assert views.bar(100, 100, 50, 12) == f"[{'#' * 10}]"
        assert views.bar(0, 0, 0, 12) == f"[{'.' * 10}]"

    @pytest.mark.parametrize(
        ("seconds", "shown"), [(-1, "0s"), (59.9, "59s"), (61, "1m"), (7_300, "2h"), (200_000, "2d")]
    )
    def test_ages_are_short(self, seconds: float, shown: str) -> None:
        assert views.span(seconds) == shown

    @pytest.mark.parametrize("room", [40, 60, 80, None])
    def test_the_next_request_fits_every_width(self, room: int | None) -> None:
        blocks = [
            InspectedBlock(
                path=f"messages[{number}].content[0]",
                owner="tool:run_command",
                tokens=1_234,
                at=10.0,
                cached=True,
                head="\x1b[2J" + "x" * 60,
            )
            for number in range(3)
        ]  # fmt: skip
        lines = list(views.context(blocks, 200_000, 100.0, room))
        assert room is None or max(map(len, lines)) <= room
        assert not any("\x1b" in line for line in lines)
        assert any("3,702" in line for line in lines)

    def test_many_sessions_are_cut_short(self) -> None:
        held = [
            SessionOnDisk(
                id=f"01{number:024}", started_at=0, last_at=0, turns=1, cost=Decimal(0), title="x", model="m:m"
            )
            for number in range(12)
        ]
        lines = list(views.stored(held, None, None, most=10))
        assert lines[-1] == "2 older sessions left out; `holdfast chat --list` shows all."
