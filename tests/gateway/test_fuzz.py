"""Five times 500 requests, most of them odd, through a gateway process: `make fuzz` sends as many as one likes.

Nothing is answered by us that is not ours to answer, and no byte changes outside a plan, either way. The requests are
the same on every run; how the connections take turns is not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .fuzzing import Fuzz
from .fuzzing_bodies import difference

REQUESTS = 500


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "repair"), [("1", "suggest"), ("2", "suggest"), ("3", "suggest"), ("4", "on"), ("5", "on")]
)
def test_nothing_is_in_the_way_and_no_byte_changes_outside_a_plan(tmp_path: Path, seed: str, repair: str) -> None:
    fuzz = Fuzz(f"test-{seed}", tmp_path, repair=repair)
    fuzz.run(REQUESTS)
    assert fuzz.done == REQUESTS
    seen = fuzz.statuses
    assert min(seen["planned"], seen["changed"], seen["repaired"], seen["bypassed unreadable"], seen["404"]) > 10, seen


BODY = (
    b'{"model":"claude-sonnet-5-5","max_tokens":9,"system":[{"type":"text","text":"Today is 1."}],'
    b'"tools":[{"name":"a","input_schema":{}},{"name":"b","input_schema":{}}],'
    b'"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":[{"type":"text","text":"x"}]}]}'
)
MARK = b',"cache_control":{"type":"ephemeral"}'
NONE, ORDER, TOLD = frozenset[str](), frozenset(("tool-order",)), frozenset(("volatile-value",))


@pytest.mark.parametrize(
    ("before", "after", "repairs", "fine"),
    [
        (b'"text":"x"', b'"text":"x"' + MARK, NONE, True),
        (b'"content":"hello"', b'"content":[{"type":"text","text":"hello"' + MARK + b"}]", NONE, True),
        (b'"content":"hello"', b'"content":[{"type":"text","text":"hullo"' + MARK + b"}]", NONE, False),
        (b'"text":"x"', b'"text": "x"' + MARK, NONE, False),
        (b'"max_tokens":9', b'"max_tokens":8', NONE, False),
        (b'"max_tokens":9,', b"", NONE, False),
        (b'"max_tokens":9', b'"max_tokens":9.0', ORDER, False),
        (b'{"name":"a","input_schema":{}},{"name":"b"', b'{"name":"b","input_schema":{}},{"name":"a"', ORDER, True),
        (b'{"name":"a","input_schema":{}},{"name":"b"', b'{"name":"b","input_schema":{}},{"name":"a"', NONE, False),
        (b'"name":"a"', b'"name":"c"', ORDER, False),
        (b'"Today is 1."', b'"Today is 0."', TOLD, True),
        (b'"Today is 1."', b'"Today is 0."', ORDER, False),
        (b'"content":"hello"', b'"content":[{"type":"text","text":"hello"},{"type":"text","text":"1"}]', TOLD, True),
        (b'"content":"hello"', b'"content":[{"type":"text","text":"1"}]', TOLD, False),
        (b'"text":"x"', b'"text":"y"', TOLD, False),
        (b'"text":"x"}]', b'"text":"x"},{"type":"text","text":"1"}]', TOLD, False),
        (b'"max_tokens":9', b'"max_tokens":8', TOLD, False),
    ],
)
def test_the_judge_of_bodies_sees_what_was_changed(
    before: bytes, after: bytes, repairs: frozenset[str], fine: bool
) -> None:
    assert BODY.count(before) == 1
    found = difference("anthropic", "", BODY, BODY.replace(before, after), repairs)
    assert (found is None) is fine, found
