"""Override files: what they change, and what they are refused for."""

from __future__ import annotations

import os
import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.facts import Facts

SEED = {"haiku-4-5": 2048} | dict.fromkeys(
    [
        "sonnet-4",
        "sonnet-4-5",
        "sonnet-4-6",
        "opus-4",
        "opus-4-1",
        "opus-4-5",
        "opus-4-6",
        "opus-4-7",
        "opus-4-8",
    ],
    1024,
)


@pytest.mark.parametrize(("name", "floor"), SEED.items())
def test_the_seed_floors_are_one_name_away(name: str, floor: int) -> None:
    found = Facts.load(["seed-floors"]).model(f"claude-{name}")
    assert found.floor == floor
    assert found.as_of == date(2026, 5, 14)
    assert "overridden by seed-floors" in found.source


def test_the_seed_floors_leave_everything_else_alone() -> None:
    seed, plain = Facts.load(["seed-floors"]), Facts.load()
    for name in ("claude-opus-5-5", "claude-haiku-3-5", "gpt-5.5"):
        assert seed.model(name) == plain.model(name)
    assert seed.model("openrouter:anthropic/claude-haiku-4.5").floor == 2048


def written(folder: Path, text: str, *, dated: bool = True) -> Path:
    path = folder / "mine.toml"
    path.write_text(("as_of = 2027-01-02\n" if dated else "") + text, encoding="utf-8")
    return path


def test_a_file_changes_a_model_a_knob_and_adds_a_model(tmp_path: Path) -> None:
    own = Facts.load(
        [
            written(
                tmp_path,
                """
                source = "our own probe"
                [anthropic.knobs]
                ttl_raise = "yes"
                [anthropic.models."claude-haiku-4.5-20251001"]
                floor = 3000
                knobs = { effort_invalidates = "all" }
                [anthropic.models.claude-opus-6]
                floor = 256
                read = 0.01
                [openai.groups.breakpoints]
                lookback = 7
                """,
            )
        ]
    )
    haiku = own.model("claude-haiku-4-5")
    assert (haiku.floor, haiku.knobs.effort_invalidates, haiku.knobs.ttl_raise) == (3000, "all", "yes")
    assert haiku.knobs.collapse_tool_runs is True
    assert haiku.strips_thinking
    assert haiku.as_of == date(2027, 1, 2)
    assert "our own probe" in haiku.source
    new = own.model("claude-opus-6-20270101")
    assert (new.known, new.floor, new.read, new.lookback) == (True, 256, Decimal("0.01"), 20)
    assert new.flags.thinking is False
    assert own.model("claude-opus-5").knobs.ttl_raise == "yes"
    assert own.model("gpt-6-sol").lookback == 7
    assert own.model("gpt-5.5").lookback == 0


def test_later_files_win(tmp_path: Path) -> None:
    path = written(tmp_path, "[anthropic.models.claude-haiku-4-5]\nfloor = 99\n")
    assert Facts.load(["seed-floors", path]).model("claude-haiku-4-5").floor == 99
    assert Facts.load([str(path), "seed-floors"]).model("claude-haiku-4-5").floor == 2048


