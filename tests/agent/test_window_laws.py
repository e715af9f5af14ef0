"""What holds of every conversation, whatever happens in it: generated events, rendered after each request."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.window.entries import (
    Continue,
    KnowledgeNews,
    MemoryChanged,
    SessionContext,
    Static,
    Timeline,
    TimelineItem,
    UserMessage,
    Window,
    to_json,
)
from holdfast.agent.window.projection import advance, project
from holdfast.agent.window.renderer import entry_messages, render
from holdfast.agent.window.state import Projection
from holdfast.records import Image, Message, Opaque, Request, Text, Thinking, validate
from holdfast.records.events import Event, decode, encode
from holdfast.records.events import agent as told
from holdfast.records.events import sessions as happened
from holdfast.records.events import tools as tool_events
from tests.agent.stories import DIALECT, MODEL, STATIC, Story, at, call

OTHER = ("openai:gpt-6.1-sol", "openai_responses")
STATICS = (STATIC, Static(model=OTHER[0], dialect=OTHER[1], timezone="Asia/Kolkata"))

words = st.sampled_from(["", " ", "a", "Fix\nit.", "ü \u2028 \0", "(continue)", "x" * 400])
names = st.sampled_from(["p1", "p2", "d1"])
happening = st.one_of(
    st.builds(happened.TurnStarted, text=words),
    st.builds(happened.TurnStarted, text=words, attachments=st.just(to_json((Image("image/png", "AAAA"),)))),
    st.builds(happened.ProcessStarted, process=names, command=words),
    st.builds(happened.ProcessExited, process=names, exit_code=st.none() | st.integers(-9, 9)),
    st.builds(happened.DelegateStarted, delegate=names, role=names, task=words, awaited=st.booleans()),
    st.builds(happened.DelegateCompleted, delegate=names, result=words, awaited=st.booleans()),
    st.builds(happened.DelegateFailed, delegate=names, error_message=words, awaited=st.booleans()),
    st.builds(told.DelegateAsked, delegate=names, question=words),
    st.builds(told.TaskUpdated, task=names, status=names, text=words),
    st.builds(told.SettingToggled, setting=names, value=words),
    st.builds(told.SurroundingsChanged, text=words),
    st.builds(told.GoalSet, goal=words),
    st.builds(told.AttemptFailed, feedback=words),
    st.builds(tool_events.MemoryUpdated, store=names, operation=names, text=words),
    st.builds(tool_events.McpServerDisconnected, server=names, tools=st.just(("a", "b"))),
    st.builds(happened.SessionResumed),
    st.builds(happened.TurnCancelled),
)
answer = st.tuples(
    st.just("answer"),
    st.lists(st.sampled_from(["Done.", "", Thinking("hm", "seal"), Opaque("o", b"{}")]), max_size=3),
    st.sampled_from([(MODEL, DIALECT), OTHER]),
)
calls = st.tuples(st.just("calls"), st.integers(1, 3), st.booleans())
reset = st.tuples(st.sampled_from(["compact", "trim", "refresh"]), st.integers(0, 12), st.integers(0, 12))
steps = st.lists(
    st.one_of(happening, happening, happening, st.just(("send",)), answer, answer, calls, reset),
    min_size=5,
    max_size=60,
)
sometimes = settings(max_examples=120)


class Telling:
    """Tells steps as a session would: a request leaves before an answer comes, calls are answered before the next one.

    `sent` holds each request since the last reset, per model; `kept` says how many entries a reset left alone."""

    def __init__(self) -> None:
        self.story = Story().begin()
        self.sent: list[tuple[tuple[Message, ...], ...]] = []

    def step(self, step: Event | tuple[object, ...]) -> None:
        if isinstance(step, Event):
            # Times come from several processes: they need not be in order.
            number = len(self.story.envelopes)
            self.story.happen(step, time=at(number - number % 3))
            return
        match step:
            case ("send",):
                self.send()
            case ("answer", list(blocks), (str(model), str(dialect))):
                self.send()
                self.story.answer(*blocks, model=model, dialect=dialect)
            case ("calls", int(count), bool(late)):
                self.send()
                self.story.answer("See.", *(call(f"t{i}") for i in range(count)))
                more = (Message("system", (Opaque("additional_tools", b"{}"),)),) if late else ()
                self.story.results(late=more)
            case (str(kind), int(head), int(cut)):
                self.reset(kind, head, cut)

    def send(self) -> None:
        self.story.send()
        self.sent.append(tuple(self.story.render(static) for static in STATICS))

    def reset(self, kind: str, head: int, cut: int) -> None:
        window = self.story.window
        head, cut = 1 + head % len(window.entries), 1 + cut % len(window.entries)
        head, cut = min(head, cut), max(head, cut)
        alone = Window(window.entries[:head], window.borders[:head])
        if kind == "refresh":
            entry = SessionContext(at=self.story.now, text="Read again.")
            self.story.happen(told.SessionRefreshed(entry=to_json(entry)))
        elif kind == "trim":
            self.story.happen(told.HistoryTrimmed(head=head, cut=cut))
        else:
            self.story.compact(head, cut)
        self.sent.clear()
        if kind != "refresh":
            self.sent.append(tuple(_whole(render(alone, static)) for static in STATICS))


def _whole(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Of the messages before a cut all but the last, which may have held more than is left."""
    return messages[:-1]


