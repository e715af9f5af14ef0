"""`holdfast models`: the table, its JSON twin, a provider nobody knows, and the facts that are configured."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import facts
from holdfast.cli.models import COLUMNS, command
from holdfast.errors import HoldfastError
from holdfast.facts import default

LISTED = f"genai-prices {metadata.version('genai-prices')}"


def run(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize(
    ("provider", "row"),
    [
        (
            "anthropic",
            "anthropic:claude-opus-5-5 512 5m 1h 0.05 5m:1.25 1h:2 4 0.2 5m:5 1h:8 20 1,000,000 explicit "
            "low,medium,high,xhigh,max 2026-11-01",
        ),
        ("llama", "llama:* 1 - *1 - ? ? ? ? *4,096 automatic - 2026-11-01"),  # careful values, and no prices
    ],
)
def test_a_row_says_what_is_known_and_as_of_when(provider: str, row: str) -> None:
    model = row.split()[0]
    assert [line.split() for line in run("--provider", provider).splitlines() if line.startswith(f"{model} ")] == [
        row.split()
    ]


def test_every_model_has_one_whole_line_in_a_pipe() -> None:
    lines = run().splitlines()
    assert lines[0].split()[:3] == ["MODEL", "FLOOR", "TTL"]
    shown = [line.split()[0] for line in lines[1 : len(default().models()) + 1]]
    assert shown == [model.ref for model in default().models()]
    assert "…" not in "".join(lines)
    assert all(column.title in lines[0] for column in COLUMNS)


def test_the_last_line_counts_and_names_the_price_version() -> None:
    assert run("--provider", "deepseek").splitlines()[-1] == (
        f"7 models of deepseek; facts as of 2026-11-01; prices: {LISTED}."
    )
    assert run("--provider", "vllm").splitlines()[-1].endswith("no prices known.")


def test_one_provider_only() -> None:
    rows = [line for line in run("--provider", "gemini").splitlines() if ":" in line.split("  ")[0]]
    assert rows
    assert all(row.startswith("gemini:") for row in rows[:-1])


def test_json_has_the_same_models_with_exact_figures() -> None:
    found = json.loads(run("--provider", "anthropic", "--json"))
    assert [row["model"] for row in found] == [model.ref for model in default().models("anthropic")]
    opus = next(row for row in found if row["model"] == "anthropic:claude-opus-5-5")
    assert list(opus) == [
        "model", "known", "floor", "granularity", "ttls", "default_ttl", "lookback", "max_markers",
        "read_multiplier", "write_multipliers", "caching", "marker", "usage", "context_limit", "output_limit",
        "efforts", "conservative", "prices_per_million", "price_version", "as_of", "source",
    ]  # fmt: skip
    assert (opus["floor"], opus["ttls"], opus["default_ttl"]) == (512, {"5m": 300, "1h": 3600}, "5m")
    assert (opus["read_multiplier"], opus["write_multipliers"]) == ("0.05", {"5m": "1.25", "1h": "2"})
    assert opus["prices_per_million"] == {
        "input": "4",
        "read": "0.2",
        "writes": {"5m": "5", "1h": "8"},
        "output": "20",
        "storage_hour": None,
    }
    assert (opus["price_version"], opus["as_of"]) == (LISTED, "2026-11-01")
    nobody = next(row for row in found if row["model"] == "anthropic:claude-mythos-5-1")
    assert nobody["prices_per_million"] is None
    assert nobody["price_version"] is None


def test_json_shows_storage_prices() -> None:
    found = json.loads(run("--provider", "gemini", "--json"))
    pro = next(row for row in found if row["model"] == "gemini:gemini-2.5-pro")
    assert pro["prices_per_million"]["storage_hour"] == "4.5"


def test_an_unknown_provider_is_refused_with_the_nearest_name() -> None:
    done = CliRunner().invoke(command, ["--provider", "opennai"])
    assert done.exit_code != 0
    assert isinstance(done.exception, HoldfastError)
    assert str(done.exception) == "no facts about provider `opennai`; did you mean `openai`?"


def test_help_has_examples() -> None:
    assert "holdfast models --provider anthropic" in run("--help")


@pytest.mark.parametrize("columns", [20, 60, 80, 100, 150, 300])
@pytest.mark.parametrize("provider", ["anthropic", "openrouter", "deepseek"])
def test_a_narrow_terminal_gets_fewer_columns_and_hears_which(
    columns: int, provider: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    command.main(["--provider", provider], standalone_mode=False)
    head, *rows = capsys.readouterr().out.splitlines()
    shown = [title for title, *_ in COLUMNS if title in head]
    left_out = " ".join(rows).partition("Left out")[2]
    assert [title for title, *_ in COLUMNS if title not in shown] == [
        t for t, *_ in COLUMNS if f"{t}," in left_out or f"{t};" in left_out
    ]
    models = [row.split()[0] for row in rows[: len(default().models(provider))]]
    assert models == [model.ref for model in default().models(provider)], "names are never cut"
    table = [head, *rows[: len(models)]]
    assert shown == ["MODEL"] or max(map(len, table)) <= columns


def floor(model: str) -> int:
    rows = json.loads(CliRunner().invoke(command, ["--provider", "anthropic", "--json"], catch_exceptions=False).output)
    return int(next(row["floor"] for row in rows if row["model"] == model))


def test_a_shipped_set_is_named(workspace: Path) -> None:
    """The floor table of the seed is one setting away."""
    assert floor("anthropic:claude-haiku-4-5") == 4096
    (workspace / "holdfast.toml").write_text('[facts]\noverrides = ["seed-floors"]\n')
    assert floor("anthropic:claude-haiku-4-5") == 2048
    assert facts.model("anthropic:claude-haiku-4-5").floor == 2048


def test_a_file_of_the_workspace_is_found(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text('[facts]\noverrides = ["mine.toml"]\n')
    override = 'as_of = 2026-11-02\nsource = "measured"\n[anthropic.models.claude-haiku-4-5]\nfloor = 3000\n'
    (workspace / "mine.toml").write_text(override)
    assert floor("anthropic:claude-haiku-4-5") == 3000


def test_a_missing_file_is_named(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text('[facts]\noverrides = ["mine.toml"]\n')
    with pytest.raises(HoldfastError, match=r"mine\.toml"):
        CliRunner().invoke(command, [], catch_exceptions=False)
