"""Padding through `open_agent`: what a holdfast.toml says about it is what the provider gets."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.agent.contract import OutgoingRequest
from holdfast.agent.program import open_agent
from holdfast.agent.stable_text import EXPECTED_CALLS
from holdfast.core.operating_context import SECTIONS
from holdfast.errors import HoldfastError
from holdfast.facts import heuristic_tokens
from holdfast.records import Usage
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script

HAIKU, SONNET, OPUS = (f"anthropic:claude-{name}" for name in ("haiku-4-5", "sonnet-5-5", "opus-4-6"))
OWN = "# Our own rules\n\n" + "\n\n".join(
    f"## Rule {number}\n\nIn case {number} we write it down, ask the owner, and wait for the answer. " * 3
    for number in range(120)
)

SPELLING = 150
"""Tokens by which the definitions of tools differ between the wire and what padding counts."""


class Recording:
    """A simulated provider that keeps what was sent."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1_800_000_000.0)
        self.simulator = Simulator(script=Script(name="short", function=lambda _: "Done."), clock=self.clock)
        self._simulated, self.bodies = Simulated(self.simulator), list[bytes]()

    def open(self, request: OutgoingRequest) -> object:
        self.bodies.append(request.raw)
        return self._simulated.open(request)

    @property
    def used(self) -> list[Usage]:
        return [record.usage for record in self.simulator.journal.records() if record.usage is not None]


class Sent:
    """What came of a session: the first body's system text and tools, what was billed, why it was padded."""

    def __init__(self, provider: Recording, why: str) -> None:
        body = json.loads(provider.bodies[0])
        system = body["system"]
        self.system = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
        self.size = facts.estimate(self.system) + sum(facts.estimate(json.dumps(tool)) for tool in body["tools"])
        self.heuristic = heuristic_tokens(self.system + "".join(json.dumps(tool) for tool in body["tools"]))
        self.used, self.why = provider.used, why
        heads = {
            json.dumps([each["system"], each["tools"]]).replace("cache_control", "")
            for each in map(json.loads, provider.bodies)
        }
        self.heads = len(heads)

    @property
    def reads(self) -> list[int]:
        return [each.read for each in self.used]

    @property
    def padded(self) -> bool:
        return SECTIONS[0] in self.system


