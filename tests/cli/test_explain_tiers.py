"""`holdfast explain --tier`: requests whose log does not say their service tier, at the prices of the one named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.explain.command import command
from holdfast.facts import tiers
from holdfast.report.explainer.prices import DatedPrices
from tests.cli.commands import invoke, piped
from tests.cli.shape_logs import log, report

DATED = 1_790_000_000.0  # before the price list has tiers: their first prices count


def body(number: int, model: str, usage: dict[str, Any], **response: Any) -> str:
    """A line of a log of request bodies."""
    messages = [{"role": "user", "content": f"question {each} " + "word " * 3_000} for each in range(number + 1)]
    asked = {"model": model, "max_tokens": 9, "messages": messages}
    answer = {"usage": usage, **response}
    return json.dumps({"session": "s", "timestamp": DATED + 10 * number, "request": asked, "response": answer})


def bodies(place: Path, **usage: Any) -> Path:
    used = {"input_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 4_000, "output_tokens": 50}
    file = place / "bodies.jsonl"
    file.write_text("\n".join(body(each, "claude-opus-4-6", used | usage) for each in range(2)) + "\n")
    return file


def cost(*arguments: str) -> Decimal:
    return Decimal(str(report(*arguments)["totals"]["cost_usd"]))


def test_batch_is_half_of_the_standard_price(tmp_path: Path) -> None:
    path = str(log(tmp_path / "a.jsonl"))
    assert cost(path, "--tier", "batch") == cost(path) / 2
    found, plain = report(path, "--tier", "batch"), report(path)
    assert (found["tier"], found["tier_unlisted"], found["prices"]) == ("batch", [], f"{plain['prices']}, batch")
    said = "Requests whose log does not say their service tier are at the prices of batch."
    assert said in piped(command, path, "--tier", "batch")
    assert said not in piped(command, path)
    assert (plain["tier"], found["totals"]["breaks"]) == ("", plain["totals"]["breaks"])
    assert Decimal(str(found["totals"]["break_cost_usd"])) == Decimal(str(plain["totals"]["break_cost_usd"])) / 2


def test_a_log_that_says_its_tier_is_believed(tmp_path: Path) -> None:
    plain = cost(str(bodies(tmp_path)))
    assert cost(str(bodies(tmp_path, service_tier="batch"))) == plain / 2
    assert cost(str(bodies(tmp_path, service_tier="standard")), "--tier", "batch") == plain
    assert cost(str(bodies(tmp_path)), "--tier", "batch") == plain / 2


def test_openais_tier_stands_in_the_response(tmp_path: Path) -> None:
    used = {"prompt_tokens": 4_000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 0}}
    file = tmp_path / "openai.jsonl"
    costs = {}
    for tier in ("default", "priority", "flex"):
        file.write_text(body(0, "gpt-5.5", used, choices=[], service_tier=tier) + "\n")
        costs[tier] = cost(str(file))
    assert costs["flex"] < costs["default"] < costs["priority"]


def test_auto_names_no_tier(tmp_path: Path) -> None:
    plain = cost(str(bodies(tmp_path)))
    assert cost(str(bodies(tmp_path, service_tier="auto"))) == plain
    assert cost(str(bodies(tmp_path, service_tier="auto")), "--tier", "batch") == plain / 2
    asked, standard = DatedPrices("batch").rates("anthropic:claude-opus-4-6", DATED, 100, "auto"), DatedPrices()
    assert asked == DatedPrices("batch").rates("anthropic:claude-opus-4-6", DATED, 100)
    assert asked != standard.rates("anthropic:claude-opus-4-6", DATED, 100, "auto")


def test_the_tier_of_the_answer_counts_where_the_request_said_auto(tmp_path: Path) -> None:
    used = {"prompt_tokens": 4_000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 0}}
    file, costs = tmp_path / "openai.jsonl", {}
    for asked, billed in (("auto", "flex"), ("auto", "default"), ("flex", "flex")):
        line = json.loads(body(0, "gpt-5.5", used, choices=[], service_tier=billed)) | {"service_tier": asked}
        file.write_text(json.dumps(line) + "\n")
        costs[asked, billed] = cost(str(file), "--tier", "batch")
    assert costs["auto", "flex"] == costs["flex", "flex"] < costs["auto", "default"]


def test_a_transcript_of_claude_code_says_it(tmp_path: Path) -> None:
    used = {"input_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 4_000, "output_tokens": 50}
    costs = {}
    for tier in ("standard", "batch"):
        message = {"id": "m", "model": "claude-opus-4-6", "usage": used | {"service_tier": tier}, "content": []}
        line = {
            "type": "assistant",
            "version": "2.1.325",
            "cwd": "/w",
            "isSidechain": False,
            "sessionId": "s",
            "uuid": "u",
            "requestId": "r",
            "message": message,
        }
        file = tmp_path / "t.jsonl"
        user = line | {"type": "user", "uuid": "v", "message": {"role": "user", "content": "Hello."}}
        at = {"timestamp": "2026-10-20T10:00:00Z", "parentUuid": None}
        file.write_text("".join(json.dumps(each | at) + "\n" for each in (user, line)))
        costs[tier] = cost(str(file), "--tier", "batch")
    assert costs["batch"] == costs["standard"] / 2


def test_a_tier_without_a_price_for_the_model_is_said_and_priced_as_standard(tmp_path: Path) -> None:
    path = str(log(tmp_path / "a.jsonl"))
    assert cost(path, "--tier", "priority") == cost(path)
    assert report(path, "--tier", "priority")["tier_unlisted"] == ["anthropic:claude-opus-4-6"]
    told = invoke(command, path, "--tier", "priority").stderr
    assert "no price of the tier priority is known for anthropic:claude-opus-4-6: standard prices stand in" in told


def test_a_wrong_tier_is_one_sentence(tmp_path: Path) -> None:
    done = invoke(command, str(log(tmp_path / "a.jsonl")), "--tier", "cheap")
    assert done.exit_code == 2
    assert "'cheap' is not one of 'batch', 'flex', 'priority'" in done.output


def test_the_help_names_it_with_an_example() -> None:
    text = piped(command, "--help")
    assert "--tier" in text
    assert "holdfast explain nightly.jsonl --tier batch" in text


@pytest.mark.parametrize("model", ["anthropic:claude-opus-4-6", "openai:gpt-5.5", "gemini:gemini-2.5-flash"])
def test_batches_of_the_big_providers_cost_half(model: str) -> None:
    prices = DatedPrices("batch")
    found, plain = prices.rates(model, DATED, 100), DatedPrices().rates(model, DATED, 100)
    assert (found.input, found.output) == (plain.input / 2, plain.output / 2)
    assert not prices.unlisted


def test_who_asks_for_no_tier_gets_the_same_prices_as_before() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    assert tiers("openai:gpt-5.5", at) == tiers("openai:gpt-5.5", at, service="")
