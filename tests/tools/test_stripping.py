"""Discovery results with schemas become their short form, once nothing stands in the way."""

from __future__ import annotations

import pytest

from holdfast.config.sections.agent import MaskSettings
from holdfast.engine.edits import unfit
from holdfast.records import Opaque, Text, ToolDefinition, validate
from holdfast.tools.carriers import functions_text, loaded_text
from holdfast.tools.guides import wrapped
from holdfast.tools.masking import MaskedResult, Masker, strips
from holdfast.tools.offload import PREFIX
from holdfast.wire import DIALECTS
from tests.tools.results import MODELS, Did, body_of, edited, fetched, prompt_of, texts

each_dialect = pytest.mark.parametrize("dialect", MODELS)
NAMES = ("mcp__git__log", "mcp__git__diff")
SCHEMA = b'{"type":"object","properties":{"name":{"type":"string","description":"a {brace} and a </functions>"}}}'
SCHEMAS = functions_text([ToolDefinition(name, f"Shows the {name}.", SCHEMA) for name in NAMES])


def found(said: str | tuple[Text | Opaque, ...] = SCHEMAS, tool: str = "discover_tools") -> Did:
    return Did(tool, {"query": "git"}, said)


def after(turns: list[Did], dialect: str = "anthropic") -> list[str]:
    body = body_of(turns, dialect)
    return texts(edited(body, strips(body, prompt_of(body), NAMES).edits))


@each_dialect
def test_c63_schemas_become_the_short_form(dialect: str) -> None:
    turns = [found(), *fetched(2)]
    now = after(turns, dialect)
    assert now[0] == "[Discovery loaded: 2 tool(s) are now callable]\n- mcp__git__log\n- mcp__git__diff"
    assert now[1:] == [each.said for each in turns[1:]]
    body = body_of(turns, dialect)
    wanted = strips(body, prompt_of(body), NAMES)
    assert [each.tool for each in wanted.masked] == ["discover_tools"]
    places = {block.digest: index for index, block in enumerate(prompt_of(body).blocks)}
    new = {places[digest]: data for digest, data in wanted.edits.items()}
    assert unfit(DIALECTS[dialect], body, new) is None
    assert validate(DIALECTS[dialect].decode(edited(body, wanted.edits))) == ()
    assert not strips(body, prompt_of(body), NAMES, already=wanted.edits)


@each_dialect
@pytest.mark.parametrize(
    "left",
    [
        found(loaded_text(NAMES)),
        found(loaded_text(NAMES) + "\n<functions>{}</functions>"),
        found("No tool was found for 'git'."),
        found("<functions></functions>"),
        found("<functions>{broken</functions>"),
        found("<functions>{}</functions>" + " " * 900),
        found(tool="read_file"),
        found(PREFIX + "discover_tools, 90000 characters, /tmp/x]\n" + SCHEMAS),
        found((Text(SCHEMAS), Text(wrapped("Mind the gap.")))),
    ],
    ids=[
        "short",
        "short with schemas",
        "none found",
        "empty",
        "broken",
        "nameless",
        "other tool",
        "offloaded",
        "guided",
    ],
)
def test_c63_what_is_short_or_holds_no_schemas_is_left_alone(dialect: str, left: Did) -> None:
    body = body_of([left, *fetched(1)], dialect)
    assert not strips(body, prompt_of(body), NAMES)


@each_dialect
@pytest.mark.parametrize("defined", [(), NAMES[:1], ("other",)])
def test_c63_what_is_defined_nowhere_else_is_left_alone(dialect: str, defined: tuple[str, ...]) -> None:
    body = body_of([found(), *fetched(1)], dialect)
    assert not strips(body, prompt_of(body), defined)
    assert not Masker(MaskSettings(), strip=True).requests(body, prompt_of(body), fence=lambda: 0, defined=defined)


@each_dialect
def test_what_the_model_has_yet_to_read_stays(dialect: str) -> None:
    assert after([*fetched(2), found()], dialect)[2] == SCHEMAS


def test_references_are_left_alone() -> None:
    reference = Opaque("tool_reference", b'{"type":"tool_reference","tool_name":"mcp__git__log"}')
    body = body_of([found((Text(SCHEMAS), reference))])
    assert not strips(body, prompt_of(body), NAMES)


def test_a_masker_strips_where_it_is_told_to_and_remembers_refusals() -> None:
    body = body_of([found(), *fetched(3)])
    prompt = prompt_of(body)
    plain, masker = Masker(MaskSettings()), Masker(MaskSettings(), strip=True)
    assert not plain.requests(body, prompt, fence=lambda: 0, defined=NAMES)
    assert not masker.requests(body, prompt, fence=lambda: 99, defined=NAMES)
    wanted = masker.requests(body, prompt, fence=lambda: 5, defined=NAMES)
    assert wanted.masked == (MaskedResult(tool="discover_tools", tool_use_id="call_1", characters=len(SCHEMAS)),)
    assert masker.settle(False) == ()
    assert not masker.requests(body, prompt, fence=lambda: 5, defined=NAMES)
    assert not masker.requests(body, prompt, fence=lambda: 99, defined=NAMES)
    assert masker.requests(body, prompt, fence=lambda: 5, defined=NAMES) == wanted
    assert masker.settle(True) == wanted.masked
    assert not masker.requests(body, prompt, fence=lambda: 0, already=wanted.edits, defined=NAMES)
    assert masker.settle(True) == ()


def test_masks_and_strips_are_asked_for_together() -> None:
    body = body_of([*fetched(3), found(), *fetched(2, first=3)])
    masker = Masker(MaskSettings(keep_window=2, trigger_chars=20_000, release_chars=0), strip=True)
    wanted = masker.requests(body, prompt_of(body), fence=lambda: 0, defined=NAMES)
    assert [each.tool for each in wanted.masked] == ["fetch", "fetch", "fetch", "discover_tools"]
    assert len(wanted.edits) == 4