Ask = Callable[..., Sent]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask a new session of a workspace with this holdfast.toml something, several times."""
    for name in ("HOLDFAST_HOME", "HOLDFAST_AGENT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()

    async def talk(config: str, turns: int, agent: str, system_prompt: str | None, calls: float) -> Sent:
        (tmp_path / "work" / "holdfast.toml").write_text(config)
        provider = Recording()
        async with open_agent(
            tmp_path / "work",
            home=tmp_path / "home",
            provider=provider,  # type: ignore[arg-type]
            clock=provider.clock.now,
        ) as sessions:
            session = await sessions.create(agent=agent, system_prompt=system_prompt, expected_calls=calls)
            for number in range(turns):
                turn = await session.ask(f"Question {number}?")
                assert turn.ended == "completed", turn
                provider.clock.advance(20)
            why = session.state.composed.padding
        return Sent(provider, why)

    def asked(
        config: str, *, turns: int = 3, agent: str = "", system_prompt: str | None = None, calls: float = EXPECTED_CALLS
    ) -> Sent:
        return asyncio.run(talk(config, turns, agent, system_prompt, calls))

    return asked


def toml(model: str, cache: str = "", fallback: str = "") -> str:
    return f'[agent]\nmodel = "{model}"\nfallback = [{fallback}]\n[skills]\nroots = []\n[cache]\n{cache}\n'


@pytest.mark.parametrize("model", [HAIKU, OPUS])
def test_a39_a53_by_default_a_plain_session_is_padded_where_it_pays(ask: Ask, model: str) -> None:
    """The second turn reads; nothing else would be cached at all."""
    sent = ask(toml(model))
    assert sent.padded
    assert sent.size >= facts.model(model).floor
    assert sent.reads[0] == 0
    assert min(sent.reads[1:]) >= facts.model(model).floor
    assert "by rule 5.6 pays within 20 calls" in sent.why


def test_a_program_says_how_many_calls_it_expects(ask: Ask) -> None:
    assert not ask(toml(HAIKU), calls=4).padded
    assert ask(toml(HAIKU), calls=40).padded
    with pytest.raises(HoldfastError, match=r"create\(expected_calls=…\) got 0; give a number of requests, 1 or more"):
        ask(toml(HAIKU), calls=0)
    with pytest.raises(TypeError, match=r"create\(expected_calls=…\) got a str"):
        ask(toml(HAIKU), calls="few")


def test_where_the_floor_is_low_or_padding_is_off_nothing_is_added(ask: Ask) -> None:
    assert not ask(toml(SONNET)).padded
    off = ask(toml(HAIKU, 'padding = "off"'))
    assert not off.padded
    assert off.reads == [0, 0, 0]


def test_a45_a_large_opening_passes_the_floor_by_itself(ask: Ask, tmp_path: Path) -> None:
    """The directory tree of the first message counts: with it the conversation is cached anyway."""
    for number in range(220):
        (tmp_path / "work" / f"a-file-of-the-workspace-with-a-long-name-{number:03}.txt").touch()
    sent = ask(toml(HAIKU))
    assert not sent.padded
    assert sent.reads[2] >= 4_096


def test_a_conversation_that_is_about_to_pass_the_floor_is_not_padded(ask: Ask, tmp_path: Path) -> None:
    """It has not passed it with its first request, and it would take a slow one long; most are not that slow."""
    for number in range(70):
        (tmp_path / "work" / f"a-file-of-the-workspace-with-a-long-name-{number:03}.txt").touch()
    sent = ask(toml(HAIKU))
    assert 3_200 < sent.used[0].prompt < 4_000
    assert not sent.padded


def test_under_two_point_no_conversation_passes_the_floor(ask: Ask, tmp_path: Path) -> None:
    """It marks tools and system text alone: the rule as written decides."""
    for number in range(220):
        (tmp_path / "work" / f"a-file-of-the-workspace-with-a-long-name-{number:03}.txt").touch()
    assert ask(toml(HAIKU, 'strategy = "two-point"')).padded


def test_without_markers_of_ours_nothing_is_padded(ask: Ask) -> None:
    assert not ask(toml(HAIKU, 'strategy = "passthrough"')).padded


def test_a37_always_clears_the_floor_of_every_model_of_the_chain(ask: Ask) -> None:
    bounds = 'padding = "always"\npadding_min = 500\npadding_max = 5500'
    alone, chain = ask(toml(SONNET, bounds)), ask(toml(SONNET, bounds, f'"{HAIKU}"'))
    assert not alone.padded
    assert chain.padded
    assert alone.size < 4_096 <= chain.size


def test_a_fallback_alone_does_not_make_economic_padding_pay(ask: Ask) -> None:
    """Every request to the first model would cost more, for one that is hardly ever asked."""
    assert not ask(toml(SONNET, fallback=f'"{HAIKU}"')).padded
    assert ask(toml(HAIKU, fallback=f'"{SONNET}"')).padded


@pytest.mark.parametrize(("least", "most"), [(3_000, 4_000), (4_500, 5_500), (6_000, 7_000)])
def test_a40_a41_a42_the_bounds_of_the_file_are_kept(ask: Ask, least: int, most: int) -> None:
    bounds = f'padding = "always"\npadding_min = {least}\npadding_max = {most}'
    sent = ask(toml(SONNET, bounds), turns=1)
    assert least - SPELLING <= sent.heuristic <= most + SPELLING
    assert str(least) in sent.why


def test_a43_a44_bodies_come_first_and_below_their_headings(ask: Ask, tmp_path: Path) -> None:
    for name in ("zoo", "ant"):
        place = tmp_path / "work" / ".holdfast" / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: Knows the {name}.\n---\n" + f"Feed the {name} at noon. " * 60
        )
    sent = ask(toml(HAIKU).replace("roots = []", 'roots = [".holdfast/skills"]'))
    places = [sent.system.index(text) for text in ("# Skill: ant (", "# Skill: zoo (", SECTIONS[0])]
    assert places == sorted(places)
    assert "- ant [preloaded]:" in sent.system


def test_a47_the_head_is_the_same_in_every_turn(ask: Ask) -> None:
    sent = ask(toml(HAIKU), turns=4)
    assert sent.padded
    assert sent.heads == 1


def test_a49_a_text_of_ones_own_that_is_long_enough_is_left_alone(ask: Ask) -> None:
    own = "Be exact, and say what you do not know. " * 700
    for mode in ("economic", "always"):
        sent = ask(toml(HAIKU, f'padding = "{mode}"'), turns=1, system_prompt=own)
        assert not sent.padded
        assert sent.system.startswith(own.strip())
    assert ask(toml(HAIKU), turns=1, system_prompt="Be exact.").padded


class TestPaddingText:
    def test_a_file_of_the_workspace_takes_the_place_of_our_text(self, ask: Ask, tmp_path: Path) -> None:
        (tmp_path / "work" / "rules.md").write_text(OWN)
        sent = ask(toml(HAIKU, 'padding_text = "rules.md"'))
        assert not sent.padded
        assert "# Our own rules\n\n## Rule 0\n\nIn case 0 we" in sent.system
        assert sent.size < 4_096 * 1.2
        assert sent.reads[1] >= 4_096
        assert sent.heads == 1

    def test_it_may_be_set_for_one_agent(self, ask: Ask, tmp_path: Path) -> None:
        (tmp_path / "work" / "rules.md").write_text(OWN)
        config = toml(HAIKU) + '[agents.clerk.cache]\npadding_text = "rules.md"\n'
        assert "# Our own rules" not in ask(config, turns=1).system
        assert "# Our own rules" in ask(config, turns=1, agent="clerk").system

    def test_a_file_of_the_home_is_named_by_the_home(self, ask: Ask, tmp_path: Path) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "rules.md").write_text(OWN)
        (tmp_path / "home" / "holdfast.toml").write_text('[cache]\npadding_text = "HOLDFAST_HOME/rules.md"\n')
        assert "# Our own rules" in ask(toml(HAIKU), turns=1).system

    @pytest.mark.parametrize("named", ["HOLDFAST_HOME/rules.md", "../rules.md", "/etc/passwd", "~/rules.md"])
    def test_a_workspace_names_nothing_outside_of_it(self, ask: Ask, named: str) -> None:
        with pytest.raises(HoldfastError, match=r"cache\.padding_text names .* not in this workspace"):
            ask(toml(HAIKU, f'padding_text = "{named}"'))

    def test_what_cannot_be_used_is_a_warning_and_our_text_is(
        self, ask: Ask, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        work = tmp_path / "work"
        (tmp_path / "secret.md").write_text(OWN)
        (work / "link.md").symlink_to(tmp_path / "secret.md")
        (work / "binary.md").write_bytes(b"\x89PNG\0\xff" * 100)
        (work / "huge.md").write_text("word " * 20_000)
        (work / "empty.md").write_text("\n\n")
        (work / "folder.md").mkdir()
        for name in ("missing.md", "link.md", "binary.md", "huge.md", "empty.md", "folder.md"):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                sent = ask(toml(HAIKU, f'padding_text = "{name}"'), turns=1)
            assert sent.padded, name
            assert "Our own rules" not in sent.system
            (told,) = [each.getMessage() for each in caplog.records if "padding_text" in each.getMessage()]
            assert name in told
            assert "padding uses the built-in text" in told
