"""The views of a chat: the next request block by block, the cache, costs, sessions, memory, skills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from holdfast import report
from holdfast.agent import InspectedBlock, Session, SessionOnDisk
from holdfast.cli import tables
from holdfast.cli.breaks import cures
from holdfast.cli.show import note
from holdfast.cli.tables import Column, dollars
from holdfast.engine.identity import LOCAL
from holdfast.memory import FILES, STORES
from holdfast.report import CallReport
from holdfast.store import Store
from holdfast.wording import counted

from .words import cost_line, one_line

BLOCKS = (
    Column("PLACE", 3, least=12, tail=True),
    Column("OWNER", 0, least=10),
    Column("TOKENS", 1, right=True),
    Column("AGE", 4, right=True),
    Column("CACHED", 2),
    Column("BEGINS", 5, least=12),
)
CALLS = (
    Column("TIME", 3),
    Column("EXPECTED", 1, right=True),
    Column("READ", 0, right=True),
    Column("WRITTEN", 4, right=True),
    Column("INPUT", 5, right=True),
    Column("COST", 6, right=True),
    Column("NOTE", 2, least=12, always=False),
)
STORED = (
    Column("SESSION", 0),
    Column("LAST USED", 1),
    Column("TURNS", 4, right=True),
    Column("COST", 3, right=True),
    Column("BEGINS", 2, least=12),
    Column("AGENT", 5, always=False),
    Column("MODEL", 6, least=16),
    Column("WORKSPACE", 7, least=16, tail=True, always=False),
)

LATEST = 8
"""Calls that `/cache` lists."""

WIDEST_BAR = 60


def context(blocks: Sequence[InspectedBlock], limit: int, now: float, room: int | None) -> Iterator[str]:
    """Every block of the next request, what they come to, and a bar of the model's window."""
    yield from tables.table(BLOCKS, (_block(each, now) for each in blocks), room)
    whole = sum(each.tokens for each in blocks)
    cached = sum(each.tokens for each in blocks if each.cached)
    yield ""
    yield bar(cached, whole, limit, room)
    share = f" ({whole / limit:.1%})" if limit else ""
    yield from tables.wrapped(
        f"{counted(len(blocks), 'block')}, about {whole:,} of {limit:,} tokens{share}; {cached:,} are cached now, "
        f"{whole - cached:,} are not.",
        room,
    )
    owners: dict[str, int] = {}
    for each in blocks:
        owners[each.owner] = owners.get(each.owner, 0) + each.tokens
    largest = sorted(owners.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{one_line(owner)} {tokens:,}" for owner, tokens in largest)
    yield from tables.wrapped(f"By owner: {shares}.", room, indent="  ")


def _block(each: InspectedBlock, now: float) -> tuple[str, ...]:
    age = "-" if each.at is None else span(now - each.at)
    return each.path, each.owner, tables.count(each.tokens), age, "yes" if each.cached else "no", one_line(each.head)


def bar(cached: int, whole: int, limit: int, room: int | None) -> str:
    """`[####++.....]`: cached, not cached, free. What is there is never drawn as nothing."""
    size = min(WIDEST_BAR, (room or 80) - 2)
    most = max(limit, whole, 1)
    first = _share(cached, most, size)
    second = min(_share(whole - cached, most, size), size - first)
    return f"[{'#' * first}{'+' * second}{'.' * (size - first - second)}]"


def _share(part: int, most: int, size: int) -> int:
    return max(1, round(part / most * size)) if part else 0


def span(seconds: float) -> str:
    """`12s`, `3m`, `2h`, `5d`."""
    seconds = max(seconds, 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"


class _Spent(Struct, frozen=True):
    """What a session has cost in all, its sub-agents and compactions included."""

    calls: int
    tokens: tuple[int, int, int, int]
    """Input, read, written, output."""
    cost: Decimal | None
    unpriced: int
    delegated: Decimal | None


def _spent(session: Session, store: Store | None) -> _Spent:
    """As the bill has it; where nothing is billed, as the session's log has it."""
    if store is not None:
        store.flush(2.0)
    billed = None if store is None else report.spent(store, session.id, tenant=session.lane.tenant)
    if billed is None:
        log = session.state
        tokens = log.input, log.read, log.written, log.output
        return _Spent(log.calls, tokens, log.cost + log.delegated_cost, log.unpriced, log.delegated_cost)
    whole = billed.session
    tokens = whole.uncached_tokens, whole.cached_tokens, whole.creation_tokens, whole.output_tokens
    helpers = sum((lane.cost for lane in billed.lanes if lane.parent and lane.cost), Decimal(0))
    return _Spent(whole.calls, tokens, whole.cost, whole.unpriced, helpers)


def cost(session: Session, store: Store | None, room: int | None) -> Iterator[str]:
    """What was paid since the session was opened here, and in all."""
    line = session.totals()
    if line.calls:
        line = replace(line, model=", ".join(dict.fromkeys(each.model for each in session.lines)))
        yield from tables.wrapped(f"Here: {cost_line(line, session.delegated)}", room, indent="  ")
        if line.short:
            yield from tables.wrapped(_too_short(session, line.short), room)
    whole = _spent(session, store)
    tokens_in, read, written, output = whole.tokens
    prompt = tokens_in + read + written
    rate = f" ({read / prompt:.0%})" if prompt else ""
    helpers = f", of which {dollars(whole.delegated)} by sub-agents" if whole.delegated else ""
    paid = tables.cost(whole.cost, whole.unpriced)
    yield from tables.wrapped(
        f"In all: {counted(session.state.turns, 'turn')}, {counted(whole.calls, 'call')}, in {tokens_in:,}, "
        f"read {read:,}{rate}, written {written:,}, out {output:,}: {paid}{helpers}.",
        room,
        indent="  ",
    )
    if whole.unpriced:
        yield from tables.wrapped(f"The price of {counted(whole.unpriced, 'call')} is unknown.", room)


def cache(session: Session, store: Store | None, room: int | None) -> Iterator[str]:
    """How well the cache serves this session, what is alive, the last verdicts, breaks and resets."""
    state, now = session.state, session.clock()
    prompt = state.input + state.read + state.written
    if not prompt:
        yield "Nothing was sent yet."
        return
    yield from tables.wrapped(
        f"{state.read / prompt:.1%} of {prompt:,} prompt tokens were read from the cache; {state.written:,} were "
        f"written to it, {state.input:,} were neither.",
        room,
    )
    last = session.engine.ledger(session.lane, now=now).last
    if last is None:
        yield from tables.wrapped(f"Nothing was sent to {session.model} yet.", room)
    else:
        alive = session.engine.fence(session.lane, now=now)
        ago = span(now - last.at)
        yield from tables.wrapped(
            f"{alive:,} of the {counted(len(last), 'block')} of the last request, {ago} ago, are under a live entry of "
            f"{session.model}.",
            room,
        )
        yield from _below_the_floor(session, room)
    if store is not None:
        store.flush(2.0)
        yield from _stored_calls(store, session, room)


def _below_the_floor(session: Session, room: int | None) -> Iterator[str]:
    """Why nothing is cached where the prompt is too short for it."""
    last, floor = session.state.last, session.facts.floor
    if last is None or last.read or last.written or not last.input < floor:
        return
    yield from tables.wrapped(_too_short(session, last.input), room)


def _too_short(session: Session, tokens: int) -> str:
    """Why nothing is cached, and what can be done about it."""
    composed, mode = session.state.composed, session.settings.cache.padding
    why = "" if composed is None or not composed.padding else f" ({composed.padding})"
    if composed is not None and composed.model != session.model:
        why = f" (it was made for {composed.model})"
    cure = {
        "off": 'cache.padding = "economic" fills the prompt of a new session where that pays, "always" in any case',
        "economic": f'cache.padding = "economic" left it as it is{why}; "always" fills it in any case',
        "always": f"cache.padding_max leaves no room for more{why}",
    }[mode]
    return (
        f"Nothing was cached: the prompt's {tokens:,} tokens are below the {session.facts.floor:,} that "
        f"{session.model} needs; until the conversation is longer there is nothing to read. {cure}."
    )


def _stored_calls(store: Store, session: Session, room: int | None) -> Iterator[str]:
    try:
        session_report = report.session(store, session.id, tenant=session.lane.tenant, limit=1_000)
    except report.UnknownIdError:
        return
    calls = [each for each in session_report.calls if each.usage is not None or each.error]
    yield ""
    yield from tables.table(CALLS, (_call(each) for each in calls[-LATEST:]), room)
    breaks = [one for each in session_report.calls for one in each.breaks]
    resets = [each for each in session_report.calls if each.reset is not None]
    yield ""
    if resets:
        reasons = ", ".join(f"{each.reset} at {_time(each.started)}" for each in resets)
        yield from tables.wrapped(f"Resets, which have a reason: {reasons}.", room, indent="  ")
    unexplained = [one for one in breaks if one.reason is None]
    if not unexplained:
        yield "No breaks."
        return
    for one in unexplained:
        yield from tables.wrapped(
            f"Break at {_time(one.at)}: {one.cause or 'unknown'}, {one.tokens:,} tokens, {dollars(one.dollars)}"
            f"{f', {one.path}' if one.path else ''}.",
            room,
            indent="  ",
        )
    yield from cures(tuple(breaks), room)


def _call(each: CallReport) -> tuple[str, ...]:
    used = each.usage
    return (
        _time(each.started),
        "-" if each.predicted is None else tables.count(each.predicted.read),
        "-" if used is None else tables.count(used.read),
        "-" if used is None else tables.count(used.written),
        "-" if used is None else tables.count(used.input),
        "-" if used is None else dollars(used.cost),
        note(each),
    )


def _time(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S")


def stored(
    sessions: Sequence[SessionOnDisk],
    store: Store | None,
    room: int | None,
    *,
    workspace: str = "",
    most: int | None = None,
) -> Iterator[str]:
    """Sessions, the newest first. `workspace` is not named. Costs are those of the bill, where the store has them."""
    short = tables.short_ids(each.id for each in sessions)
    shown = sessions if most is None else sessions[:most]
    rows = [_stored(each, _paid(each, store), short, workspace) for each in shown]
    yield from tables.table(STORED, rows, room)
    if len(shown) < len(sessions):
        yield ""
        yield f"{counted(len(sessions) - len(shown), 'older session')} left out; `holdfast chat --list` shows all."


def _paid(each: SessionOnDisk, store: Store | None) -> str:
    billed = None if store is None else report.spent(store, each.id, tenant=LOCAL)
    return dollars(each.cost) if billed is None else tables.cost(billed.session.cost, billed.session.unpriced)


def _stored(each: SessionOnDisk, paid: str, short: dict[str, str], workspace: str) -> tuple[str, ...]:
    return (
        short[each.id],
        tables.day(datetime.fromtimestamp(each.last_at / 1_000_000, UTC)),
        tables.count(each.turns),
        paid,
        one_line(each.title) or "-",
        each.agent or "-",
        each.model,
        "-" if each.workspace == workspace else each.workspace or "-",
    )


def memory(session: Session, room: int | None) -> Iterator[str]:
    """Yield both memory files as the model gets them with their sizes, then the entries of the knowledge store that
    were shown in this conversation."""
    for file in FILES:
        text = session.memory.read(file)
        soft, hard = session.memory.caps(file)
        size = len(f"{text}\n".encode()) if text else 0
        full = f"; more than {soft:,}: it should be consolidated" if size > soft else ""
        yield from tables.wrapped(f".holdfast/{STORES[file]}: {size:,} of {hard:,} bytes{full}.", room)
        yield from (f"  {line}" for line in text.splitlines())
    if session.knowledge is None:
        return
    entries = [each for each in session.state.surfaced if each.hash]
    yield from tables.wrapped(
        f"Knowledge told in this conversation: {len(entries):,} entries. `holdfast memory` lists and changes them all.",
        room,
    )
    for each in entries:
        entry = session.knowledge.store.knowledge(session.knowledge.tenant, each.entry)
        if entry is not None:
            changed = "" if entry.hash == each.hash and entry.forgotten_at is None else ", changed since"
            line = (
                f"{entry.id} {entry.category}: {one_line(entry.title)} ({_PLACES.get(each.place, each.place)}{changed})"
            )
            yield from (f"  {part}" for part in tables.wrapped(line, None if room is None else room - 2))


_PLACES = {"stable": "in the system text", "context": "in the system text", "delta": "told", "recall": "recalled"}


def skills(session: Session, room: int | None) -> Iterator[str]:
    """The skills of this session: which are loaded, what that took, what may still be loaded."""
    available = session.skills.store.list_skills()
    if not available:
        yield from tables.wrapped("This session has no skills; `holdfast skills new NAME` makes one.", room)
        return
    registry = session.skills.registry
    loaded = {each.name: "loaded" for each in registry.loaded} | {
        each.name: "in the prompt" for each in registry.preloaded
    }
    columns = (
        Column("NAME", 0, least=14),
        Column("TOKENS", 2, right=True),
        Column("STATE", 1, always=False),
        Column("DESCRIPTION", 3, least=16),
    )
    rows = [
        (each.name, tables.count(each.estimated_body_tokens), loaded.get(each.name, "-"), one_line(each.description))
        for each in available
    ]
    yield from tables.table(columns, rows, room)
    settings = session.settings.skills
    yield ""
    yield from tables.wrapped(
        f"{registry.count:,} of {settings.max_activations:,} loaded on request, {registry.tokens:,} of "
        f"{settings.hard_tokens:,} tokens.",
        room,
    )
