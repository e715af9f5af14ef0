"""What a usage costs: spot values, TTLs, cliffs, overrides, agreement with the price package's arithmetic."""

from __future__ import annotations

import decimal
import logging
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from importlib import metadata
from pathlib import Path

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import facts
from holdfast.facts import Facts, ModelFacts, Rates
from holdfast.records.token_usage import UNSPLIT, Usage, usage

AT = datetime(2026, 11, 15, 12, tzinfo=UTC)
MILLION = 1_000_000
LISTED = f"genai-prices {metadata.version('genai-prices')}"


def known(model: str, prompt_tokens: int = 0) -> Rates:
    found = facts.rates(model, AT, prompt_tokens)
    assert found is not None
    return found


SPOT = [
    # model, input, read, writes by TTL, output: USD per million tokens
    ("claude-opus-5-5", "4", "0.20", {"5m": "5", "1h": "8"}, "20"),
    ("claude-sonnet-5-5", "2", "0.10", {"5m": "2.50", "1h": "4"}, "10"),
    ("claude-haiku-4-5", "1", "0.10", {"5m": "1.25", "1h": "2"}, "5"),
    ("claude-opus-4-6", "5", "0.50", {"5m": "6.25", "1h": "10"}, "25"),
    ("gpt-6.1-sol", "2", "0.10", {"30m": "2.50"}, "10"),
    ("gpt-5.5", "5", "0.50", {}, "30"),
]


@pytest.mark.parametrize(("model", "base", "read", "writes", "output"), SPOT)
def test_spot_prices(model: str, base: str, read: str, writes: dict[str, str], output: str) -> None:
    found = known(model)
    assert found.input * MILLION == Decimal(base)
    assert found.read * MILLION == Decimal(read)
    assert found.output * MILLION == Decimal(output)
    for ttl, price in writes.items():
        assert found.write(ttl) * MILLION == Decimal(price)


def test_writes_of_the_older_openai_generation_are_free() -> None:
    found = known("gpt-5.5")
    assert found.write("in_memory") == found.write("24h") == found.write(UNSPLIT) == found.input


def test_a_usage_is_priced_by_ttl_exactly() -> None:
    spent = usage(input=1_000, read=200_000, output=700, writes={"5m": 3_000, "1h": 11})
    priced = facts.price(spent, "anthropic:claude-opus-5-5", at=AT)
    assert priced.cost == Decimal("0.004") + Decimal("0.04") + Decimal("0.014") + Decimal("0.015") + Decimal("0.000088")
    assert isinstance(priced.cost, Decimal)
    assert priced.price_version == LISTED
    assert (priced.input, priced.read, priced.writes, priced.output) == (1_000, 200_000, spent.writes, 700)


def test_unsplit_writes_are_priced_as_five_minutes() -> None:
    assert facts.price(usage(writes={UNSPLIT: MILLION}), "claude-opus-5-5", at=AT).cost == Decimal(5)
    assert facts.price(usage(writes={UNSPLIT: MILLION}), "gpt-6.1-terra", at=AT).cost == Decimal("2.5")


def test_an_unheard_of_ttl_is_priced_as_the_default_one() -> None:
    assert facts.price(usage(writes={"7d": 1000}), "claude-opus-5-5", at=AT).cost == Decimal("0.005")
    assert facts.price(usage(writes={"7d": 1000}), "deepseek-chat", at=AT).cost == known("deepseek-chat").input * 1000


def test_nothing_used_costs_nothing() -> None:
    assert facts.price(Usage(), "claude-opus-5-5", at=AT).cost == 0


@pytest.mark.parametrize(
    ("spent", "cost"),
    [
        (usage(read=90_000, writes={"5m": 10_000}), "0.0009 0.00125"),
        (usage(read=90_000, writes={"5m": 10_001}), "0.0045 0.006250625"),
        (usage(input=100_000, output=1_000), "0.01 0.0005"),
        (usage(input=100_001, output=1_000), "0.0500005 0.0025"),
    ],
)
def test_above_100k_prompt_tokens_haiku_5_5_costs_five_times_as_much(spent: Usage, cost: str) -> None:
    assert facts.price(spent, "claude-haiku-5-5", at=AT).cost == sum(map(Decimal, cost.split()))


