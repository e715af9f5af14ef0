"""Events of a conversation as a test tells them, one second apart, and what follows from them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agent.window.entries import (
    AssistantTurn,
    Compacted,
    SessionContext,
    Static,
    Window,
    to_json,
)
from holdfast.agent.window.projection import advance
from holdfast.agent.window.renderer import render
from holdfast.agent.window.state import Projection, flush
from holdfast.records import Block, Message, Text, ToolResult, ToolUse
from holdfast.records.events import Envelope, Event
from holdfast.records.events.agent import SessionRefreshed, TurnAnswered, TurnToolsAnswered, WindowAppended, WindowSent
from holdfast.records.events.sessions import CompactionCompleted, SessionStarted, TurnStarted

START = 1_794_825_725_000_000
"""2026-11-16 10:42:05 UTC."""
MODEL, DIALECT = "anthropic:claude-opus-5-5", "anthropic"
STATIC = Static(model=MODEL, dialect=DIALECT)


def at(seconds: float) -> int:
    return START + int(seconds * 1_000_000)


class Story:
    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.state = Projection()

    def happen(self, *payloads: Event, time: int | None = None, turn: str | None = None) -> Story:
        for payload in payloads:
            seq = len(self.envelopes)
            envelope = Envelope.of(
                payload, id=f"{seq:026d}", at=at(seq) if time is None else time, session="s1", actor="system", turn=turn
            )
            self.envelopes.append(envelope)
            self.state = advance(self.state, envelope)
        return self

    @property
    def now(self) -> int:
        return at(len(self.envelopes))

    @property
    def window(self) -> Window:
        return self.state.window

    def render(self, static: Static = STATIC) -> tuple[Message, ...]:
        return render(self.window, static)

    def begin(self, surroundings: str = "The workspace is empty.") -> Story:
        context = SessionContext(at=self.now, text=surroundings)
        return self.happen(SessionStarted(model=MODEL), WindowAppended(entries=to_json((context,))))

    def says(self, text: str) -> Story:
        return self.happen(TurnStarted(text=text))

    def flush(self) -> Story:
        entries = flush(self.state, self.now)
        return self.happen(WindowAppended(entries=to_json(entries))) if entries else self

    def send(self) -> Story:
        """A request leaves, whatever becomes of it."""
        self.flush()
        return self.happen(WindowSent(call="c", model=MODEL, entries=len(self.window.entries)))

    def answer(self, *blocks: Block | str, model: str = MODEL, dialect: str = DIALECT) -> Story:
        content = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
        said = to_json(Message("assistant", content))
        return self.happen(TurnAnswered(call="c", model=model, dialect=dialect, message=said, input=10, output=5))

    def results(self, *texts: str, late: tuple[Message, ...] = ()) -> Story:
        """Every open call is answered, with these texts in order."""
        calls = self.state.open_calls
        said = (*texts, *("done",) * (len(calls) - len(texts)))
        results = tuple(ToolResult(call.id, (Text(text),)) for call, text in zip(calls, said, strict=True))
        return self.happen(TurnToolsAnswered(messages=to_json((Message("user", results), *late))))

    def turn(self, text: str, answer: str) -> Story:
        return self.says(text).send().answer(answer)

    def compact(self, head: int, cut: int, summary: str = "What happened before.") -> Story:
        entry = Compacted(at=self.now, text=summary, replaced=cut - head)
        return self.happen(
            CompactionCompleted(tokens_before=9, tokens_after=1, head=head, cut=cut, entry=to_json(entry))
        )


def call(id: str, name: str = "read_file", input: bytes = b'{"path":"a.py"}') -> ToolUse:
    return ToolUse(id, name, input)


def texts(messages: tuple[Message, ...]) -> list[list[str]]:
    """The texts of each message; anything else by the name of its kind."""
    return [
        [block.text if isinstance(block, Text) else type(block).__name__ for block in message.content]
        for message in messages
    ]


def window(*entries: object, borders: tuple[bool, ...] | None = None) -> Window:
    """A window of entries that were put there by hand."""
    made = tuple(entries)
    return Window(made, borders or (False,) * len(made))  # type: ignore[arg-type]


def assistant_turn(
    *blocks: Block, model: str = MODEL, dialect: str = DIALECT, results: tuple[Message, ...] = ()
) -> AssistantTurn:
    return AssistantTurn(at=START, message=Message("assistant", blocks), results=results, model=model, dialect=dialect)


_READABLE: dict[type[Event], dict[str, str]] = {
    WindowAppended: {"entries": "[]"},
    SessionRefreshed: {"entry": to_json(SessionContext(at=START, text="x"))},
    CompactionCompleted: {"entry": to_json(Compacted(at=START, text="x"))},
    TurnAnswered: {"message": to_json(Message("assistant", (Text("x"),)))},
    TurnToolsAnswered: {"messages": "[]"},
}


def example(event: type[Event]) -> Event:
    """Any event of a type, with bodies that can be read."""
    info = msgspec.inspect.type_info(event)
    assert isinstance(info, msgspec.inspect.StructType)
    values: dict[str, Any] = {}
    for field in info.fields:
        if field.required:
            values[field.name] = _value(field.type)
    made: Event = msgspec.convert({**values, **_READABLE.get(event, {})}, event)
    return made


def _value(kind: msgspec.inspect.Type) -> Any:
    match kind:
        case msgspec.inspect.Metadata():
            return "0" * 64 if (kind.extra or {}).get("kind") == "digest" else _value(kind.type)
        case msgspec.inspect.StrType():
            return "x"
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.LiteralType():
            return kind.values[0]
        case msgspec.inspect.UnionType():
            return _value(kind.types[0])
        case msgspec.inspect.VarTupleType() | msgspec.inspect.TupleType():
            return []
        case _:
            return 1


ID = "01JCSESSION"


def started_turns(*texts: str) -> list[Envelope]:
    return [
        Envelope.of(TurnStarted(text=text), id=f"{i:026d}", at=i, session=ID, actor="user")
        for i, text in enumerate(texts)
    ]
