"""Seed cache-page: what is done to tool results that were sent, by the masker and by the stripping of schemas.

The real parts: an engine with a store, a provider that bills, and a session that renders every result in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import DeferralSettings, MaskSettings, ToolsSettings
from holdfast.records import ToolDefinition
from holdfast.tools.carriers import functions_text, loaded_text
from holdfast.tools.contract import Tool, ToolContext, ToolOutput
from holdfast.tools.masking import PLACEHOLDER
from holdfast.tools.offload import PREFIX
from holdfast.tools.toolset import ToolSet
from tests.properties.runner import begins_with
from tests.tools.masked_session import Session
from tests.tools.results import Did, did, fetched, parsed, prompt_of, texts

SMALL = MaskSettings(keep_window=6, trigger_chars=12_000, release_chars=6_000)
NAMES = ("mcp__git__log", "mcp__git__diff")
SCHEMA = b'{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}'
FOUND = Did(
    "discover_tools",
    {"query": "git"},
    functions_text([ToolDefinition(name, f"Shows the {name}. " * 40, SCHEMA) for name in NAMES]),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def masked(path: Path) -> Iterator[Session]:
    session = Session(SMALL, path=path)
    yield session
    session.close()


@pytest.fixture
def stripped(path: Path) -> Iterator[Session]:
    session = Session(MaskSettings(), strip=True, path=path)
    session.defined = NAMES
    yield session
    session.close()


def parallel(rounds: int) -> list[list[Did]]:
    """Three results to a message: an index over one's own messages is not one over the provider's."""
    return [fetched(3, 1_200, first=3 * number) for number in range(rounds)]


def cleared(session: Session) -> list[int]:
    return [n for n, text in enumerate(texts(parsed(session.sent[-1].raw))) if text.startswith(PLACEHOLDER)]


def unbroken(session: Session, first: int = 0) -> bool:
    """Whether each request from this one on begins with what was sent before, and the provider read all of that."""
    prompts = [prompt_of(parsed(prepared.raw)) for prepared in session.sent[first:]]
    read = [verdict.usage.read for verdict in session.verdicts[first:]]
    pairs = zip(prompts, prompts[1:], read[1:], strict=False)
    return all(begins_with(now, before) and tokens == before.tokens for before, now, tokens in pairs)


def test_c31_what_lies_under_the_fence_is_not_masked(masked: Session) -> None:
    for rounds in range(1, 13):
        masked.send(parallel(rounds))
        lane = masked.driver.lane
        assert masked.driver.engine.fence(lane, now=masked.driver.now) == len(prompt_of(masked.sent[-1].client).blocks)
    assert masked.masked == [()] * 12
    assert [prepared.reset for prepared in masked.sent] == [None] * 12
    assert unbroken(masked)


def test_c31_a_cold_lane_is_masked_at_once_and_stays_so(masked: Session) -> None:
    for rounds in range(1, 10):
        masked.send(parallel(rounds))
    masked.send(parallel(10), gap=4_000.0)
    assert cleared(masked) == list(range(24))
    assert [each.tool_use_id for each in masked.masked[-1]] == [f"call_{number}" for number in range(1, 25)]
    assert masked.sent[-1].reset == "priced_edit"
    for rounds in range(11, 16):
        masked.send(parallel(rounds))
    masked.restart()
    for rounds in range(16, 18):
        masked.send(parallel(rounds))
    assert cleared(masked) == list(range(24))
    assert [prepared.reset for prepared in masked.sent[10:]] == [None] * 7
    assert unbroken(masked, 9)


def test_c31_under_the_fence_it_is_masked_only_where_that_pays(masked: Session) -> None:
    for rounds in range(1, 31):
        masked.send(parallel(rounds))
    made = [p.edits for p in masked.sent if p.edits is not None and p.edits.made]
    assert made
    assert all(edits.payback is not None and edits.payback < 40 for edits in made)
    without = Session(MaskSettings(enabled=False))
    for rounds in range(1, 31):
        without.send(parallel(rounds))
    assert masked.dollars < without.dollars


def test_c32_schemas_under_the_fence_are_not_shortened(stripped: Session) -> None:
    turns = [did(page=1), FOUND]  # the last one is new: the model has yet to read it
    for count in range(8):
        stripped.send([*turns, *fetched(count, 800, first=2)])
    assert stripped.masked == [()] * 8
    assert FOUND.said in texts(parsed(stripped.sent[-1].raw))
    assert unbroken(stripped)


def test_c18_schemas_are_shortened_when_the_lane_is_cold_and_stay_so(stripped: Session) -> None:
    turns = [did(page=1), FOUND]
    stripped.send(turns)
    for count, gap in ((1, 4_000.0), (2, 10.0), (3, 10.0)):
        stripped.send([*turns, *fetched(count, 800, first=9)], gap=gap)
        said = texts(parsed(stripped.sent[-1].raw))
        assert said[1] == "[Discovery loaded: 2 tool(s) are now callable]\n- mcp__git__log\n- mcp__git__diff"
        assert said[0] == turns[0].said
    assert [len(masked) for masked in stripped.masked] == [0, 1, 0, 0]
    assert unbroken(stripped, 1)


async def _run(input: Any, context: ToolContext) -> ToolOutput:
    return ToolOutput()


@pytest.mark.parametrize("strip", ["at_once", "when_cold"])
def test_c18_by_default_the_result_is_stored_short_the_first_time(strip: Any) -> None:
    tools = [Tool(name=name, description="d", run=_run, effect="read", source="mcp", server="git") for name in NAMES]
    owner = ToolSet(
        tools,
        settings=ToolsSettings(deferral=DeferralSettings(mode="always", carrier="redeclare", strip=strip)),
        model="anthropic:claude-sonnet-5-5",
        dialect="anthropic",
    )
    (said,) = [getattr(block, "text", "") for block in owner.discover(owner.findable()).blocks]
    assert DeferralSettings().strip == "at_once"
    assert (said == loaded_text([tool.name for tool in owner.findable()])) == (strip == "at_once")
    assert said.startswith("<functions>") == (strip == "when_cold")


def test_c43_references_to_offloaded_results_stay(masked: Session) -> None:
    reference = Did("fetch", {"page": 0}, PREFIX + "fetch, 90000 characters, results/1.txt]\n" + "head " * 400)
    for count in range(8, 10):
        masked.send([*fetched(6, 1_200, first=20), reference, *fetched(count, 1_200, first=1)], gap=4_000.0)
    said = texts(parsed(masked.sent[-1].raw))
    assert said[6] == reference.said
    assert all(text.startswith(PLACEHOLDER) for text in said[:6])


@pytest.mark.parametrize(
    "left", [loaded_text(NAMES), "No tool was found for 'git'. " * 20], ids=["short", "no schemas"]
)
def test_c63_short_forms_and_results_without_schemas_stay(stripped: Session, left: str) -> None:
    for count in range(3):
        stripped.send([Did("discover_tools", {"query": "git"}, left), *fetched(count)], gap=4_000.0)
        assert texts(parsed(stripped.sent[-1].raw))[0] == left
    assert stripped.asked == [0, 0, 0]


def test_c63_the_fence_is_respected(stripped: Session) -> None:
    """The lane is warm, then cold: the same result is left alone, then shortened."""
    for count in range(3):
        stripped.send([FOUND, *fetched(count, 800)])
        assert texts(parsed(stripped.sent[-1].raw))[0] == FOUND.said
    stripped.send([FOUND, *fetched(3, 800)], gap=4_000.0)
    assert texts(parsed(stripped.sent[-1].raw))[0] == loaded_text(NAMES)