def described(provider: str) -> list[ModelFacts]:
    return [model for model in facts.default().models(provider) if facts.rates(model.ref, AT)]


NOTED = [m for p in ("anthropic", "openai", "gemini") for m in described(p)]


@pytest.mark.parametrize("model", NOTED, ids=lambda model: model.ref)
def test_noted_cliffs_are_those_of_the_price_source(model: ModelFacts) -> None:
    base = known(model.ref).input
    if model.cliff is None:
        assert known(model.ref, model.context_limit).input == base
    else:
        assert known(model.ref, model.cliff.above).input == base
        assert known(model.ref, model.cliff.above + 1).input == base * model.cliff.factor


EXCEPTIONS: set[str] = set()
"""Models whose multipliers and prices are known to disagree; none at present."""


@pytest.mark.parametrize("model", NOTED, ids=lambda model: model.ref)
def test_multipliers_agree_with_the_prices(model: ModelFacts) -> None:
    assert model.name not in EXCEPTIONS
    found = known(model.ref)
    assert found.read == found.input * model.read
    for ttl, share in model.writes:
        assert found.write(ttl) == found.input * share


def test_every_anthropic_model_but_one_has_a_price() -> None:
    listed = facts.default().models("anthropic")
    assert {m.name for m in listed if facts.rates(m.ref, AT) is None} == {"claude-mythos-5-1"}


@given(
    model=st.sampled_from(["claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-5", "claude-3-haiku-20240307"]),
    plain=st.integers(0, 300_000),
    read=st.integers(0, 300_000),
    five=st.integers(0, 300_000),
    hour=st.integers(0, 300_000),
    output=st.integers(0, 300_000),
)
def test_disjoint_counts_cost_what_the_package_says_of_the_inclusive_ones(
    model: str, plain: int, read: int, five: int, hour: int, output: int
) -> None:
    theirs = genai_prices.calc_price(
        genai_prices.Usage(
            input_tokens=plain + read + five + hour,
            cache_read_tokens=read,
            cache_write_tokens=five + hour,
            cache_write_1h_tokens=hour,
            output_tokens=output,
        ),
        model,
        provider_id="anthropic",
        genai_request_timestamp=AT,
    ).total_price
    spent = usage(input=plain, read=read, output=output, writes={"5m": five, "1h": hour})
    assert facts.price(spent, model, at=AT).cost == theirs


def test_prices_are_those_of_their_day() -> None:
    spent = usage(input=MILLION)
    before = datetime(2026, 8, 1, tzinfo=UTC)
    assert facts.price(spent, "gpt-5.6-luna", at=datetime(2026, 7, 1)).cost == Decimal(2)  # noqa: DTZ001
    assert facts.price(usage(input=1000), "gpt-5.6-sol", at=before).cost == Decimal("0.005")
    assert facts.price(usage(input=1000), "gpt-5.6-sol", at=AT).cost == Decimal("0.004")
    assert facts.price(usage(input=1000), "gpt-5.6-sol").cost is not None


def test_the_callers_decimal_context_does_not_round() -> None:
    with decimal.localcontext(prec=3):
        priced = facts.price(usage(input=123_457, read=987_653), "claude-opus-5-5", at=AT)
    assert priced.cost == Decimal("0.493828") + Decimal("0.1975306")


SPELLINGS = [
    ("claude-opus-4-6", "anthropic:opus-4-6"),
    ("claude-haiku-3-5", "claude-3-5-haiku-20241022"),
    ("claude-sonnet-4-5", "claude-sonnet-4-5[1m]"),
    ("claude-sonnet-4-5", "anthropic/claude-sonnet-4.5"),
    ("gemini-3-pro", "gemini-3-pro-preview"),
    ("openrouter:anthropic/claude-sonnet-4.5", "openrouter:anthropic/claude-sonnet-4-5"),
    ("gpt-6.1-sol", "openai:openai/gpt-6.1-sol"),
]


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_spellings_of_one_model_have_one_price(one: str, other: str) -> None:
    assert known(one) == known(other)


