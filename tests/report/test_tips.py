"""Which tips apply: rules about counted evidence, and the page about them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from holdfast.cli import cli
from holdfast.config import KEYS, Settings
from holdfast.config.keys import Key
from holdfast.config.parse import parse
from holdfast.report.tips import TIPS, BriefSessions, Compactions, GeminiUse, LongResults, TipEvidence, applicable

PAGE = Path(__file__).parents[2] / "docs" / "tips.md"

ALL = TipEvidence(
    masked=10,
    compacted=Compactions(compactions=4, turns=24),
    brief=BriefSessions(sessions=3, long_tokens=30_000),
    mcp_tools=30,
    results=LongResults(count=10, median=20_400),
    gemini=GeminiUse(requests=10, changes=0),
)


def names(evidence: TipEvidence, settings: Settings = Settings()) -> list[str]:  # noqa: B008
    return [each.tip for each in applicable(evidence, settings)]


def test_every_tip_can_apply_and_each_in_its_place() -> None:
    assert names(ALL) == list(TIPS)


def test_what_a_source_cannot_tell_gives_no_tip() -> None:
    assert names(TipEvidence()) == []


@pytest.mark.parametrize(
    ("less", "tip"),
    [
        (replace(ALL, masked=9), "drift"),
        (replace(ALL, compacted=Compactions(compactions=2, turns=20)), "frequent_compaction"),
        (replace(ALL, compacted=Compactions(compactions=1, turns=2)), "frequent_compaction"),
        (replace(ALL, brief=BriefSessions(sessions=3, long_tokens=9_999)), "short_sessions"),
        (replace(ALL, mcp_tools=29), "many_mcp_tools"),
        (replace(ALL, results=LongResults(count=9, median=20_000)), "big_results"),
        (replace(ALL, results=LongResults(count=90, median=100_001)), "big_results"),
        (replace(ALL, gemini=GeminiUse(requests=9, changes=0)), "gemini"),
        (replace(ALL, gemini=GeminiUse(requests=90, changes=1)), "gemini"),
    ],
)
def test_below_its_measure_a_tip_does_not_apply(less: TipEvidence, tip: str) -> None:
    assert names(less) == [name for name in TIPS if name != tip]


def test_what_a_tip_says_can_be_set_and_then_it_is_not_given_again() -> None:
    """Its settings are written for holdfast.toml: each is a key and a value that it may have."""
    zones = _with(Settings(), 'cache.strategy = "zones"')
    for start in (Settings(), zones):
        settings = start
        for each in applicable(ALL, start):
            for line in each.settings:
                settings = _with(settings, line)
        left = names(ALL, settings)
        assert left == (["short_sessions"] if start.cache.strategy == "economic" else [])


def test_short_sessions_names_the_settings_of_zones_only_where_they_act() -> None:
    (plain,) = applicable(TipEvidence(brief=ALL.brief), Settings())
    assert plain.settings == ('cache.strategy = "economic"',)
    (zones,) = applicable(TipEvidence(brief=ALL.brief), _with(Settings(), 'cache.strategy = "zones"'))
    assert zones.settings == ("cache.adaptive = false", 'cache.retention = "short"')


def test_frequent_tools_are_added_to_those_pinned_already() -> None:
    settings = _with(Settings(), 'tools.deferral.never = ["mcp__a__*"]')
    found = replace(ALL, frequent=("mcp__a__get", "mcp__b__find"))
    said = next(each for each in applicable(found, settings) if each.tip == "many_mcp_tools")
    assert said.settings == ('tools.deferral.never = ["mcp__a__*", "mcp__b__find"]',)
    assert "mcp__b__find" in said.seen
    assert "many_mcp_tools" not in names(replace(ALL, frequent=("mcp__a__get",)), settings)


def test_the_name_of_a_tool_is_quoted_as_toml() -> None:
    said = next(each for each in applicable(replace(ALL, frequent=('mcp__a__"x\\',)), Settings()) if "mcp" in each.tip)
    assert tomllib.loads(said.settings[-1])["tools"]["deferral"]["never"] == ['mcp__a__"x\\']


@pytest.mark.parametrize(("short", "given"), [(30, True), (31, False)])
def test_a_few_long_results_among_many_are_in_every_log(tmp_path: Path, short: int, given: bool) -> None:
    sizes = [20_000] * 10 + [900] * short
    blocks = [{"role": "user", "type": "tool_result", "chars": chars} for chars in sizes]
    line = {"session": "s", "request": 1, "at": 1.0, "first_token_at": 2.0, "model": "claude-opus-5-5"}
    used = {"input": 3, "read": 0, "write_5m": 9_000, "write_1h": 0, "output": 50}
    more = {"sidechain": False, "reset": None, "added": blocks, "usage": used}
    (tmp_path / "log.jsonl").write_text(json.dumps(line | more) + "\n")
    done = CliRunner().invoke(cli, ["explain", str(tmp_path / "log.jsonl"), "--json", "--quiet"])
    assert [tip["tip"] for tip in json.loads(done.stdout)["tips"]] == (["big_results"] if given else [])


def test_the_page_has_a_section_for_each_with_its_sentence() -> None:
    text = PAGE.read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == list(TIPS)
    for tip, part in zip(TIPS.values(), text.split("\n## ")[1:], strict=True):
        assert f"> {tip.sentence}\n" in part
        for heading in ("**Sign.**", "**Setting.**", "**What it costs.**", "**What the defaults do.**"):
            assert heading in part, tip.name


def _with(settings: Settings, line: str) -> Settings:
    """The settings with one line of holdfast.toml."""
    name, _, text = line.partition(" = ")
    key: Key = KEYS[name]
    value = parse(key, text.strip('"') if key.kind == "choice" else text)
    return _put(settings, name.split("."), value)


def _put(struct: object, path: list[str], value: object) -> Settings:
    if len(path) > 1:
        value = _put(getattr(struct, path[0]), path[1:], value)
    return replace(struct, **{path[0]: value})  # type: ignore[type-var]
