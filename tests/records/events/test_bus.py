"""The bus waits for no subscriber, stops for no failing one, and loses nothing silently."""

from __future__ import annotations

import logging
import sys
import threading

import pytest

from holdfast.errors import HoldfastError
from holdfast.records.events import Bus, Envelope, Ulids
from holdfast.records.events.sessions import BusGap, TurnCancelled, TurnStarted

ids = Ulids()


def event(number: int = 0) -> Envelope:
    return Envelope.of(TurnCancelled(open_tool_calls=number), id=ids.new(), at=number, session="s", actor="agent")


def numbers(events: list[Envelope]) -> list[int]:
    return [one.payload.open_tool_calls for one in events if isinstance(one.payload, TurnCancelled)]


def test_every_subscriber_gets_every_event_in_order() -> None:
    seen: list[Envelope] = []
    with Bus() as bus:
        bus.subscribe(seen.append)
        pull = bus.subscribe()
        events = [event(n) for n in range(500)]
        for one in events:
            bus.publish(one)
        assert pull.drain(3) == events[:3]
        assert pull.drain() == events[3:]
        assert pull.drain() == []
    assert seen == events


def test_a_full_queue_drops_for_that_subscriber_only_and_says_what_is_missing() -> None:
    with Bus(ids=ids, now=lambda: 77) as bus:
        small, large = bus.subscribe(limit=3, name="small"), bus.subscribe(limit=100)
        events = [event(n) for n in range(10)]
        for one in events[:8]:
            bus.publish(one)
        got = small.drain()
        bus.publish(events[8])
        assert numbers(got[:3]) == [0, 1, 2]
        gap = got[3]
        assert gap.payload == BusGap(dropped=5, first=events[3].id, last=events[7].id)
        assert (gap.type, gap.actor, gap.at, gap.session) == ("bus.gap", "system", 77, "system")
        assert len(got) == 4
        assert numbers(small.drain()) == [8]
        assert small.dropped == 5
        assert numbers(large.drain()) == list(range(9))
        assert large.dropped == 0


def test_a_gap_stands_between_the_events_it_lies_between() -> None:
    with Bus(ids=ids) as bus:
        pull = bus.subscribe(limit=2)
        for n in range(4):
            bus.publish(event(n))
        first = pull.drain(1)
        for n in range(4, 7):
            bus.publish(event(n))
        got = first + pull.drain()
        shape = [one.payload.dropped if isinstance(one.payload, BusGap) else "event" for one in got]
        assert shape == ["event", "event", 2, "event", 2]
        assert numbers(got) == [0, 1, 4]
        assert len({one.id for one in got}) == len(got)


def test_publishing_does_not_wait_for_a_subscriber_that_hangs() -> None:
    hang, entered = threading.Event(), threading.Event()
    seen: list[Envelope] = []

    def stuck(one: Envelope) -> None:
        entered.set()
        hang.wait()
        seen.append(one)

    with Bus() as bus:
        subscription = bus.subscribe(stuck, limit=5)
        bus.publish(event(0))
        assert entered.wait(30)
        for n in range(1, 101):
            bus.publish(event(n))
        hang.set()
    assert numbers(seen) == [0, 1, 2, 3, 4, 5]
    assert isinstance(seen[-1].payload, BusGap)
    assert seen[-1].payload.dropped == subscription.dropped == 95


def test_a_callback_that_raises_is_recorded_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Envelope] = []

    def fail(one: Envelope) -> None:
        raise ZeroDivisionError(one.id)

    with caplog.at_level(logging.ERROR), Bus() as bus:
        failing = bus.subscribe(fail, name="the failing one")
        bus.subscribe(seen.append)
        for n in range(3):
            bus.publish(event(n))
    assert numbers(seen) == [0, 1, 2]
    assert failing.failures == 3
    assert isinstance(failing.last_failure, ZeroDivisionError)
    assert caplog.text.count("the failing one failed on turn.cancelled") == 3


def test_a_subscriber_may_ask_for_some_types_and_still_hears_of_gaps() -> None:
    with Bus() as bus:
        pull = bus.subscribe(types={"turn.started"}, limit=1)
        started = Envelope.of(TurnStarted(text="hi"), id=ids.new(), at=0, session="s", actor="user")
        for one in (event(), started, event(), started):
            bus.publish(one)
        assert [one.type for one in pull.drain()] == ["turn.started", "bus.gap"]


