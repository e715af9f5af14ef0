"""Which tools are left out of a request: modes, budget, pins."""

from __future__ import annotations

import pytest

from holdfast.config.sections.agent import DeferralSettings
from holdfast.facts import model
from holdfast.tools.carriers import definition_of
from holdfast.tools.contract import Tool
from holdfast.tools.deferral import DeferralPolicy, deferred, pinned, size_of
from tests.tools.toolsets import CORE, MODELS, tool, toolset

OTHERS = tuple(tool(name) for name in ("alpha", "beta", "gamma"))
TOKENS = {"read_file": 100, "grep_files": 100, "run_command": 100, "alpha": 300, "beta": 200, "gamma": 100}


def left_out(
    tools: tuple[Tool, ...] = (*CORE, *OTHERS),
    *,
    limit: int = 10_000,
    uses: dict[str, int] | None = None,
    keep: tuple[str, ...] = (),
    out: tuple[str, ...] = (),
    **settings: object,
) -> set[str]:
    chosen = DeferralSettings(**settings)  # type: ignore[arg-type]
    policy = DeferralPolicy(settings=chosen, context_limit=limit, uses=uses or {}, keep=keep, out=out)
    return set(deferred(tools, policy, TOKENS))


def test_c54_auto_is_the_default_mode() -> None:
    assert DeferralSettings().mode == "auto"
    assert DeferralSettings().budget == 0.1


def test_c55_auto_defers_nothing_within_the_budget() -> None:
    assert left_out(limit=9_000) == set()  # 900 tokens are exactly a tenth


def test_c55_auto_defers_the_largest_first_and_only_as_many_as_needed() -> None:
    assert left_out(limit=8_990) == {"alpha"}
    assert left_out(limit=6_000) == {"alpha"}
    assert left_out(limit=5_990) == {"alpha", "beta"}
    assert left_out(limit=100) == {"alpha", "beta", "gamma"}, "core tools stay, whatever they cost"


def test_c55_auto_defers_the_least_used_first() -> None:
    assert left_out(limit=8_990, uses={"alpha": 1}) == {"beta"}, "300 tokens for two are less than 200 for one"
    assert left_out(limit=8_990, uses={"alpha": 1, "beta": 1}) == {"alpha"}


def test_c55_ties_are_decided_by_name() -> None:
    same = dict.fromkeys(("beta", "alpha", "gamma"), 100)
    for tools in (OTHERS, OTHERS[::-1]):
        assert deferred(tools, DeferralPolicy(settings=DeferralSettings(), context_limit=2_500), same) == {"alpha"}


def test_c56_always_defers_everything_but_core() -> None:
    assert left_out(mode="always") == {"alpha", "beta", "gamma"}


def test_never_defers_nothing() -> None:
    assert left_out(mode="never", limit=1) == set()


@pytest.mark.parametrize("mode", ["auto", "always", "never"])
def test_c57_pins_win_in_every_mode(mode: str) -> None:
    found = left_out(mode=mode, limit=1, never=("alpha",), always=("beta",))
    assert "alpha" not in found
    assert "beta" in found
    assert "run_command" in left_out(mode=mode, always=("run_command",)), "also for core tools, by name"


def test_c89_pins_may_be_patterns_for_the_tools_of_a_server() -> None:
    tools = (tool("mcp__github__search"), tool("mcp__github__delete"), tool("mcp__jira__search"))
    settings = DeferralSettings(mode="always", never=("mcp__github__*",))
    assert deferred(tools, DeferralPolicy(settings=settings, context_limit=1), {}) == {"mcp__jira__search"}


def test_a_name_counts_before_a_pattern_and_then_never_before_always() -> None:
    settings = DeferralSettings(never=("mcp__github__*", "both"), always=("mcp__github__delete", "both", "mcp__*"))
    assert pinned("mcp__github__delete", settings) == "always"
    assert pinned("mcp__github__search", settings) == "never"
    assert pinned("mcp__jira__search", settings) == "always"
    assert pinned("both", settings) == "never"
    assert pinned("other", settings) is None


def test_what_leads_to_the_others_is_never_deferred() -> None:
    settings = DeferralSettings(mode="always", always=("*", "discover_tools", "call_tool"))
    assert pinned("discover_tools", settings) == pinned("call_tool", settings) == "never"


def test_what_proved_useful_goes_last_and_what_did_not_goes_first() -> None:
    assert left_out(limit=8_990, keep=("alpha",)) == {"beta"}
    assert left_out(limit=100, keep=("alpha",)) == {"alpha", "beta", "gamma"}, "the budget holds all the same"
    assert left_out(mode="always", keep=("alpha",)) == {"beta", "gamma"}
    assert left_out(out=("gamma",)) == {"gamma"}
    assert left_out(out=("gamma",), never=("gamma",)) == set()


def test_c55_the_budget_is_a_share_of_the_models_context_window() -> None:
    tools = [tool(f"tool_{n:02}", words=200) for n in range(60)]
    limit = model(MODELS["anthropic"]).context_limit
    sizes = sum(size_of(definition_of(each)) for each in tools)
    assert 200 * 60 < sizes < 0.1 * limit
    assert toolset(tools).deferred == ()
    share = sizes * 0.5 / limit
    under = toolset(tools, budget=share)
    declared = sum(size_of(each) for each in under.definitions() if each.name in under.declared)  # type: ignore[union-attr]
    assert sizes * 0.45 < declared <= sizes * 0.5
    assert len(under.deferred) + len(under.declared) == 60 + 1  # and discover_tools
