"""Faults: the queue of orders, and what each does to an answer, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.records import usage
from holdfast.simulator import steps
from holdfast.simulator.faults import Fault, FaultMatch, Faults, Options, read_faults
from holdfast.simulator.messages import HttpRequest, HttpResponse
from holdfast.simulator.steps import Abort, Began, EndResponse, SendBytes, StartResponse, Step, Wait, plan
from holdfast.wire import DIALECTS

from .conversations import DIALECT_NAMES

CALL = HttpRequest("POST", "/v1/messages", {"x-session-id": "one"})
PLAIN = HttpResponse(200, (("content-type", "application/json"),), b'{"id":"msg_1"}')
EVENTS = (b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n", b"data: 4\n\n")
STREAM = HttpResponse(200, (("content-type", "text/event-stream"),), chunks=EVENTS)


def fault(kind: str, **options: Any) -> Fault:
    return read_faults(json.dumps({"kind": kind, "options": options}).encode())[0]


def sent(steps: list[Step]) -> bytes:
    return b"".join(step.data for step in steps if isinstance(step, SendBytes))


class TestQueue:
    def test_a_fault_strikes_once(self) -> None:
        faults = Faults()
        faults.add(Fault("cut"))
        assert faults.take(CALL, "claude-opus-5") == Fault("cut")
        assert faults.take(CALL, "claude-opus-5") is None

    def test_times(self) -> None:
        faults = Faults()
        faults.add(Fault("cut", times=2))
        assert [faults.take(CALL, "m") is not None for _ in range(3)] == [True, True, False]

    def test_zero_times_is_until_removed(self) -> None:
        faults = Faults()
        faults.add(Fault("cut", times=0))
        assert all(faults.take(CALL, "m") for _ in range(5))
        assert faults.clear() == 1
        assert faults.take(CALL, "m") is None

    def test_after_lets_requests_pass(self) -> None:
        faults = Faults()
        faults.add(Fault("cut", after=2))
        assert [faults.take(CALL, "m") is not None for _ in range(4)] == [False, False, True, False]

    def test_orders_strike_in_sequence(self) -> None:
        faults = Faults()
        for kind in ("cut", "close"):
            faults.add(read_faults(b'{"kind":"%b"}' % kind.encode())[0])
        assert [found.kind for found in (faults.take(CALL, "m"), faults.take(CALL, "m")) if found] == ["cut", "close"]

    def test_the_list_shows_what_is_left(self) -> None:
        faults = Faults()
        faults.add(Fault("cut", times=3))
        faults.take(CALL, "m")
        assert faults.listing() == [Fault("cut", times=2)]

    @pytest.mark.parametrize(
        ("match", "fits"),
        [
            (FaultMatch(path="/messages"), True),
            (FaultMatch(path="/responses"), False),
            (FaultMatch(model="claude-opus"), True),
            (FaultMatch(model="gpt"), False),
            (FaultMatch(header={"X-Session-Id": "one"}), True),
            (FaultMatch(header={"x-session-id": "two"}), False),
            (FaultMatch(path="/messages", model="gpt"), False),
        ],
    )
    def test_match(self, match: FaultMatch, fits: bool) -> None:
        faults = Faults()
        faults.add(Fault("cut", match=match))
        assert (faults.take(CALL, "claude-opus-5") is not None) == fits

    @pytest.mark.parametrize(
        ("order", "label"),
        [
            (fault("status", status=529), "status 529"),
            (fault("cut", at="early"), "cut early"),
            (fault("drip"), "drip"),
            (fault("wrong_usage", factor=2), "wrong_usage"),
        ],
    )
    def test_label(self, order: Fault, label: str) -> None:
        assert order.label == label


class TestOrders:
    def test_one_or_several(self) -> None:
        assert read_faults(b'{"kind":"cut"}') == [Fault("cut")]
        assert read_faults(b'[{"kind":"cut"},{"kind":"drip"}]') == [Fault("cut"), Fault("drip")]

    @pytest.mark.parametrize(
        ("raw", "words"),
        [
            (b"{", "not JSON"),
            (b"7", "not understood"),
            (b"{}", "kind"),
            (b'{"kind":"explode"}', "explode"),
            (b'{"kind":"cut","tims":2}', "tims"),
            (b'{"kind":"cut","times":-1}', "times"),
            (b'{"kind":"cut","options":{"at":"late"}}', "late"),
            (b'{"kind":"status"}', "options.status"),
            (b'{"kind":"status","options":{"status":200}}', "options.status"),
            (b'{"kind":"wrong_usage"}', "options.factor"),
            (b'{"kind":"wrong_usage","options":{"set":{"tokens":1}}}', "tokens"),
            (b'{"kind":"stall","options":{"seconds":1e9}}', "seconds"),
        ],
    )
    def test_a_bad_order_is_told_in_one_sentence(self, raw: bytes, words: str) -> None:
        with pytest.raises(HoldfastError, match=words) as caught:
            read_faults(raw)
        assert "\n" not in str(caught.value)


class TestStatus:
    @pytest.mark.parametrize("dialect", DIALECT_NAMES)
    @pytest.mark.parametrize("status", [400, 401, 429, 500, 503, 529])
    def test_the_providers_own_error_form(self, dialect: str, status: int) -> None:
        answer = fault("status", status=status, message="no").answer(dialect)
        read = DIALECTS[dialect].read_error(answer.status, answer.body)
        assert (answer.status, read.message) == (status, "no")
        assert dict(answer.headers)["content-type"] == "application/json"

    def test_anthropic_kinds(self) -> None:
        kinds = {
            s: json.loads(fault("status", status=s).answer("anthropic").body)["error"]["type"] for s in (429, 503, 529)
        }
        assert kinds == {429: "rate_limit_error", 503: "api_error", 529: "overloaded_error"}

    def test_openai_codes(self) -> None:
        for status, code in ((401, "invalid_api_key"), (429, "rate_limit_exceeded"), (500, None), (400, None)):
            assert json.loads(fault("status", status=status).answer("openai_chat").body)["error"]["code"] == code

    def test_retry_after_and_limits(self) -> None:
        order = fault("status", status=429, retry_after=20)
        headers = dict(order.answer("anthropic", request_id="req_1", now=1_800_000_000.0).headers)
        assert headers["retry-after"] == "20"
        assert headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert headers["anthropic-ratelimit-requests-reset"] == "2027-01-15T08:00:20Z"
        assert headers["request-id"] == "req_1"
        assert headers["x-should-retry"] == "true"
        headers = dict(order.answer("openai_chat", request_id="req_1").headers)
        assert (headers["retry-after"], headers["x-ratelimit-reset-requests"]) == ("20", "20s")
        assert headers["x-request-id"] == "req_1"

    def test_gemini_puts_the_delay_into_the_body(self) -> None:
        answer = fault("status", status=429, retry_after=1.5).answer("gemini")
        error = json.loads(answer.body)["error"]
        assert error["status"] == "RESOURCE_EXHAUSTED"
        assert error["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]

    def test_an_unusual_status(self) -> None:
        answer = fault("status", status=418).answer("anthropic")
        assert json.loads(answer.body)["error"] == {
            "type": "api_error",
            "message": "The request failed with status 418.",
        }
        assert dict(answer.headers)["x-should-retry"] == "false"

    def test_only_a_status_fault_has_one(self) -> None:
        assert fault("status", status=503).status == 503
        assert fault("sse_error", status=503).status is None

    def test_a_refusal_goes_out_whole_and_never_begins(self) -> None:
        order = fault("status", status=503)
        answer = order.answer("anthropic")
        steps = plan(answer, order)
        assert steps == [StartResponse(503, answer.headers, len(answer.body)), SendBytes(answer.body), EndResponse()]


class TestSending:
    def test_a_plain_answer(self) -> None:
        assert plan(PLAIN) == [
            StartResponse(200, PLAIN.headers, len(PLAIN.body)),
            Began(),
            SendBytes(PLAIN.body),
            EndResponse(),
        ]

    def test_a_stream_with_delays(self) -> None:
        steps = plan(STREAM, first_token_delay=1.0, chunk_delay=0.5)
        assert steps[:5] == [Wait(1.0), StartResponse(200, STREAM.headers), Began(), SendBytes(EVENTS[0]), Wait(0.5)]
        assert steps[-3:] == [Wait(0.5), SendBytes(EVENTS[3]), EndResponse()]

    @pytest.mark.parametrize(("kind", "ending"), [("cut", Abort()), ("close", EndResponse(whole=False))])
    @pytest.mark.parametrize(("at", "events"), [("early", 0), ("mid", 2), ("before_last", 3)])
    def test_cut_and_close_a_stream(self, kind: str, ending: Step, at: str, events: int) -> None:
        steps = plan(STREAM, fault(kind, at=at))
        assert sent(steps) == b"".join(EVENTS[:events])
        assert steps[-1] == ending
        assert (Began() in steps) == (events > 0)

    def test_cut_a_plain_answer(self) -> None:
        steps = plan(PLAIN, fault("cut", at="before_last"))
        assert steps[0] == StartResponse(200, PLAIN.headers, len(PLAIN.body))
        assert sent(steps) == PLAIN.body[:-1]
        assert plan(PLAIN, fault("cut", at="early"))[-2:] == [steps[0], Abort()]

    def test_a_plain_answer_closed_cleanly_promises_no_length(self) -> None:
        steps = plan(PLAIN, fault("close"))
        assert steps[0] == StartResponse(200, PLAIN.headers, None)
        assert sent(steps) == PLAIN.body[: len(PLAIN.body) // 2]

    def test_stall(self) -> None:
        steps = plan(STREAM, fault("stall", seconds=7))
        assert sent(steps) == b"".join(EVENTS)
        assert steps.index(Wait(7.0)) == steps.index(SendBytes(EVENTS[1])) + 1
        assert steps[-1] == EndResponse()
        assert Wait(30.0) in plan(STREAM, fault("stall"))

    def test_stall_before_the_first_event_is_before_the_first_token(self) -> None:
        steps = plan(STREAM, fault("stall", seconds=7, at="early"))
        assert steps.index(Wait(7.0)) < steps.index(Began())

    def test_drip(self) -> None:
        steps = plan(STREAM, fault("drip"), chunk_delay=9)
        assert sent(steps) == b"".join(EVENTS)
        assert {len(step.data) for step in steps if isinstance(step, SendBytes)} == {1}
        assert not any(isinstance(step, Wait) for step in steps)
        assert plan(PLAIN, fault("drip", bytes=10, seconds=0.1))[2:5] == [
            SendBytes(PLAIN.body[:10]),
            Wait(0.1),
            SendBytes(PLAIN.body[10:]),
        ]

    @pytest.mark.parametrize(("at", "index"), [("early", 0), ("mid", 2), ("before_last", 2)])
    def test_malformed_event(self, at: str, index: int) -> None:
        event = b'event: delta\ndata: {"type":"delta","text":"hello"}\n\n'
        steps = plan(HttpResponse(200, chunks=(event,) * 4), fault("malformed", at=at))
        pieces = [step.data for step in steps if isinstance(step, SendBytes)]
        assert [piece == event for piece in pieces].index(False) == index
        broken = pieces[index]
        assert broken.startswith(b"event: delta\ndata: {")
        assert broken.endswith(b"\n\n")
        with pytest.raises(json.JSONDecodeError):
            json.loads(broken.split(b"data: ")[1])

    def test_malformed_plain_answer(self) -> None:
        steps = plan(PLAIN, fault("malformed"))
        assert steps[0] == StartResponse(200, PLAIN.headers, len(PLAIN.body) // 2)
        with pytest.raises(json.JSONDecodeError):
            json.loads(sent(steps))

    @pytest.mark.parametrize("dialect", DIALECT_NAMES)
    def test_an_error_event_is_understood_as_one(self, dialect: str) -> None:
        steps = plan(STREAM, fault("sse_error", message="broken"), dialect=dialect)
        pieces = [step.data for step in steps if isinstance(step, SendBytes)]
        assert tuple(pieces[:2]) == EVENTS[:2]
        tap = DIALECTS[dialect].tap()
        tap.feed(pieces[2])
        assert tap.close().error == "broken"
        assert len(pieces) == 3
        assert steps[-1] == EndResponse(whole=False)

    def test_a_character_is_not_cut_in_half(self) -> None:
        for length in range(8):
            chunk = b"data: " + json.dumps({"text": "x" * length + "日本" * 9}, ensure_ascii=False).encode() + b"\n\n"
            steps = plan(HttpResponse(200, chunks=(chunk,)), fault("malformed", at="early"))
            assert sent(steps).decode().startswith('data: {"text": "')

    def test_a_long_answer_drips_in_larger_drops(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(steps, "MOST_DROPS", 100)
        long = HttpResponse(200, body=b"x" * 5_000)
        pieces = [step.data for step in plan(long, fault("drip")) if isinstance(step, SendBytes)]
        assert (len(pieces), b"".join(pieces)) == (100, long.body)

    def test_an_error_in_gemini_array(self) -> None:
        chunks = (b'[{"candidates":[]}', b',{"candidates":[]}', b"]")
        steps = plan(HttpResponse(200, chunks=chunks), fault("sse_error"), dialect="gemini")
        assert json.loads(sent(steps))[1]["error"]["code"] == 503

    def test_an_error_event_without_a_stream_is_an_error(self) -> None:
        steps = plan(PLAIN, fault("sse_error"), dialect="anthropic")
        assert isinstance(steps[0], StartResponse)
        assert steps[0].status == 529
        assert Began() not in steps

    def test_an_answer_that_is_refused_anyway_is_left_alone(self) -> None:
        refused = HttpResponse(400, (), b'{"type":"error"}')
        assert plan(refused, fault("cut")) == [StartResponse(400, (), 16), SendBytes(refused.body), EndResponse()]

    def test_one_event_is_split_by_bytes(self) -> None:
        steps = plan(HttpResponse(200, chunks=(b"data: 12\n\n",)), fault("cut"))
        assert sent(steps) == b"data:"

    def test_an_empty_answer(self) -> None:
        assert plan(HttpResponse(200), fault("cut"))[-1] == Abort()


class TestWrongUsage:
    TRUE = usage(input=10, read=100, output=7, writes={"5m": 20, "1h": 4})

    def test_multiplied(self) -> None:
        wrong = fault("wrong_usage", factor=2).reported(self.TRUE)
        assert wrong == usage(input=20, read=200, output=14, writes={"5m": 40, "1h": 8})

    def test_replaced_by_name(self) -> None:
        wrong = fault("wrong_usage", set={"read": 0, "written": 5}).reported(self.TRUE)
        assert (wrong.input, wrong.read, wrong.output, wrong.written) == (10, 0, 7, 5)

    def test_nothing_was_written_and_it_says_so(self) -> None:
        wrong = fault("wrong_usage", set={"written": 5}).reported(usage(input=1))
        assert wrong.writes == (("5m", 5),)

    def test_other_faults_report_the_truth(self) -> None:
        assert Fault("cut", options=Options(factor=3)).reported(self.TRUE) == self.TRUE