def tell(given_steps: list[Event | tuple[object, ...]]) -> Telling:
    telling = Telling()
    for step in given_steps:
        telling.step(step)
    return telling


@sometimes
@given(steps)
def test_what_was_sent_stands_unchanged_at_the_beginning_of_every_later_request(
    given_steps: list[Event | tuple[object, ...]],
) -> None:
    telling = Telling()
    for step in given_steps:
        telling.step(step)
        for index, static in enumerate(STATICS):
            now = telling.story.render(static)
            for before in telling.sent:
                assert now[: len(before[index])] == before[index]


@sometimes
@given(steps)
def test_every_request_is_a_conversation_that_providers_take(given_steps: list[Event | tuple[object, ...]]) -> None:
    telling = tell([*given_steps, ("send",)])
    for static in STATICS:
        messages = telling.story.render(static)
        assert validate(Request(model="m", messages=messages)) == ()
        assert messages[0].role == "user"
        assert messages[-1].role != "assistant"
        blocks = [block for message in messages for block in message.content]
        assert all(block.text.strip() for block in blocks if isinstance(block, Text))


@sometimes
@given(steps, st.data())
def test_a_session_that_is_read_again_at_any_line_goes_on_as_if_nothing_had_happened(
    given_steps: list[Event | tuple[object, ...]], data: st.DataObject
) -> None:
    story = tell(given_steps).story
    cut = data.draw(st.integers(0, len(story.envelopes)))
    stored = [decode(encode(envelope)) for envelope in story.envelopes]
    state: Projection = project(stored[:cut])
    for envelope in stored[cut:]:
        state = advance(state, envelope)
    assert state == story.state == project(stored)
    assert render(state.window, STATIC) == story.render()


@sometimes
@given(steps)
def test_coalescing_moves_blocks_and_never_changes_or_drops_one(given_steps: list[Event | tuple[object, ...]]) -> None:
    window = tell(given_steps).story.window
    assert len(window.borders) == len(window.entries) >= window.sent
    alone = [message for entry in window.entries for message in entry_messages(entry, STATIC)]
    together = render(window, STATIC)
    assert [block for message in alone for block in message.content] == [
        block for message in together for block in message.content
    ]
    assert len(together) <= len(alone)


@sometimes
@given(steps)
def test_what_waits_is_flushed_whole_once_and_in_order(given_steps: list[Event | tuple[object, ...]]) -> None:
    telling = Telling()
    for step in given_steps:
        waiting, before = telling.story.state.queue, telling.story.window.entries
        telling.step(step)
        if isinstance(step, Event) or step[0] not in ("send", "answer", "calls"):
            continue
        fresh = [entry for entry in telling.story.window.entries[len(before) :] if isinstance(entry, Timeline)]
        assert len(fresh) <= 1
        items = [item for entry in fresh for item in entry.items if not isinstance(item, Continue)]
        assert items == sorted(items, key=lambda item: (_before_the_user(item, items), item.at, item.seq))
        assert {item.seq for item in items} == {item.seq for item in waiting if not _stale(item, waiting)}
        assert all(_stale(item, waiting) for item in telling.story.state.queue)


def _before_the_user(item: TimelineItem, items: list[TimelineItem]) -> int:
    """What stands before the first thing the user says: what happened before it, and behind that what there is of
    memory."""
    said = min(((each.at, each.seq) for each in items if isinstance(each, UserMessage)), default=None)
    if said is None or (item.at, item.seq) < said:
        return 0
    return 1 if isinstance(item, MemoryChanged | KnowledgeNews) else 2


def _stale(item: TimelineItem, waiting: tuple[TimelineItem, ...]) -> bool:
    """Whether it never was news: a user who said nothing, a memory that has changed again since."""
    if isinstance(item, UserMessage):
        return not item.text.strip() and not item.attachments
    later = [each for each in waiting if (each.at, each.seq) > (item.at, item.seq)]
    return isinstance(item, MemoryChanged) and any(
        isinstance(each, MemoryChanged) and each.store == item.store for each in later
    )


@sometimes
@given(steps)
def test_entries_that_stay_are_never_touched(given_steps: list[Event | tuple[object, ...]]) -> None:
    telling = Telling()
    for step in given_steps:
        before = telling.story.window.entries
        telling.step(step)
        if isinstance(step, Event) or step[0] in ("send", "answer", "calls"):
            assert telling.story.window.entries[: len(before)] == before
