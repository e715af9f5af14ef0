"""A transcript gives each provider request once, with its time, usage, lane and reason for a reset."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.lab import Trace, TraceStep
from holdfast.records import UNSPLIT, Usage, usage
from holdfast.report.logs.claude_code import is_mine, reading
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from tests.lab.recordings import needs_recordings, recorded
from tests.report.logs.claude_logs import MODEL, START, Talk, given, reads, stamp, used
from tests.report.logs.log_records import is_read_without_being_held


def test_the_lines_of_one_message_are_one_request_with_the_last_ones_output(tmp_path: Path) -> None:
    talk = Talk("s1")
    talk.notes(START)
    talk.asks(START + 5)
    talk.answers(
        START + 9, used(read=100, write_5m=20, write_1h=3, input=4, output=50), ["thinking", "text", "tool_use"]
    )
    talk.asks(START + 12)
    talk.answers(START + 15, used(read=123, write_5m=7, output=8))
    path = talk.write(tmp_path / "s1.jsonl")
    assert [replace(record, added=()) for record in given(path)] == [
        LoggedRequest(
            session="s1",
            source="s1.jsonl:6",
            model=MODEL,
            client="claude-code",
            at=START + 5,
            first_token_at=START + 9,
            usage=usage(input=4, read=100, writes={"5m": 20, "1h": 3}, output=50),
            dialect="anthropic",
            tier="standard",
        ),
        LoggedRequest(
            session="s1",
            source="s1.jsonl:10",
            model=MODEL,
            client="claude-code",
            at=START + 12,
            first_token_at=START + 15,
            usage=usage(read=123, writes={"5m": 7}, output=8),
            dialect="anthropic",
            tier="standard",
        ),
    ]


def test_results_between_the_lines_of_a_message_belong_to_the_next_request(tmp_path: Path) -> None:
    """Tools run while the answer is still coming."""
    talk = Talk()
    talk.asks(START)
    counts = used(read=100, output=5)
    talk.block(START + 2, counts, "tool_use", "msg_1")
    talk.results(START + 3)
    talk.block(START + 4, counts, "tool_use", "msg_1")
    talk.results(START + 9)
    talk.block(START + 5, used(read=100, output=77), "tool_use", "msg_1")
    talk.results(START + 6)
    talk.answers(START + 11, used(read=140))
    first, second = given(talk.write(tmp_path / "s.jsonl"))
    assert (first.at, first.first_token_at, first.usage) == (START, START + 2, Usage(read=100, output=77))
    assert (second.at, second.first_token_at) == (START + 9, START + 11)


def test_writes_without_lifetimes_are_not_guessed(tmp_path: Path) -> None:
    talk = Talk()
    talk.asks(START)
    talk.answers(START + 1, used(read=1, write_5m=30, split=False))
    [record] = given(talk.write(tmp_path / "s.jsonl"))
    assert record.usage == usage(read=1, writes={UNSPLIT: 30})


def test_what_the_client_says_itself_is_no_request(tmp_path: Path) -> None:
    talk = Talk()
    talk.asks(START)
    talk.answers(START + 1, used(read=9), id="msg_a", isApiErrorMessage=True)
    talk.answers(START + 2, used(read=9), id="msg_b", model="<synthetic>")
    talk.answers(START + 3, used(), id="msg_c")
    kept = used(write_5m=575)  # as it stands when a message was kept over a compaction
    kept["cache_creation_input_tokens"] = 0
    talk.answers(START + 4, kept, id="msg_d")
    talk.line("assistant", START + 5, message={"role": "assistant", "model": MODEL, "content": []})
    talk.line("assistant", START + 5)
    assert given(talk.write(tmp_path / "s.jsonl")) == []


def test_a_request_is_as_old_as_what_it_answers_and_never_younger_than_its_answer(tmp_path: Path) -> None:
    talk = Talk()
    talk.asks(None)
    talk.answers(START + 1, used(read=1))  # no time before it: its own
    talk.answers(START + 4, used(read=2))  # nothing was said in between: after the line before
    talk.asks(START + 20)
    talk.answers(START + 10, used(read=3))  # the clock went back
    talk.asks(START + 30)
    talk.line("system", START + 90, subtype="api_error")  # it was sent again
    talk.answers(START + 95, used(read=4))
    times = [(record.at, record.first_token_at) for record in given(talk.write(tmp_path / "s.jsonl"))]
    assert times == [
        (START + 1, START + 1),
        (START + 1, START + 4),
        (START + 10, START + 10),
        (START + 90, START + 95),
    ]


def test_where_the_client_says_when_it_sent_a_request_that_is_the_time(tmp_path: Path) -> None:
    talk = Talk()
    talk.asks(START)
    for number, at in enumerate((START + 0.5, START + 3)):  # the first try was refused
        talk.raw({"type": "api-request", "sessionId": "s", "id": f"r{number}", "timestamp": stamp(at)})
    talk.answers(START + 4, used(read=1), requestRef="r1")
    talk.asks(START + 6)
    talk.answers(START + 7, used(read=2), requestRef="unknown")
    assert [record.at for record in given(talk.write(tmp_path / "s.jsonl"))] == [START + 3, START + 6]


def test_messages_without_ids_are_told_apart(tmp_path: Path) -> None:
    talk = Talk()
    for number in range(3):
        talk.asks(START + 10 * number)
        talk.answers(START + 10 * number + 1, used(read=number + 1), id="msg_x", request=None)
    without = [json.loads(line) for line in talk.lines]
    for line in without:
        line["message"].pop("id", None)
    talk.lines = [json.dumps(line) for line in without]
    assert reads(given(talk.write(tmp_path / "s.jsonl"))) == [1, 2, 3]


def test_broken_lines_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    talk = Talk("s1")
    talk.asks(START)
    talk.answers(START + 1, used(read=1))
    whole = [line.encode() for line in talk.lines]
    talk.asks(START + 2)
    talk.answers(START + 3, used(read=2))
    _, _, question, answer = [line.encode() for line in talk.lines]
    broken = [
        answer[: len(answer) // 2],
        answer[:-1] + b"x",
        b"\x00" * 500,
        b"[1, 2]",
        b'"text"',
        answer.replace(b'"usage"', b'"\xff\xfe"'),
        answer.replace(b'"harbour', b"harb\xe9ur").replace(b"The harbour", b"harb\xe9ur"),
        b'{"type":"assistant","isSidechain":"maybe"}',
        b'{"isSidechain":"maybe","type":"assistant" "uuid":"u"}',
        b'{"type":"assistant","message":"text"}',
        b'{"type":"assistant","message":{"id":7}}',
        b"[" * 100_000,
    ]
    fine = [b'{"type":"later-kind","isSidechain":"maybe"}', b"{}", b'{"type":5}', b"", b'{"type":"user","message":7}']
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"\n".join([*whole, *broken, *fine, question, answer]) + b"\n")
    records = list(reading()(path, lambda _: None))
    assert [record.source for record in records if isinstance(record, BrokenSource)] == [
        f"s1.jsonl:{3 + number}" for number in range(len(broken))
    ]
    assert all(record.why for record in records if isinstance(record, BrokenSource))
    assert reads([record for record in records if isinstance(record, LoggedRequest)]) == [1, 2]


@pytest.mark.slow
def test_a_long_transcript_is_read_without_being_held(tmp_path: Path) -> None:
    talk = Talk()
    for number in range(250):
        talk.asks(START + 10 * number, chars=100_000)
        talk.answers(START + 10 * number + 1, used(read=number + 1), ["tool_use"])
    path = talk.write(tmp_path / "s.jsonl")
    del talk
    assert path.stat().st_size > 45_000_000
    is_read_without_being_held(reading, path, 250, 10_000_000)


def test_text_that_looks_like_lines_fools_nobody(tmp_path: Path) -> None:
    inner = Talk("other")
    inner.asks(START)
    inner.answers(START + 1, used(read=999))
    inner.compacts(START + 2)
    quoted = "\n".join(inner.lines)
    talk = Talk("s1")
    for number in range(2):
        content = [{"type": "tool_result", "tool_use_id": "t", "content": quoted}]
        nested = {"type": "assistant", "subtype": "compact_boundary", "isCompactSummary": True, "stdout": quoted}
        talk.line("user", START + number * 5, message={"role": "user", "content": content}, toolUseResult=nested)
        talk.line("progress", START + number * 5, data=json.loads(inner.lines[1]))
        talk.answers(START + number * 5 + 1, used(read=number + 1))
    records = given(talk.write(tmp_path / "s1.jsonl"))
    assert reads(records) == [1, 2]
    assert [record.reset for record in records] == [None, None]
    assert {record.session for record in records} == {"s1"}


def test_transcripts_are_told_from_other_logs() -> None:
    talk = Talk()
    talk.asks(START)
    line = talk.lines[0].encode()
    path = Path("s.jsonl")
    assert is_mine(path, line)
    assert is_mine(path, b"cut line\n" + line + b"\n")
    assert is_mine(path, b'{"type":"summary","summary":"x","leafUuid":"l"}\n' + line)
    assert is_mine(path, b'{"type":"queue-operation","operation":"enqueue","sessionId":"s","content":"x"}\n')
    talk = Talk()
    talk.asks(START, chars=200_000)
    assert is_mine(path, talk.lines[0].encode()[: 64 * 1024])
    for other in (
        b"",
        b'{"type":"session_meta","payload":{"id":"x"}}\n',
        b'{"type":"session","version":3,"id":"x"}\n{"type":"message","parentId":null}',
        b'{"model":"m","messages":[{"role":"user","content":"parentUuid isSidechain"}]}',
        json.dumps({"messages": [{"role": "tool", "content": talk.lines[0]}]}).encode(),
        b'{"sessionId":"s","type":"\xff"}\n{"sessionId":"s","type":["mode"]}',
    ):
        assert not is_mine(path, other)


def as_transcript(trace: Trace, path: Path, clock: float) -> Path:
    """A shape trace as the transcript it could have been made from, with filler of the recorded sizes."""
    talk = Talk(trace.name)
    for step in trace.steps:
        assert step.at is not None
        assert step.first_token_at is not None
        if step.reset == "compaction":
            talk.compacts(clock + step.at)
        talk.asks(clock + step.at, chars=min(4000, step.number * 97 % 5000))
        counts = used(
            read=step.usage.read,
            write_5m=step.usage.written_for("5m"),
            write_1h=step.usage.written_for("1h"),
            input=step.usage.input,
            output=step.usage.output,
        )
        blocks = [["text"], ["tool_use"], ["thinking", "text", "tool_use"], ["tool_use", "tool_use"]][step.number % 4]
        talk.answers(clock + step.first_token_at, counts, blocks, model=step.model)
    return talk.write(path)


def comes_back(trace: Trace, path: Path) -> None:
    """Usage, times and resets are exactly those of the trace."""
    clock = START
    records = given(as_transcript(trace, path, clock))

    def times(step: TraceStep) -> tuple[float | None, float | None]:
        assert step.at is not None
        assert step.first_token_at is not None
        return round(step.at, 3), round(step.first_token_at, 3)

    assert [(record.model, record.usage, record.reset) for record in records] == [
        (step.model, step.usage, step.reset) for step in trace.steps
    ]
    assert [
        (round(record.at - clock, 3), round(record.first_token_at - clock, 3))
        for record in records
        if record.at is not None and record.first_token_at is not None
    ] == [times(step) for step in trace.steps]


@needs_recordings
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_a_recorded_session_comes_back_from_a_transcript_of_it(tmp_path: Path, name: str) -> None:
    comes_back(recorded(name), tmp_path / f"{name}.jsonl")