BAD = [
    ("x = [", "mine.toml is not valid TOML"),
    ("antropic = {}", "unknown key `antropic`; did you mean `anthropic`"),
    ("source = 3", "key `source` must be text"),
    ("anthropic = 3", "`anthropic` must be a table"),
    ("[anthropic.model]", "unknown key `anthropic.model`; did you mean `models`"),
    ("[anthropic]\nmodels = 1", "`anthropic.models` must be a table"),
    ("[anthropic.models]\nx = 1", "`anthropic.models.x` must be a table"),
    ("[anthropic.models.x]\nflor = 1", "unknown key `anthropic.models.x.flor`; did you mean `floor`"),
    ("[anthropic.models.x]\nfloor = 'a'", "`anthropic.models.x.floor` is wrong: Expected `int`"),
    ("[anthropic.models.x]\nfloor = -1", "`anthropic.models.x.floor` is wrong"),
    ("[anthropic.models.x]\nread = -0.5", "`anthropic.models.x.read` is -0.5; it must be zero or more"),
    ("[anthropic.models.x]\nread = nan", "`anthropic.models.x.read` is NaN"),
    ("[anthropic.models.x]\nwrites = { 5m = inf }", "writes.5m` is Infinity"),
    ("[anthropic.models.x]\nflags = 1", "`anthropic.models.x.flags` must be a table"),
    ("[anthropic.models.x.flags]\nthink = true", "x.flags.think`; did you mean `thinking`"),
    ("[anthropic.models.x.prices]\ninptu = 1", "x.prices.inptu`; did you mean `input`"),
    ("[anthropic.models.x.cliff]\nabove = 1\nfactor = -1", "x.cliff.factor` is -1"),
    ("[anthropic.knobs]\nttl_rise = 'no'", "`anthropic.knobs.ttl_rise`; did you mean `ttl_raise`"),
    ("[anthropic.knobs]\nttl_raise = 'maybe'", "`anthropic.knobs.ttl_raise` is wrong"),
    ("[openai.knobs]\nlookup_latest = 60", "`openai.knobs.lookup_latest` is 60; it must be 50 or 80"),
    ("[openai.models.x.knobs]\nlookup_latest = 6", "models.x.knobs.lookup_latest` is 6; it must be 50 or 80"),
    ("[anthropic.defaults]\nlookback = 'far'", "`anthropic.defaults.lookback` is wrong"),
    (
        "[anthropic.models.x]\ndefault_ttl = '1d'",
        "`anthropic.models.x.default_ttl` is '1d', which `ttls` lacks; did you mean `1h`",
    ),
    (
        "[anthropic.models.x]\nwrites = { 1d = 3 }",
        "`anthropic.models.x.writes.1d` has no TTL of that name; did you mean `1h`",
    ),
    ("[openai.models.x]\ngroup = 'breakpoint'", "x.group` is 'breakpoint'; did you mean `breakpoints`"),
    ("a = " + "[" * 3000 + "]" * 3000, "nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_file_is_refused_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HoldfastError) as refused:
        Facts.load([written(tmp_path, text)])
    assert message in str(refused.value)
    assert "mine.toml" in str(refused.value)


def test_an_undated_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="`as_of` must be a date"):
        Facts.load([written(tmp_path, "[anthropic.knobs]\nttl_raise = 'yes'\n", dated=False)])


def test_a_missing_file_names_the_nearest_shipped_set() -> None:
    with pytest.raises(HoldfastError, match=r"`seed-flors` is neither a file.*did you mean `seed-floors`"):
        Facts.load(["seed-flors"])


def test_a_file_that_is_not_text_or_not_a_file_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HoldfastError, match="not UTF-8"):
        Facts.load([binary])
    with pytest.raises(HoldfastError, match="no file of reasonable size"):
        Facts.load([tmp_path])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[anthropic.models.x]\ncliff = { above = -5, factor = 2 }", "models.x.cliff.above` is wrong"),
        ("[anthropic.models.x]\nlimits = { explicit_markers = -4 }", "models.x.limits.explicit_markers` is wrong"),
        ("[anthropic.knobs]\nimplicit_hit_probability = 7.5", "implicit_hit_probability` is wrong"),
        ('[anthropic.models.""]\nfloor = 5', "`anthropic.models` has an entry without a name"),
    ],
)
def test_a_value_no_provider_can_have_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(f"as_of = 2026-01-01\n{text}\n")
    with pytest.raises(HoldfastError, match=re.escape(said)):
        Facts.load([file])


def test_the_date_of_an_override_is_a_day(tmp_path: Path) -> None:
    file = tmp_path / "facts.toml"
    file.write_text("as_of = 2026-01-01T12:00:00Z\n[anthropic.models.claude-opus-4-1]\nfloor = 5\n")
    with pytest.raises(HoldfastError, match="`as_of` must be a date"):
        Facts.load([file])


def test_a_pipe_or_a_huge_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    huge = tmp_path / "huge.toml"
    with huge.open("wb") as file:
        file.truncate(2_000_000)
    for path in (pipe, huge, Path("/dev/zero")):
        with pytest.raises(HoldfastError, match="reasonable size"):
            Facts.load([path])
