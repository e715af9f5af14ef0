"""The page on the plugin shows what works: its tests pass, its message is the one that is told, its words exist."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.pytest_plugin import PrefixUnstable, Recorder, assert_prefix_stable
from holdfast.pytest_plugin.findings import DEFAULT_RATE

from .sessions import MANUAL, turn

pytest_plugins = "pytester"

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pytest.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_its_tests_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_ADDOPTS", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(**{f"test_{number}": code for number, code in enumerate(blocks("python"))})
    pytester.makepyprojecttoml(blocks("toml")[0])
    flags = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", "no:xdist")
    result = pytester.runpytest_subprocess(*flags)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["holdfast: 3 prefix checks of 7 requests, all stable"])


def test_its_message_is_the_one_that_is_told() -> None:
    """Prices may change; everything else stands there as it is."""
    requests = [turn(*"abcde"[: 2 * n + 1], system=f"{MANUAL}Now: 12:00:0{n}\nBe brief.") for n in range(3)]
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable(requests)
    shown = [line.removeprefix("E").strip() for line in blocks("text")[0].split("\n")[1:-1]]
    told = [line.strip() for line in f"holdfast.pytest_plugin.PrefixUnstable: {caught.value}".split("\n")]
    rates = facts.rates("claude-opus-5-5")
    assert rates is not None
    if rates.version not in PAGE:
        shown, told = (re.sub(r"\$[\d.,]+|prices of .*|\s", "", " ".join(lines)) for lines in (shown, told))
    assert told == shown


def test_every_argument_is_described() -> None:
    table = PAGE.split("## What is checked")[1].split("## The recorder")[0]
    described = re.findall(r"^\| `(\w+)` \| ", table, re.MULTILINE)
    assert described == list(inspect.signature(assert_prefix_stable).parameters)
    assert f'`"{DEFAULT_RATE}"` (the default)' in PAGE


def test_every_part_of_the_recorder_is_described() -> None:
    table = PAGE.split("## The recorder")[1].split("\n\n")[1]
    first = [line.split("|")[1] for line in table.split("\n")]
    named = set(re.findall(r"`(\w+)", " ".join(first)))
    public = {name for name in vars(Recorder) if not name.startswith("_")} | {"simulator", "url"}
    assert named == public - {"keep", "environment"}  # which the fixture and the transports use


def test_options_are_the_ones_there_are(pytestconfig: pytest.Config) -> None:
    for name in re.findall(r"`(holdfast_\w+)`", PAGE):
        pytestconfig.getini(name)
    assert tomllib.loads(blocks("toml")[0])


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", PAGE))))
def test_links_lead_somewhere(link: str) -> None:
    assert (DOCS / link).exists()
