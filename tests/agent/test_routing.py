"""Which model a turn goes to, who asked for it, what a change costs, and who takes over."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.agent.mentions import known_models, parse_mention
from holdfast.agent.model_call import falls_back, retry_after, retryable
from holdfast.agent.routing import (
    Conditions,
    ConfiguredModels,
    Gate,
    ModelRoute,
    capabilities,
    configured,
    fallback,
    route,
)
from holdfast.config import load
from holdfast.errors import HoldfastError

HAIKU, SONNET, SOL, PRO = (
    "anthropic:claude-haiku-4-5",
    "anthropic:claude-sonnet-5-5",
    "openai:gpt-6.1-sol",
    "openai:gpt-5.5-pro",
)
SMALL, TEXT_ONLY = "openai:gpt-4o", "deepseek:deepseek-chat"
AT = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "model", "left"),
    [
        ("@haiku-4-5 what is this?", HAIKU, "what is this?"),
        ("@anthropic:claude-haiku-4-5 what?", HAIKU, "what?"),
        ("@Claude-Haiku-4.5, what?", HAIKU, "what?"),
        ("@claude-haiku-4-5-20251001 what?", "anthropic:claude-haiku-4-5-20251001", "what?"),
        ("  @haiku-4-5\n    indented\nlines", HAIKU, "    indented\nlines"),
        ("@sonnet-5 x", "anthropic:claude-sonnet-5", "x"),
        ("@gpt-5.6: x", "openai:gpt-5.6", "x"),
        ("@openrouter:anthropic/claude-haiku-4-5 x", "openrouter:anthropic/claude-haiku-4-5", "x"),
        ("@openrouter:haiku-4-5 x", "openrouter:anthropic/claude-haiku-4-5", "x"),
    ],
)
def test_a_model_at_the_beginning_is_taken_out_of_the_text(said: str, model: str, left: str) -> None:
    found = parse_mention(said, known_models())
    assert (found.model, found.text, found.notice) == (model, left, "")
    assert facts.model(model).known


@pytest.mark.parametrize("said", ["a@haiku-4-5 x", "ask @haiku-4-5", "@ x", "@", "", "me@example.org hello"])
def test_elsewhere_an_at_sign_is_nothing_special(said: str) -> None:
    assert parse_mention(said, known_models()) == parse_mention(said, ())
    assert parse_mention(said, known_models()).text == said


@pytest.mark.parametrize("said", ["@src/main.py what?", "@README.md", "@./x y", "@~/x y", "@docs/gpt-5.6 x"])
def test_a_path_stays_without_a_word(said: str) -> None:
    found = parse_mention(said, known_models())
    assert (found.model, found.text, found.notice) == (None, said, "")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("@somebody hello", "names no model that is known"),
        ("@anthropic:claude-of-tomorrow x", "names no model that is known"),
        ("@haiku x", "may be one of anthropic:claude-haiku-5-5, "),
        ("@haiku-4-5", "was asked nothing"),
    ],
)
def test_what_names_no_model_or_several_stays_and_is_told(said: str, why: str) -> None:
    found = parse_mention(said, known_models())
    assert (found.model, found.text) == (None, said)
    assert why in found.notice


def test_of_several_the_configured_one_is_meant() -> None:
    assert parse_mention("@haiku x", known_models(), [HAIKU]).model == HAIKU
    assert parse_mention("@haiku x", known_models(), [HAIKU, "anthropic:claude-haiku-5-5"]).model is None
    assert parse_mention("@mine x", known_models(), ["vllm:mine"]).model == "vllm:mine"


SETTINGS = ConfiguredModels(model=SONNET, source="workspace", fallback=(SOL,))


def test_the_message_wins_over_the_session_and_the_session_over_the_file() -> None:
    by_message = route("@haiku-4-5 go", configured=SETTINGS, session=SOL)
    assert (by_message.model, by_message.source, by_message.text) == (HAIKU, "message", "go")
    by_session = route("go", configured=SETTINGS, session=SOL)
    assert (by_session.model, by_session.source) == (SOL, "session")
    by_file = route("go", configured=SETTINGS)
    assert (by_file.model, by_file.source) == (SONNET, "workspace")
    by_chain = route("go", configured=ConfiguredModels(fallback=(SOL, HAIKU)))
    assert (by_chain.model, by_chain.source) == (SOL, "fallback")
    with pytest.raises(HoldfastError, match=r"set agent\.model"):
        route("go", configured=ConfiguredModels())


@pytest.mark.parametrize(
    ("home", "workspace", "environ", "flags", "source"),
    [
        (SONNET, HAIKU, {}, {}, "workspace"),
        (HAIKU, None, {}, {}, "global"),
        (None, HAIKU, {}, {}, "workspace"),
        (SONNET, SONNET, {"HOLDFAST_AGENT_MODEL": HAIKU}, {}, "environment"),
        (SONNET, SONNET, {}, {"agent.model": HAIKU}, "flag"),
    ],
)
def test_the_file_that_named_the_model_is_known(
    tmp_path: Path,
    home: str | None,
    workspace: str | None,
    environ: dict[str, str],
    flags: dict[str, object],
    source: str,
) -> None:
    for name, model in (("home", home), ("workspace", workspace)):
        (tmp_path / name).mkdir()
        if model is not None:
            (tmp_path / name / "holdfast.toml").write_text(f'[agent]\nmodel = "{model}"\nfallback = ["{SOL}"]\n')
    config = load(
        workspace=tmp_path / "workspace", home=tmp_path / "home", environ=environ | {"HOME": str(tmp_path)}, flags=flags
    )
    found = configured(config)
    assert (found.model, found.source, found.fallback) == (HAIKU, source, (SOL,))


def test_an_agents_own_block_counts_for_it_alone(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[agent]\nmodel = "{SONNET}"\n[agents.helper.agent]\nmodel = "{HAIKU}"\n')
    config = load(workspace=None, home=tmp_path, environ={"HOME": str(tmp_path)})
    assert configured(config, "helper") == ConfiguredModels(model=HAIKU, source="global")
    assert configured(config) == ConfiguredModels(model=SONNET, source="global")


def test_a_change_has_a_price_and_staying_has_none() -> None:
    conditions = Conditions(tokens=100_000, at=AT)
    stays = route("go", configured=SETTINGS, before=SONNET, conditions=conditions)
    assert (stays.cold_tokens, stays.cold_cost, stays.changed, stays.notice) == (0, 0, False, "")
    changes = route("@haiku-4-5 go", configured=SETTINGS, before=SONNET, conditions=conditions)
    price = facts.rates(HAIKU, AT, 100_000)
    assert changes.changed
    assert (changes.cold_tokens, changes.cold_cost) == (100_000, 100_000 * price.input * Decimal("1.25"))
    assert "100,000 tokens are not cached there and are sent anew for $0.1250 to $0.2000" in changes.notice


def test_below_the_floor_nothing_is_written() -> None:
    short = route("@haiku-4-5 go", configured=SETTINGS, before=SONNET, conditions=Conditions(tokens=2_000, at=AT))
    assert short.cold_cost == Decimal("0.002")
    assert "sent anew for $0.0020." in short.notice


def test_what_is_warm_at_the_other_model_is_not_paid_again() -> None:
    warm = {HAIKU: 90_000, SOL: 200_000}
    conditions = Conditions(tokens=100_000, warm=lambda model: warm.get(model, 0), at=AT)
    back = route("go", configured=SETTINGS, session=HAIKU, before=SONNET, conditions=conditions)
    assert (back.cold_tokens, back.cold_cost) == (10_000, Decimal("0.0125"))
    longer = route("go", configured=SETTINGS, session=SOL, before=SONNET, conditions=conditions)
    assert (longer.cold_tokens, longer.cold_cost) == (0, 0)


def test_a_model_that_cannot_take_the_conversation_is_passed_over_with_the_reason() -> None:
    long = route(f"@{SMALL} go", configured=SETTINGS, before=SONNET, conditions=Conditions(tokens=500_000))
    assert (long.model, long.source, long.text) == (SONNET, "workspace", "go")
    assert [model for model, _ in long.passed_over] == [SMALL]
    assert "holds 128,000 tokens, the conversation has 500,000" in long.notice
    seeing = route("go", configured=SETTINGS, session=TEXT_ONLY, conditions=Conditions(images=True))
    assert seeing.model == SONNET
    assert dict(seeing.passed_over)[TEXT_ONLY].startswith("cannot see images; a switch: 0 tokens")


def test_the_model_in_use_is_compacted_not_left_when_the_conversation_outgrows_it() -> None:
    found = route("go", configured=SETTINGS, session=SMALL, before=SMALL, conditions=Conditions(tokens=500_000))
    assert (found.model, found.passed_over) == (SMALL, ())


def test_where_none_can_take_it_the_first_is_asked() -> None:
    found = route(
        "go", configured=ConfiguredModels(model=SMALL, fallback=(TEXT_ONLY,)), conditions=Conditions(tokens=5_000_000)
    )
    assert found.model == SMALL
    assert [model for model, _ in found.passed_over] == [TEXT_ONLY]


def test_what_nobody_knows_is_no_reason_to_refuse_a_model() -> None:
    found = route("go", configured=SETTINGS, session="vllm:mine", conditions=Conditions(tokens=50_000))
    assert (found.model, found.cold_cost) == ("vllm:mine", None)
    assert (
        route("go", configured=SETTINGS, session="corp:x", conditions=Conditions(tokens=9_000, images=True)).model
        == "corp:x"
    )


def chosen(found: ModelRoute | None) -> ModelRoute:
    assert found is not None
    return found


def test_the_chain_goes_on_in_order_and_ends() -> None:
    chain = (SONNET, HAIKU, SOL)
    first = chosen(fallback(chain, after=SONNET, why="429"))
    assert (first.model, first.source, first.before) == (HAIKU, "fallback", SONNET)
    assert first.passed_over[0] == (SONNET, "429")
    assert first.passed_over[1][0] == SOL
    assert "stands later in the chain" in first.passed_over[1][1]
    assert first.notice.startswith(f"{SONNET} did not answer: 429. {HAIKU} answers now: ")
    assert SOL not in first.notice
    second = chosen(fallback(chain, after=HAIKU, why="500", tried={SONNET}))
    assert second.model == SOL
    assert fallback(chain, after=SOL, why="500", tried={SONNET, HAIKU}) is None
    assert chosen(fallback(chain, after="vllm:mine", why="unreachable")).model == SONNET


def test_a_fallback_is_priced_for_every_candidate() -> None:
    found = chosen(fallback((HAIKU, SOL), after=SONNET, why="503", conditions=Conditions(tokens=10_000, at=AT)))
    assert (found.cold_tokens, found.cold_cost) == (10_000, Decimal("0.0125"))
    other = facts.rates(SOL, AT, 10_000)
    assert f"a switch: 10,000 tokens, ${10_000 * other.write():.4f}" in dict(found.passed_over)[SOL]


def test_a_fallback_passes_over_what_lacks_a_capability() -> None:
    found = chosen(fallback((TEXT_ONLY, SMALL, HAIKU), after=SONNET, why="503", conditions=Conditions(tokens=150_000)))
    assert found.model == HAIKU
    assert [why.partition(";")[0] for _, why in found.passed_over[1:]] == [
        "holds 64,000 tokens, the conversation has 150,000",
        "holds 128,000 tokens, the conversation has 150,000",
    ]
    assert fallback((TEXT_ONLY,), after=SONNET, why="503", conditions=Conditions(images=True)) is None


def test_openrouter_counts_as_caching_once_a_read_was_seen() -> None:
    routed = "openrouter:anthropic/claude-haiku-4-5"
    assert not capabilities(routed).supports_prompt_caching
    assert capabilities(routed, Gate(seen=frozenset((routed,)))).supports_prompt_caching
    assert not capabilities(routed, Gate(openrouter="never", seen=frozenset((routed,)))).supports_prompt_caching
    assert chosen(fallback((routed, SOL), after=SONNET, why="503")).model == SOL
    seen = Gate(seen=frozenset((routed,)))
    assert chosen(fallback((routed, SOL), after=SONNET, why="503", conditions=Conditions(gate=seen))).model == routed


def test_a_decision_fits_into_its_event() -> None:
    long = "vllm:" + "x" * 400
    found = chosen(fallback((long, HAIKU), after=SONNET, why="y" * 400, conditions=Conditions(tokens=100)))
    event = found.event()
    assert event.model == long[:256]
    assert (event.source, event.before, event.cold_tokens) == ("fallback", SONNET, 100)
    assert all(len(part) <= 256 for pair in event.passed_over for part in pair)


@pytest.mark.parametrize(
    ("status", "again", "elsewhere"),
    [
        (None, True, True),
        (0, True, True),
        (429, True, True),
        (500, True, True),
        (529, True, True),
        (599, True, True),
        (408, True, True),
        (401, False, True),
        (403, False, True),
        (404, False, True),
        (400, False, False),
        (413, False, False),
        (422, False, False),
        (600, False, False),
    ],
)
def test_what_is_sent_again_and_what_goes_elsewhere(status: int | None, again: bool, elsewhere: bool) -> None:
    assert (retryable(status), falls_back(status)) == (again, elsewhere)


def test_the_service_may_say_whether_to_send_again() -> None:
    assert not retryable(429, {"x-should-retry": "false"})
    assert retryable(400, {"x-should-retry": "true"})


NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("headers", "attempt", "seconds"),
    [
        ({}, 0, 0.5),
        ({}, 1, 1.0),
        ({}, 3, 4.0),
        ({}, 9, 60.0),
        ({}, 5000, 60.0),
        ({"retry-after": "7"}, 0, 7.0),
        ({"retry-after": "1.5"}, 4, 1.5),
        ({"retry-after": "3600"}, 0, 60.0),
        ({"retry-after": "-3"}, 0, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0, 0.25),
        ({"retry-after": "Fri, 01 May 2026 12:00:09 GMT"}, 0, 9.0),
        ({"retry-after": "Fri, 01 May 2026 11:00:00 GMT"}, 0, 0.0),
        ({"retry-after": "soon"}, 1, 1.0),
        ({"retry-after": "nan"}, 1, 1.0),
        ({"retry-after": "inf"}, 1, 60.0),
        ({"retry-after": ""}, 2, 2.0),
    ],
)
def test_the_pause_is_what_the_service_says_else_doubles(headers: dict[str, str], attempt: int, seconds: float) -> None:
    assert retry_after(headers, attempt, now=NOW) == seconds
