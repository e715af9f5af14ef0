"""A gate for CI: `pytest examples/ci_gate` passes for the stable prompt and fails for the one with a clock.

The pytest plugin is found by itself where Holdfast is installed. No key and no network: the fixture is the provider.
"""

from __future__ import annotations

from agent import converse, stable, with_a_clock

from holdfast.pytest_plugin import Recorder

QUESTIONS = ("How is the weather?", "And tomorrow?", "Thank you.")


def test_stable(prefix_recorder: Recorder) -> None:
    converse(stable, QUESTIONS)
    prefix_recorder.assert_stable(rate="200 sessions/day")


def test_with_a_clock(prefix_recorder: Recorder) -> None:
    converse(with_a_clock, QUESTIONS)
    prefix_recorder.assert_stable(rate="200 sessions/day")  # fails: says where, why, the cure and the price
