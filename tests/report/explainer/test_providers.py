"""Sessions billed by simulated providers: a prefix that holds has no break, one that is rewritten once has one."""

from __future__ import annotations

import copy

import pytest
from msgspec.structs import replace

from tests.report.explainer.logs import Said, breaks, changed, explained, growing, sent, told

PROVIDERS = [
    pytest.param("anthropic", "claude-sonnet-5-5", id="anthropic"),
    pytest.param("openai_chat", "gpt-6.1-sol", id="openai with breakpoints"),
    pytest.param("openai_responses", "gpt-5.5", id="openai implicit"),
    pytest.param("openai_chat", "deepseek:deepseek-chat", id="deepseek"),
    pytest.param("openai_chat", "vllm:any", id="vllm"),
    pytest.param("openai_chat", "llama:any", id="llama"),
    pytest.param("gemini", "gemini-2.5-pro", id="gemini"),
]
TURNS = 12


def rewritten(said: list[Said], at: int) -> list[Said]:
    """The same session with its third message changed from a request on, for good."""
    return [changed(each, 2) if number >= at else each for number, each in enumerate(said, 1)]


@pytest.mark.parametrize("bodies", [True, False], ids=["bytes", "usage"])
@pytest.mark.parametrize(("dialect", "model"), PROVIDERS)
def test_a_prefix_that_holds_has_no_breaks(dialect: str, model: str, bodies: bool) -> None:
    report = explained(sent(growing(TURNS), dialect, model, bodies=bodies))
    assert report.sessions[0].usage.read > 0
    assert told(report) == []


@pytest.mark.parametrize("bodies", [True, False], ids=["bytes", "usage"])
@pytest.mark.parametrize(("dialect", "model"), PROVIDERS)
def test_a_prefix_that_is_rewritten_once_has_one(dialect: str, model: str, bodies: bool) -> None:
    report = explained(sent(rewritten(growing(TURNS), 8), dialect, model, bodies=bodies, seed=3))
    assert told(report) == [(8, "messages_rewritten")]
    found = breaks(report)[0]
    assert found.tokens_lost == found.expected - found.read > 0
    if bodies:
        assert found.evidence == "bytes"
        assert found.path is not None
        assert found.offset is not None
        assert found.before != found.after
    else:
        assert (found.evidence, found.path) == ("usage", None)


@pytest.mark.parametrize(("dialect", "model"), PROVIDERS)
def test_usage_is_worked_out_where_a_log_has_none(dialect: str, model: str) -> None:
    report = explained(sent(rewritten(growing(TURNS), 8), dialect, model, usages=False))
    session = report.sessions[0]
    assert session.estimated
    assert report.totals.estimated_sessions == 1
    assert told(report) == [(8, "messages_rewritten")]
    if model != "gemini-2.5-pro":  # where hits are left to chance what is worked out is what could be read
        true = explained(sent(rewritten(growing(TURNS), 8), dialect, model)).sessions[0].usage.read
        # engines that keep their answers read a few tokens of them, which a log of bodies does not have
        assert session.usage.read == (pytest.approx(true, rel=0.001) if ":" in model else true)


@pytest.mark.parametrize("bodies", [True, False], ids=["bytes", "usage"])
@pytest.mark.parametrize(("dialect", "model"), PROVIDERS[:3])
def test_a_pause_is_an_expiry(dialect: str, model: str, bodies: bool) -> None:
    said = growing(6)
    said[4] = replace(said[4], gap=4_000.0)
    cause = "ttl_expired_1h" if model == "gpt-6.1-sol" else "ttl_expired_5m"
    assert told(explained(sent(said, dialect, model, bodies=bodies))) == [(5, cause)]


def test_what_changes_at_the_head_is_named_by_its_bytes() -> None:
    said = growing(4)
    for number in (2, 3):
        after = copy.deepcopy(said[number].talk)
        after.system[0] = "Current time: 2026-11-15 13:05:00\n" + after.system[0]
        said[number] = replace(said[number], talk=after)
    (found,) = breaks(explained(sent(said, "anthropic", "claude-sonnet-5-5")))
    assert (found.request, found.cause, found.path) == (3, "system_prompt_changed", "system[0]")
