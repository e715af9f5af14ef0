"""What is sent differs from what the client sent by what the plan says and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from holdfast.config.sections.cache import CacheSettings
from holdfast.core.strategies import STRATEGIES
from holdfast.engine.passage import Incoming, Passage
from holdfast.wire import DIALECTS, Body, Dialect, dialect_of
from tests import shapes
from tests.engine.passage.door import ENCODERS, Door
from tests.shapes import Shape

RUNS = [
    [shape for shape in run if shape.dialect is not None and shape.body is not None]
    for run in shapes.conversations().values()
]
ids = [f"{run[0].client}/{run[0].run}" for run in RUNS if run]
each_run = pytest.mark.parametrize("run", [run for run in RUNS if run], ids=ids)
MARKING = [name for name in STRATEGIES if name != "passthrough"]


def incoming(shape: Shape, encoding: str = "") -> Incoming:
    path, _, query = shape.path.partition("?")
    headers = [(name.encode(), value.encode()) for name, value in shape.headers if name.lower() != "content-encoding"]
    headers += [(b"content-encoding", encoding.encode())] if encoding else []
    return Incoming("POST", path, query, tuple(headers), ENCODERS[encoding](shape.body or b""))


def passed(door: Door, run: Iterable[Shape], encoding: str = "") -> Iterator[tuple[Shape, Passage, Dialect, str]]:
    """The run's requests one after the other, each answered."""
    for shape in run:
        found = dialect_of(shape.path.partition("?")[0])
        assert found is not None
        door.clock.advance(10)
        passage = door.passages.begin(incoming(shape, encoding), *found)
        assert passage.bypass is None
        yield shape, passage, *found
        passage.answer(200, [(b"content-type", b"application/json")])
        passage.feed(b"{}")
        passage.finish()


def bare(raw: bytes, dialect: Dialect, model: str) -> bytes:
    """A body without its markers, by the dialect's own removal."""
    while True:
        body = dialect.parse(raw, model=model)
        markers = dialect.markers(body)
        if not markers:
            return raw
        raw = body.apply(dialect.remove(body, markers[0]))


def unwrapped(raw: bytes, dialect: Dialect, model: str) -> list[bytes]:
    """The content of every block and all that is beside the blocks: a bare text that was given a marker is a block."""
    body = dialect.parse(raw, model=model)
    assert isinstance(body, Body)
    rest = [body.member(name) or b"" for name in body.members if name not in ("messages", "input", "system", "tools")]
    return [*(dialect.content(body, index) for index in range(len(body.blocks))), *rest]


@pytest.mark.unmeasured
@each_run
@pytest.mark.parametrize("strategy", MARKING)
def test_without_markers_it_is_what_the_client_sent(run: list[Shape], strategy: str) -> None:
    door = Door(CacheSettings(strategy=strategy, repair="off"))  # type: ignore[arg-type]
    for shape, passage, dialect, model in passed(door, run):
        raw = shape.body or b""
        if passage.verbatim:
            assert passage.raw is passage.incoming.body
        if passage.raw == raw:
            continue
        assert passage.prepared.sent.raw == raw  # markers are all that was added
        before, after = bare(raw, dialect, model), bare(passage.raw, dialect, model)
        assert before == after or unwrapped(before, dialect, model) == unwrapped(after, dialect, model)


@pytest.mark.unmeasured
@each_run
def test_with_repairs_what_is_prepared_is_what_is_sent_but_for_markers(run: list[Shape]) -> None:
    door = Door(CacheSettings(repair="on"))
    for _shape, passage, dialect, model in passed(door, run):
        if passage.prepared is None:
            assert passage.raw is passage.incoming.body
            continue
        sent = passage.prepared.sent.raw
        before, after = bare(sent, dialect, model), bare(passage.raw, dialect, model)
        assert before == after or unwrapped(before, dialect, model) == unwrapped(after, dialect, model)
        changed = any(repair.applied for repair in passage.prepared.repairs)
        assert changed or sent == passage.incoming.body


@pytest.mark.unmeasured
@each_run
@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_as_the_client_sent_it(run: list[Shape], encoding: str) -> None:
    door = Door(CacheSettings(strategy="passthrough", repair="off", client_markers="respect"))
    for _shape, passage, _dialect, _model in passed(door, run, encoding):
        assert passage.verbatim
        assert passage.raw is passage.incoming.body


@pytest.mark.slow
@settings(max_examples=100)
@given(data=st.data())
def test_any_requests_in_any_order_under_any_settings(data: st.DataObject) -> None:
    """As a gateway sees them: requests of several clients, twice, backwards, left out."""
    known = [shape for run in RUNS for shape in run if len(shape.body or b"") < 60_000]
    chosen = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=5))
    door = Door(
        CacheSettings(
            strategy=data.draw(st.sampled_from([*STRATEGIES])),  # type: ignore[arg-type]
            repair="off",
            client_markers=data.draw(st.sampled_from(["respect", "improve", "manage"])),  # type: ignore[arg-type]
        )
    )
    for shape, passage, dialect, model in passed(door, chosen):
        raw = shape.body or b""
        before, after = bare(raw, dialect, model), bare(passage.raw, dialect, model)
        assert before == after or unwrapped(before, dialect, model) == unwrapped(after, dialect, model)


def is_object(raw: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(raw), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


@example(raw=b'{"":', dialect="anthropic", encoding="")
@given(raw=st.binary(max_size=200), dialect=st.sampled_from(sorted(DIALECTS)), encoding=st.sampled_from(["", "gzip"]))
def test_what_is_no_request_goes_as_it_came(raw: bytes, dialect: str, encoding: str) -> None:
    assume(not is_object(raw))  # which is one, if it says little
    door = Door()
    headers = ((b"content-encoding", encoding.encode()),) if encoding else ()
    passage = door.passages.begin(Incoming("POST", "/v1/messages", "", headers, raw), DIALECTS[dialect], "m")
    assert passage.raw is raw
    assert passage.bypass in ("unreadable", "encoding")
    passage.answer(400, [])
    passage.feed(raw)
    passage.finish()
