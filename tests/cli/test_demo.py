"""`holdfast demo` computes what it shows."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from click.testing import CliRunner

from holdfast.cli.demo import PERSONA, command, session
from holdfast.errors import HoldfastError
from holdfast.wire import DIALECTS


def test_a_stable_prefix_is_cheaper_and_the_break_is_located() -> None:
    result = CliRunner().invoke(command, ["--turns", "6"], catch_exceptions=False)
    careful, clock = (line for line in result.output.splitlines() if "$" in line and "%" in line)
    prices = {name: [float(x) for x in re.findall(r"\$([\d.]+)", row)] for name, row in (("a", careful), ("b", clock))}
    assert prices["a"][1] < prices["b"][1]
    assert "system[0]" in clock
    assert "every request extends the last" in careful


def test_more_turns_share_more() -> None:
    shares = []
    for turns in ("4", "12"):
        output = CliRunner().invoke(command, ["--turns", turns], catch_exceptions=False).output
        shares.append(float(re.findall(r"([\d.]+)%", output)[0]))
    assert shares[0] < shares[1]


def test_the_session_only_grows() -> None:
    bodies = [DIALECTS["anthropic"].encode(request) for request in session(5, lambda turn: PERSONA)]
    for before, after in pairwise(bodies):
        assert after.startswith(before[: before.rindex(b"]}")])


@pytest.mark.parametrize("model", ["openai:gpt-5.5", "anthropic:claude-mythos-5-1"])
def test_a_model_without_prices_here_is_refused(model: str) -> None:
    with pytest.raises(HoldfastError, match="holdfast models"):
        CliRunner().invoke(command, ["--model", model], catch_exceptions=False)
