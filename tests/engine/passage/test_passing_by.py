"""Law 8: whatever fails before a request is out, or takes too long, the client's own bytes go and it is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.engine.passage import Incoming, Passage
from holdfast.errors import HoldfastError
from holdfast.serving import encodings
from holdfast.wire import DIALECTS
from tests.engine.driver import ON, clocked, raw_of, talk
from tests.engine.passage.door import ENCODERS, STAGES_S, Door

SECRET = "words of the client"

# Where something fails: the stage, what to break, and whether the lane is known by then.
STAGES: dict[str, tuple[str, Callable[[Door], tuple[Any, str]]]] = {
    "decode": ("decode", lambda door: (encodings, "decoded")),
    "parse": ("parse", lambda door: (door.engine, "parse")),
    "read": ("identify", lambda door: (door.engine, "read")),
    "identify": ("identify", lambda door: (door.identities, "find")),
    "prepare": ("prepare", lambda door: (door.engine, "prepare")),
    "within prepare": ("prepare", lambda door: (door.engine, "_planned")),
    "send": ("send", lambda door: (door.identities, "sent")),
}
each_stage = pytest.mark.parametrize(("stage", "part"), STAGES.values(), ids=STAGES)


def fails(*_args: Any, **_more: Any) -> Any:
    raise RuntimeError(SECRET)


def untouched(door: Door, passage: Passage, raw: bytes, why: str, encoding: str = "") -> None:
    """The client's own bytes go, and the client is told why."""
    assert passage.raw is passage.incoming.body
    assert passage.raw == ENCODERS[encoding](raw)
    assert passage.verbatim
    assert passage.prepared is None
    assert passage.held is None
    assert passage.bypass == why
    told = dict(passage.response_headers())
    assert told == {b"x-holdfast-call": (passage.call or "").encode(), b"x-holdfast-bypassed": why.encode()}


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
@each_stage
def test_a_stage_that_fails(
    door: Door,
    stage: str,
    part: Callable[[Door], tuple[Any, str]],
    encoding: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    raw = raw_of(talk(1))
    with monkeypatch.context() as broken:
        broken.setattr(*part(door), fails)
        passage = door.begin(raw, session=None, encoding=encoding)
    untouched(door, passage, raw, "error", encoding)
    exchange = door.carry(passage) if stage != "decode" or not encoding else None
    if exchange is None:
        passage.cut()
    found = [event for event in door.told() if event.type == "gateway.bypassed"]
    assert len(found) == 1
    told = msgspec.to_builtins(found[0].payload)
    assert (told["stage"], told["error"]) == (stage, "RuntimeError")
    row = door.rows()[-1]
    assert (row.kind, row.plan) == ("bypassed", b'{"why":"error"}')
    if exchange is not None:
        assert row.status == "settled"
        assert (row.usage.input, row.usage.output) == (exchange.record.usage.input, exchange.record.usage.output)
        assert row.usage.cost is not None
        assert row.first_token_at is not None
    assert not any(each.status == "pending" for each in door.rows())
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET.encode() not in msgspec.json.encode(told)


@each_stage
def test_the_next_request_is_planned_again(
    door: Door, stage: str, part: Callable[[Door], tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    door.send(raw_of(talk(0)), session=None)
    with monkeypatch.context() as broken:
        broken.setattr(*part(door), fails)
        passage, _ = door.send(raw_of(talk(1)), session=None)
    assert passage.bypass == "error"
    again, exchange = door.send(raw_of(talk(2)), session=None)
    assert again.bypass is None
    assert exchange.record.usage.read > 0
    assert again.prepared.verdict.explained


@pytest.mark.parametrize(
    ("stage", "slow"),
    [
        ("decode", lambda door: (encodings, "decoded")),
        ("parse", lambda door: (door.engine, "parse")),
        ("identify", lambda door: (door.identities, "find")),
    ],
)
def test_a_stage_that_takes_too_long(
    door: Door, stage: str, slow: Callable[[Door], tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = slow(door)
    does = getattr(owner, name)

    def later(*args: Any, **more: Any) -> Any:
        door.work += STAGES_S + 0.1
        return does(*args, **more)

    raw = raw_of(talk(1))
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, later)
        passage = door.begin(raw)
    untouched(door, passage, raw, "slow")
    door.carry(passage)
    (event,) = [event for event in door.told() if event.type == "gateway.bypassed"]
    told = msgspec.to_builtins(event.payload)
    assert (told["stage"], told.get("error")) == (stage, None)
    assert told["elapsed_us"] == (STAGES_S + 0.1) * 1_000_000
    assert [(row.kind, row.status, row.plan) for row in door.rows()] == [("bypassed", "settled", b'{"why":"slow"}')]


def test_time_enough_is_time_enough(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = door.engine.parse

    def later(*args: Any, **more: Any) -> Any:
        door.work += STAGES_S - 0.1
        return parse(*args, **more)

    monkeypatch.setattr(door.engine, "parse", later)
    assert door.begin(raw_of(talk(1))).bypass is None


def test_off_on_request(door: Door) -> None:
    raw = raw_of(talk(1))
    passage = door.begin(raw, switch=" OFF ")
    untouched(door, passage, raw, "off")
    door.carry(passage)
    (event,) = [event for event in door.told() if event.type == "gateway.bypassed"]
    assert msgspec.to_builtins(event.payload)["stage"] == "off"
    assert [(row.kind, row.status, row.plan) for row in door.rows()] == [("bypassed", "settled", b'{"why":"off"}')]


def how_off(door: Door, patch: pytest.MonkeyPatch) -> dict[str, str]:
    return {"switch": "off"}


def how_slow(door: Door, patch: pytest.MonkeyPatch) -> dict[str, str]:
    find = door.identities.find

    def later(*args: Any, **more: Any) -> Any:
        door.work += STAGES_S + 1
        return find(*args, **more)

    patch.setattr(door.identities, "find", later)
    return {}


def how_prepare(door: Door, patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setattr(door.engine, "_planned", fails)
    return {}


def how_sent(door: Door, patch: pytest.MonkeyPatch) -> dict[str, str]:
    patch.setattr(door.identities, "sent", fails)
    return {}


@pytest.mark.parametrize("session", ["s", None], ids=["named", "by its chain"])
@pytest.mark.parametrize("how", [how_off, how_slow, how_prepare, how_sent])
def test_what_is_repaired_again_is_a_reset_with_the_reason(
    doors: Callable[..., Door],
    how: Callable[[Door, pytest.MonkeyPatch], dict[str, str]],
    session: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door, first = doors(ON), 0 if session else 1  # a chain with another system text needs a turn of the model
    door.send(clocked(first, 0), session=session)
    repaired, _ = door.send(clocked(first + 1, 1), session=session)
    assert b"Current values" in repaired.raw
    with monkeypatch.context() as patch:
        asked = how(door, patch)
        passage, exchange = door.send(clocked(first + 2, 2), session=session, **asked)
        assert passage.raw == clocked(first + 2, 2)
        assert exchange.record.usage is not None
    again, _ = door.send(clocked(first + 3, 3), session=session)
    assert again.lane == repaired.lane
    assert again.prepared.reset == "bypassed"
    assert (b"x-holdfast-reset", b"bypassed") in again.response_headers()
    assert again.prepared.verdict.explained
    following, _ = door.send(clocked(first + 4, 4), session=session)
    assert following.prepared.reset is None


def test_what_fails_behind_the_plan_is_still_one_call(
    doors: Callable[..., Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = doors(ON)
    door.send(clocked(0, 0))
    with monkeypatch.context() as patch:
        how_sent(door, patch)
        passage, _ = door.send(clocked(1, 1))
    rows = door.rows()
    assert [(row.id, row.kind) for row in rows[1:]] == [(passage.call, "bypassed")]
    assert rows[1].usage is not None


@pytest.mark.parametrize("end", ["refused", "cut"])
def test_what_never_got_there_is_no_reset(doors: Callable[..., Door], end: str) -> None:
    door = doors(ON)
    door.send(clocked(0, 0))
    door.send(clocked(1, 1))
    passage = door.begin(clocked(2, 2), switch="off")
    if end == "refused":
        passage.answer(529, [])
        passage.feed(b'{"type":"error"}')
        passage.finish()
    else:
        passage.cut("ConnectError")
    assert [row.error for row in door.rows()][-1] == {"refused": "HTTP 529", "cut": "ConnectError"}[end]
    again, exchange = door.send(clocked(2, 2))
    assert again.prepared.reset is None
    assert again.prepared.verdict.explained
    assert exchange.record.usage.read > 0


def test_a_conversation_that_began_past_us_is_known_when_it_goes_on(door: Door) -> None:
    first, _ = door.send(raw_of(talk(1)), session=None, switch="off")
    second, _ = door.send(raw_of(talk(2)), session=None)
    assert second.lane == first.lane


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'{"model":1}', b"\xff\xfe", b"null"])
def test_a_body_that_is_not_understood_goes_as_it_is(door: Door, raw: bytes) -> None:
    passage = door.begin(raw)
    untouched(door, passage, raw, "unreadable")
    exchange = door.carry(passage)
    assert exchange.answer.status == 400
    (row,) = door.rows()
    assert (row.kind, row.status, row.error, row.model) == ("bypassed", "failed", "HTTP 400", "unknown")


def test_the_model_of_what_is_not_understood_is_that_of_the_answer(door: Door) -> None:
    passage = door.begin(b"{")
    passage.answer(200, [(b"content-type", b"application/json")])
    passage.feed(b'{"type":"message","model":"claude-sonnet-5-5","usage":{"input_tokens":3,"output_tokens":4}}')
    passage.finish()
    (row,) = door.rows()
    assert (row.status, row.model) == ("settled", "anthropic:claude-sonnet-5-5")
    assert row.usage.cost


@pytest.mark.parametrize("encoding", ["compress", "gzip, br", "gzip"])
def test_an_encoding_that_is_not_understood_goes_as_it_is(door: Door, encoding: str) -> None:
    incoming = Incoming("POST", "/v1/messages", "", ((b"Content-Encoding", encoding.encode()),), b"no such thing")
    passage = door.passages.begin(incoming, DIALECTS["anthropic"])
    untouched(door, passage, b"no such thing", "encoding")


def test_a_body_above_the_limit_when_unpacked_goes_as_it_is(doors: Callable[..., Door]) -> None:
    raw = raw_of(talk(1))
    door = doors(gateway=GatewaySettings(limits=LimitSettings(body_bytes=len(raw) - 1)))
    untouched(door, door.begin(raw, encoding="zstd"), raw, "encoding", "zstd")


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_body_that_is_planned_goes_decoded(door: Door, encoding: str) -> None:
    passage = door.begin(raw_of(talk(1)), encoding=encoding)
    assert not passage.verbatim
    assert json.loads(passage.raw)["model"] == "claude-sonnet-5-5"
    assert b"cache_control" in passage.raw


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_body_that_is_not_changed_goes_as_it_came(doors: Callable[..., Door], encoding: str) -> None:
    door = doors(CacheSettings(strategy="passthrough", repair="off"))
    passage = door.begin(raw_of(talk(1)), encoding=encoding)
    assert passage.verbatim
    assert passage.raw is passage.incoming.body
    exchange = door.carry(passage)
    assert passage.prepared.verdict.usage.prompt == exchange.record.prompt_tokens


def test_a_store_that_is_gone_is_never_an_error(doors: Callable[..., Door], caplog: pytest.LogCaptureFixture) -> None:
    door = doors(ON)
    caplog.set_level(logging.CRITICAL)
    for turn in range(2):
        door.send(clocked(turn, turn), session=None)
    door.store.close()
    for turn in range(2, 5):
        passage, exchange = door.send(clocked(turn, turn), session=None)
        assert exchange.answer.status == 200
        assert passage.bypass is None or passage.raw == clocked(turn, turn)


def test_a_full_disk_is_never_an_error(doors: Callable[..., Door], monkeypatch: pytest.MonkeyPatch) -> None:
    door = doors(ON)
    door.send(clocked(0, 0))
    assert door.store is not None

    def full(*_args: Any, **_more: Any) -> Any:
        raise HoldfastError(f"{SECRET}: the disk is full")

    with monkeypatch.context() as broken:
        for write in ("write", "post"):
            broken.setattr(door.store, write, full)
        for turn in (1, 2):
            passage, exchange = door.send(clocked(turn, turn))
            assert passage.bypass is None  # planned, without anything that must be kept
            assert b"cache_control" in passage.raw
            assert exchange.answer.status == 200
    again, _ = door.send(clocked(3, 3))
    assert again.bypass is None
    assert again.prepared.verdict is not None


def test_settings_that_fail_let_the_bytes_through(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door.passages, "_settings", fails)
    passage = door.begin(raw_of(talk(1)))
    assert passage.raw == raw_of(talk(1))
    assert passage.bypass == "error"
    assert passage.response_headers() == []
    assert door.carry(passage).answer.status == 200


def test_an_identity_that_fails_throughout_disturbs_nobody(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("find", "tenant", "sent", "answered", "unanswered"):
        monkeypatch.setattr(door.identities, name, fails)
    passage = door.begin(raw_of(talk(1)))
    untouched(door, passage, raw_of(talk(1)), "error")
    door.carry(passage)
    assert door.rows() == []  # nobody knows whose it is
