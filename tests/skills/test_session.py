"""A session's skills: the stable text, what is announced, where files are, and a restart."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.config import load as configured
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.operating_context import SECTIONS
from holdfast.core.padding import Outlook
from holdfast.errors import HoldfastError
from holdfast.records import Message, Opaque, ToolDefinition
from holdfast.records.events import Bus, Envelope
from holdfast.records.events.tools import SkillLoaded
from holdfast.skills.loader import load_skills
from holdfast.skills.session import SessionSkills
from holdfast.tools.journal import ToolJournal
from tests.skills.sessions import desk, load, session, sized, skill
from tests.skills.skill_files import write_skill
from tests.support.toolboxes import toolbox
from tests.tools.dispatch_bench import text

HAIKU = facts.model("anthropic:claude-haiku-4-5")
PERSONA = "You are a careful agent."
LIBRARY = (sized("adr", 900, source="workspace"), sized("docs", 1_500), sized("pdf", 1_400), sized("release", 6_000))


def listen() -> tuple[ToolJournal, Any]:
    bus = Bus()
    heard = bus.subscribe()
    return ToolJournal(bus, "s1"), heard


class TestComposing:
    def test_d4_the_index_follows_what_stands_before_it(self) -> None:
        made = session(skill("pdf", "Fill forms.")).compose(PERSONA, cache=CacheSettings(padding="off"))
        assert made.text == (
            "You are a careful agent.\n"
            "\n"
            "## Available skills\n"
            "Use `skill_search(query)` to filter and `skill_load(name)` to read a body.\n"
            "\n"
            "- pdf: Fill forms."
        )
        assert (made.index, made.padding, made.preloaded, made.why) == (made.text[26:], "", (), "padding is off")

    def test_d38_without_skills_only_the_rest_stands(self) -> None:
        assert session().compose(PERSONA, cache=CacheSettings(padding="off")).text == PERSONA
        assert session().compose("", cache=CacheSettings(padding="off")).text == ""
        assert (
            session(skill("a")).compose("", cache=CacheSettings(padding="off")).text.startswith("## Available skills\n")
        )

    def test_a4_what_is_annotated_is_there_in_full_below_its_header(self) -> None:
        made = session(*LIBRARY).compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        assert made.preloaded == ("adr", "docs", "pdf")
        for each in LIBRARY:
            assert (f"- {each.name} [preloaded]: " in made.index) is (each.name in made.preloaded)
            assert (f"\n\n{each.section}" in made.text) is (each.name in made.preloaded)
        assert made.text == f"{PERSONA}\n\n{made.index}\n\n{made.padding}"
        assert "padded to" in made.why

    def test_d4_bodies_are_only_inlined_where_padding_is_needed(self) -> None:
        made = session(*LIBRARY).compose(
            "A long persona. " * 1_500, models=[HAIKU], cache=CacheSettings(padding="always")
        )
        assert (made.preloaded, made.padding) == ((), "")
        assert not any(each.section in made.text for each in LIBRARY)

    def test_economic_padding_preloads_only_where_it_pays(self) -> None:
        before = "A persona of some length. " * 400
        idle = session(*LIBRARY).compose(
            before, models=[HAIKU], outlook=Outlook(calls=1), cache=CacheSettings(padding="economic")
        )
        busy = session(*LIBRARY).compose(
            before, models=[HAIKU], outlook=Outlook(calls=500), cache=CacheSettings(padding="economic")
        )
        assert idle.preloaded == ()
        assert busy.preloaded
        assert all(f"- {name} [preloaded]: " in busy.index for name in busy.preloaded)

    def test_the_operating_context_comes_where_skills_are_not_enough(self) -> None:
        made = session(sized("adr", 900)).compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        assert made.preloaded == ("adr",)
        assert SECTIONS[0] in made.padding

    def test_d69_without_an_index_bodies_may_still_be_preloaded(self) -> None:
        skills = session(*LIBRARY, index="off")
        made = skills.compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        assert (made.index, made.preloaded) == ("", ("adr", "docs", "pdf"))
        assert made.text.startswith(f"{PERSONA}\n\n# Skill: adr (source: workspace)\n\n")
        assert [each.name for each in skills.registry.preloaded] == ["adr", "docs", "pdf"]

    def test_a4_text_that_no_provider_takes_is_mended_in_both_places(self, tmp_path: Path) -> None:
        skills = session(odd := skill("odd", body="Half a \ud800 pair.\n" * 50), sized("more", 4_000))
        made = skills.compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        assert made.text.encode()
        assert "odd" in made.preloaded
        assert odd.section.replace("\ud800", "\ufffd") in made.text

    def test_the_upper_bound_holds_with_the_annotations(self) -> None:
        for most in range(4_600, 5_500, 60):
            many = [sized(f"s{n:02}", 300) for n in range(30)]
            made = session(*many).compose(
                PERSONA, models=[HAIKU], cache=CacheSettings(padding="always", padding_max=most)
            )
            assert len(made.text) // 4 <= most

    def test_a2_it_is_composed_once(self) -> None:
        skills = session(*LIBRARY)
        skills.compose(PERSONA, cache=CacheSettings(padding="off"))
        with pytest.raises(HoldfastError, match="composed before"):
            skills.compose(PERSONA, cache=CacheSettings(padding="off"))
        with pytest.raises(HoldfastError, match="composed before"):
            session(*LIBRARY, state=skills.state).compose(PERSONA, cache=CacheSettings(padding="off"))

    def test_the_order_of_the_skills_does_not_matter(self) -> None:
        expected = session(*LIBRARY).compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        for seed in range(5):
            mixed = random.Random(seed).sample(LIBRARY, len(LIBRARY))
            assert session(*mixed).compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always")) == expected

    def test_d9_what_happens_on_disk_later_changes_nothing(self, tmp_path: Path) -> None:
        write_skill(tmp_path, "pdf", description="Fill forms.", body="Use the form tool.\n")
        skills = SessionSkills(load_skills(global_dir=tmp_path, workspace_dir=None))
        write_skill(tmp_path, "pdf", description="Other.", body="Other.\n")
        write_skill(tmp_path, "more")
        made = skills.compose(PERSONA, cache=CacheSettings(padding="off"))
        assert made.index.endswith("\n\n- pdf: Fill forms.")
        assert text(desk(tmp_path, skills).run(load("pdf"))[0]).endswith("Use the form tool.\n")


class TestAnnouncing:
    def told(self, heard: Any) -> list[Envelope]:
        return list(heard.drain())

    def test_a3_a56_a59_one_event_per_inlined_body_outside_of_any_turn(self) -> None:
        skills = session(*LIBRARY)
        skills.compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        tell, heard = listen()
        skills.announce(tell)
        told = self.told(heard)
        assert [each.payload for each in told] == [
            SkillLoaded(
                skill_id=each.name,
                skill_version=each.version,
                load_reason="always",
                load_size_tokens=each.estimated_body_tokens,
                source=each.source,
                triggered_by_tool_use_id=None,
            )
            for each in LIBRARY[:3]
        ]
        assert {(each.session, each.turn, each.actor) for each in told} == {("s1", None, "system")}

    def test_a56_once_also_after_a_restart(self) -> None:
        skills = session(*LIBRARY)
        tell, heard = listen()
        skills.announce(tell)  # nothing is composed yet
        skills.compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        skills.announce(tell)
        skills.announce(tell)
        session(*LIBRARY, state=skills.state).announce(tell)
        assert len(self.told(heard)) == 3

    def test_nothing_is_told_where_nothing_is_preloaded(self) -> None:
        skills = session(*LIBRARY)
        skills.compose(PERSONA, cache=CacheSettings(padding="off"))
        tell, heard = listen()
        skills.announce(tell)
        assert self.told(heard) == []


class TestDirectories:
    def test_d42_only_the_skills_own_directories_are_readable(self, tmp_path: Path) -> None:
        write_skill(tmp_path, "pdf")
        (tmp_path / "not-a-skill").mkdir()
        skills = SessionSkills(load_skills(global_dir=tmp_path, workspace_dir=None))
        assert skills.directories == (tmp_path / "pdf",)


def test_a73_a78_the_caps_of_a_workspace_and_of_an_agent_act(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    for name in "abc":
        write_skill(home / "skills", name, body="word " * 40)
    work.mkdir()
    (home / "holdfast.toml").write_text("[skills]\nmax_activations = 9\n")
    (work / "holdfast.toml").write_text(
        "[skills]\nmax_activations = 1\n"
        "[agents.scout.skills]\nmax_activations = 3\nwarn_tokens = 0\nhard_tokens = 100\n"
    )
    config = configured(workspace=work, home=home, environ={"HOME": str(tmp_path)})
    refused = []
    for settings in (config.settings, config.for_agent("scout")):
        answers = desk(tmp_path, SessionSkills.begin(settings.skills, work)).run(*(load(name, name) for name in "abc"))
        refused.append([text(answer).split(". ")[0] for answer in answers if answer.result.is_error])
    assert refused == [
        ["activation budget exhausted: 1 skills already activated this session (limit 1)"] * 2,
        ["activation budget exhausted: loading c would bring loaded skills to 150 tokens (limit 100)"],
    ]


class TestRestart:
    def test_everything_that_was_known_is_known(self, tmp_path: Path) -> None:
        b, c, d = (sized(name, tokens) for name, tokens in (("b", 6_000), ("c", 6_001), ("d", 6_002)))
        before = session(*LIBRARY, b, c, d)
        before.compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        preloaded = "adr"
        assert [each.name for each in before.registry.preloaded] == [preloaded, "docs", "pdf"]
        desk(tmp_path, before).run(*(load(name, name) for name in "bcd"))
        changed = skill("b", body="Another way.\n")
        after = desk(tmp_path, session(changed, c, sized(preloaded, 5), skill("new"), state=before.state))
        answers = after.run(load("b", "1"), load("d", "2"), load(preloaded, "3"), load("new", "4"), load("gone", "5"))
        said = [answer.output.metadata if answer.output else text(answer) for answer in answers]
        assert (said[0]["already_loaded"], said[0]["skill_version"]) == (True, b.version)
        assert (said[1]["already_loaded"], said[1]["skill_version"]) == (True, d.version)  # not on disk any more
        assert (said[2]["already_preloaded"], said[2]["load_size_tokens"]) == (True, LIBRARY[0].estimated_body_tokens)
        assert said[3].startswith("activation budget exhausted: 3 skills already activated this session (limit 3).")
        assert said[4] == "no skill registered with name 'gone'"
        assert "skill.loaded" not in after.types()

    def test_the_warning_is_not_repeated(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        before = session(skill("a"), warn_tokens=1)
        desk(tmp_path, before).run(load("a"))
        assert len(caplog.records) == 1
        after = session(skill("a"), skill("b"), warn_tokens=1, state=before.state)
        desk(tmp_path, after).run(load("b"))
        assert len(caplog.records) == 1

    def test_a_body_that_compaction_removed_comes_as_it_is_now(self, tmp_path: Path) -> None:
        before = session(skill("a", body="Old.\n"))
        desk(tmp_path, before).run(load("a"))
        after = session(skill("a", body="New.\n"), state=before.state)
        after.at_reset([Message("user", ())])
        bench = desk(tmp_path, after)
        assert text(bench.run(load("a", "x"))[0]) == "# Skill: a (source: global)\n\nNew.\n"
        assert bench.types().count("skill.loaded") == 1

    def test_the_state_of_a_session_stays_the_same(self) -> None:
        skills = session(*LIBRARY)
        skills.compose(PERSONA, models=[HAIKU], cache=CacheSettings(padding="always"))
        assert session(*LIBRARY, state=skills.state).state == skills.state
        assert len(skills.state) < 1_000

    @pytest.mark.parametrize("broken", [b"", b"junk", b"\xc1", b"\x81\xa8registry\x05"])
    def test_a_state_that_cannot_be_read_is_said(self, broken: bytes) -> None:
        with pytest.raises(HoldfastError, match="state of a session's skills cannot be read"):
            session(state=broken)


def test_definitions_count_towards_the_length_and_deferred_ones_do_not() -> None:
    long = ToolDefinition("own", "Does a thing. " * 1_500, b'{"type":"object"}')
    later = replace(long, extra=(("defer_loading", b"true"),))
    other = Opaque("web", b'{"type":"web","about":"' + b"a word " * 3_500 + b'"}')

    def preloaded(*tools: ToolDefinition | Opaque) -> tuple[str, ...]:
        return (
            session(*LIBRARY)
            .compose(PERSONA, cache=CacheSettings(padding="always"), tools=tools, models=[HAIKU])
            .preloaded
        )

    assert preloaded(long) == preloaded(other) == ()
    assert preloaded(later) == preloaded() != ()


def test_the_state_of_something_else_is_refused(tmp_path: Path) -> None:
    box = toolbox(workspace=tmp_path, home=tmp_path / "home")
    with pytest.raises(HoldfastError, match="the stored state of a session's skills cannot be read"):
        session(*LIBRARY, state=box.state)