def test_close_delivers_what_is_queued_and_later_events_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Envelope] = []
    bus = Bus()
    bus.subscribe(seen.append)
    pull = bus.subscribe()
    for n in range(200):
        bus.publish(event(n))
    bus.close()
    assert numbers(seen) == list(range(200))
    assert numbers(pull.drain()) == list(range(200))
    bus.publish(event())
    assert bus.refused == 1
    assert "after the bus closed" in caplog.text
    bus.close()
    with pytest.raises(HoldfastError, match="bus is closed"):
        bus.subscribe()


def test_a_subscription_can_leave_alone() -> None:
    seen: list[Envelope] = []
    with Bus() as bus:
        leaving = bus.subscribe(seen.append)
        staying = bus.subscribe()
        bus.publish(event(1))
        leaving.close()
        bus.publish(event(2))
        assert numbers(seen) == [1]
        assert numbers(staying.drain()) == [1, 2]
        assert bus.refused == 0


def test_a_callback_may_publish_and_may_close_its_own_subscription() -> None:
    done = threading.Event()
    with Bus() as bus:
        pull = bus.subscribe(types={"turn.started"})

        def answer(one: Envelope) -> None:
            bus.publish(Envelope.of(TurnStarted(), id=ids.new(), at=1, session=one.session, actor="system"))
            own.close()
            done.set()

        own = bus.subscribe(answer, types={"turn.cancelled"})
        bus.publish(event())
        assert done.wait(30)
        assert len(pull.drain()) == 1


def test_misuse_is_told() -> None:
    with Bus() as bus:
        with pytest.raises(HoldfastError, match="at least one"):
            bus.subscribe(limit=0)
        with pytest.raises(HoldfastError, match="subscribe without one"):
            bus.subscribe(lambda one: None).drain()


def test_many_threads_publish_and_every_event_arrives_or_is_counted() -> None:
    seen: list[Envelope] = []
    with Bus() as bus:
        bus.subscribe(seen.append, limit=50, name="slow")
        pull = bus.subscribe(limit=100_000)

        def publish(thread: int) -> None:
            for n in range(1000):
                bus.publish(event(thread * 1000 + n))

        threads = [threading.Thread(target=publish, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        everything = numbers(pull.drain())
    assert sorted(everything) == list(range(4000))
    for thread in range(4):
        own = [n for n in everything if n // 1000 == thread]
        assert own == sorted(own)
    dropped = sum(one.payload.dropped for one in seen if isinstance(one.payload, BusGap))
    assert len(numbers(seen)) + dropped == 4000


def test_a_callback_that_hangs_does_not_keep_the_bus_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    entered, go = threading.Event(), threading.Event()

    def hang(_: Envelope) -> None:
        entered.set()
        go.wait()

    bus = Bus()
    bus.subscribe(hang, name="the hanging one")
    for n in range(3):
        bus.publish(event(n))
    assert entered.wait(30)
    bus.close(timeout=0.01)
    go.set()
    assert "the hanging one hangs; 2 queued events are not delivered" in caplog.text


def test_a_callback_that_ends_the_program_ends_nothing() -> None:
    seen: list[Envelope] = []

    def leave(one: Envelope) -> None:
        seen.append(one)
        sys.exit()

    with Bus() as bus:
        leaving = bus.subscribe(leave)
        for n in range(3):
            bus.publish(event(n))
    assert numbers(seen) == [0, 1, 2]
    assert leaving.failures == 3
    assert isinstance(leaving.last_failure, SystemExit)


def test_an_event_that_comes_while_the_bus_closes_is_counted_not_given_to_some() -> None:
    entered, go = threading.Event(), threading.Event()

    def slow(_: Envelope) -> None:
        entered.set()
        go.wait()

    bus = Bus()
    bus.subscribe(slow)
    late = bus.subscribe()
    bus.publish(event(0))
    assert entered.wait(30)
    closing = threading.Thread(target=bus.close)
    closing.start()
    while not bus.closed:
        closing.join(0.001)
    bus.publish(event(1))
    go.set()
    closing.join()
    assert numbers(late.drain()) == [0]
    assert bus.refused == 1