def test_a_name_that_extends_a_known_one_does_not_inherit_its_price() -> None:
    assert facts.model("gpt-5.6-nova").known
    assert facts.rates("gpt-5.6-nova", AT) is None


def test_a_model_without_facts_may_still_have_a_price() -> None:
    found = known("claude-3-7-sonnet-latest")
    assert (found.input * MILLION, found.read * MILLION) == (Decimal(3), Decimal("0.3"))
    old = known("claude-2")
    assert old.read == old.input


def test_routes_have_their_own_prices_and_fall_back_to_the_model_behind() -> None:
    assert known("bedrock:eu.anthropic.claude-opus-5-5").input == known("claude-opus-5-5").input * Decimal("1.1")
    assert known("bedrock:global.anthropic.claude-opus-5-5").input == known("claude-opus-5-5").input
    assert known("openrouter:anthropic/claude-mythos-5").input == known("claude-mythos-5").input
    assert known("openrouter:anthropic/claude-opus-5.5").write("1h") * MILLION == Decimal(8)


def test_a_write_listed_below_the_input_price_is_a_surcharge() -> None:
    found = known("openrouter:google/gemini-3.5-flash")
    assert found.write("5m") > found.input


def test_gemini_storage_is_ours() -> None:
    assert known("gemini-2.5-pro").storage_hour == Decimal("0.0000045")
    assert known("gemini-2.5-pro").version == LISTED
    assert known("claude-opus-5-5").storage_hour is None


def test_our_own_prices_are_named_with_their_date() -> None:
    found = known("claude-mythos-5")
    assert found.version == "overrides 2026-11-01"
    assert (found.input * MILLION, found.write("1h") * MILLION) == (10, 20)


def test_override_files_change_prices(tmp_path: Path) -> None:
    path = tmp_path / "rebate.toml"
    path.write_text(
        "as_of = 2027-02-03\n[anthropic.models.claude-opus-5-5.prices]\ninput = 3.2\n"
        "[vllm.defaults.prices]\ninput = 0.5\noutput = 1\n"
    )
    own = Facts.load([path])
    priced = facts.price(usage(input=1000, output=1000), "claude-opus-5-5", at=AT, facts=own)
    assert priced.cost == Decimal("0.0032") + Decimal("0.02")
    assert priced.price_version == f"{LISTED}+overrides 2027-02-03"
    local = facts.price(usage(input=1000, read=1000), "vllm:anything", at=AT, facts=own)
    assert local.cost == Decimal("0.001")
    assert facts.price(usage(input=1000), "claude-opus-5-5", at=AT).cost == Decimal("0.004")


def test_an_unknown_price_is_left_open_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    own = Facts.load()
    with caplog.at_level(logging.WARNING, logger="holdfast.facts"):
        for name in ("claude-mythos-5-1", "anthropic:claude-mythos-5-1", "claude-mythos-5-1-20270101"):
            priced = facts.price(usage(input=5), name, at=AT, facts=own)
            assert priced.cost is None
            assert priced.price_version is None
            assert priced.input == 5
    assert len(caplog.records) == 1
    assert "claude-mythos-5-1" in caplog.messages[0]


@pytest.mark.parametrize("name", ["vllm:x", "acme:y", "openai:whisper-1", "openrouter:nobody/knows"])
def test_models_not_priced_by_the_token_have_no_rates(name: str) -> None:
    assert facts.rates(name, AT) is None


def test_what_is_listed_as_free_is_free() -> None:
    assert facts.price(usage(input=9, output=9), "openrouter:deepseek/deepseek-r1:free", at=AT).cost == 0


def test_the_price_package_is_not_imported_before_the_first_price() -> None:
    code = (
        "import sys; from holdfast import facts; facts.model('claude-opus-5-5');"
        "print(any(m in sys.modules for m in ('genai_prices', 'tiktoken', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
