"""What cannot be read of a rollout is named, the rest goes on, and memory does not grow with the file."""

from __future__ import annotations

from pathlib import Path

from holdfast.report.logs.codex import reading
from holdfast.report.logs.records import BrokenSource
from tests.report.logs.claude_logs import START, text
from tests.report.logs.codex_logs import BOTH, Rollout, talk, used
from tests.report.logs.log_records import gives_what_came_before, is_read_without_being_held, split

BROKEN = {
    '{"timestamp":"2026-01-01T00:00:00.000Z","type":"event_msg","payl': "not JSON",
    '{"timestamp":"2026-01-01T00:00:00.000Z","type":"event_msg"}': "missing required field `payload`",
    '{"timestamp":7,"type":"event_msg","payload":{}}': "Expected `str | null`, got `int` - at `$.timestamp`",
    '{"type":"event_msg","payload":[]}': "Expected `object`, got `array`",
    '["event_msg"]': "Expected `object`, got `array`",
    '{"type":"token_usage_record","payload":{"response_id":"r"}}': "missing required field `usage`",
    '{"type":"token_usage_record","payload":{"usage":{"input_tokens":-5}}}': "`int` >= 0 - at `$.usage.input_tokens`",
    '{"type":"token_usage_record","payload":{"usage":{"input_tokens":1e300}}}': "Expected `int`",
    '{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"output_tokens":"9"}}}}': (
        "Expected `int`, got `str`"
    ),
    '{"type":"event_msg","payload":{"type":"token_count","info":"none"}}': "Expected `object | null`, got `str`",
    '{"type":"turn_context","payload":{"model":null}}': "Expected `str`, got `null`",
    '{"type":"response_item","payload":' + "[" * 5000 + "]" * 5000 + "}": "",
}


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    rollout = Rollout()
    places: dict[int, str] = {}
    rollout.turn(START)
    for number, (line, why) in enumerate(BROKEN.items()):
        rollout.lines.append(line)
        places[len(rollout.lines)] = why
        rollout.answers(START + number, used(1000 + number, 0, 20))
    path = rollout.save(tmp_path)
    found, broken = split(reading()(path, lambda _: None))
    assert len(found) == len(BROKEN)
    assert [int(each.source.rpartition(":")[2]) for each in broken] == list(places)
    assert all(why in each.why for each, why in zip(broken, places.values(), strict=True))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = talk(Rollout()).save(tmp_path)
    path.write_bytes(path.read_bytes() + b'{"type":"response_item","payload":{"text":"\xff\xfe"}}\n')
    found, broken = split(reading()(path, lambda _: None))
    assert (len(found), [each.why for each in broken]) == (3, ["not UTF-8"])


@BOTH
def test_a_file_that_is_cut_anywhere_gives_what_came_before(tmp_path: Path, records: bool) -> None:
    whole = talk(Rollout(records=records)).save(tmp_path)
    gives_what_came_before(reading, whole, step=61)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (broken,) = reading()(tmp_path / "rollout-1.jsonl", lambda _: None)
    assert broken == BrokenSource("rollout-1.jsonl", "cannot be read (No such file or directory)")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    rollout = Rollout()
    for number in range(300):
        rollout.turn(START + 10 * number)
        rollout.answers(START + 10 * number + 3, used(1000 + number, 0, 20), calls=True)
        rollout.item("function_call_output", call_id="c", output=text(40_000))
    path = rollout.save(tmp_path)
    del rollout
    is_read_without_being_held(reading, path, 300, path.stat().st_size // 3)
