"""Keep-alive: which idle lanes are worth a ping, and the request that makes one.

A ping is the lane's last request again, asked for no answer: it reads what is cached and refreshes it. It can be made
only where that is allowed and changes nothing of the prefix. Off by default; rule 5.4, a budget and a breaker decide.
It counts for those two from the moment it is given out; what it refreshed and cost is known when it has been answered.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches import Entry, Lookup, Mark, Outcome
from holdfast.core import (
    Effect,
    IdleLane,
    Ledger,
    Ping,
    Plan,
    Pool,
    Sent,
    Tenant,
    Verdict,
    account,
    effect,
    keepalive,
)
from holdfast.errors import HoldfastError
from holdfast.facts import rates
from holdfast.records import Usage
from holdfast.store import Call, CallStatus
from holdfast.wire import DIALECTS, Body, object_of, string_of

from .lane import Lane, PreparedCall
from .marker_splices import marked
from .pool_effects import effects_of
from .state import State

_FORCED = ("any", "tool")


class DuePing(Struct, kw_only=True):
    """A ping to send: `raw` is a whole request. `outcome` is what it will do if the entry is there."""

    lane: Lane
    call: str
    raw: bytes
    ping: Ping
    idle: IdleLane
    outcome: Outcome
    done: bool = False


def due(state: State, lane: Lane, call: str, now: float) -> DuePing | None:
    """The ping that a lane should get now, on its way from this moment on."""
    settings, ledger = state.settings(lane), state.ledger(lane, now)
    last, body = ledger.last, state.body(lane)
    raw = None if body is None else ping_body(body)
    if not settings.keepalive.enabled or last is None or body is None or raw is None:
        return None
    model, tenant = facts.model(last.model), state.tenant(lane.tenant)
    state.pools(lane.tenant, model, now)
    longest_entry = longest(last, tenant.pool(model), now)
    if longest_entry is None:
        return None
    block, entry = longest_entry
    pause, experience = _idle(last, entry), tenant.experience
    wanted = keepalive.decide(
        pause,
        experience.client(ledger.client).returns,
        ledger.pings,
        experience.spending,
        model,
        settings.keepalive,
        now,
    )
    if isinstance(wanted, str) or wanted.at > now:
        return None
    pinged = state.ours.parse(DIALECTS[body.dialect], raw, model=body.model)
    assert isinstance(pinged, Body)
    prompt = state.ours.read(pinged, model).prompt
    if prompt.keys[block : block + 1] != (entry.key,):  # the body is that of a request which never was
        return None
    plan = Plan(strategy="keepalive", marks=(Mark(block, entry.ttl),))
    outcome = tenant.pool(model).decide(replace(prompt, marks=plan.marks), now)
    assert outcome is not None
    sent = marked(pinged, DIALECTS[body.dialect], prompt, plan, model)
    ping = DuePing(lane=lane, call=call, raw=sent, ping=wanted, idle=pause, outcome=outcome)
    ledger.pings, experience.spending = keepalive.sent(ledger.pings, experience.spending, wanted, pause)
    _store_ping(state, ping, "pending")
    return ping


def answered(state: State, due: DuePing, usage: Usage, now: float) -> Ping:
    """Return what a ping read and cost. The pool follows what was read; only an existing entry covers the pause."""
    _end(due)
    lane, model = due.lane, facts.model(due.outcome.prompt.model)
    tenant, ledger = state.tenant(lane.tenant), state.ledger(lane, now)
    state.pools(lane.tenant, model, now)
    pool, billed = tenant.pool(model), facts.price(usage, model.ref)
    outcome = _actual_outcome(due, billed, pool, state.settings(lane).breaks.min_drop, now)
    entry = pool.find(due.outcome.prompt.keys[due.outcome.prompt.marks[0].block], now)
    back = ledger.last is None or ledger.last.at > due.outcome.at
    cost = due.ping.cost if billed.cost is None else billed.cost
    ledger.pings, tenant.experience.spending = keepalive.answered(
        ledger.pings,
        tenant.experience.spending,
        due.ping,
        due.idle,
        cost,
        None if entry is None or back else entry.expires,
    )
    account.book(tenant.experience.client(ledger.client), 0.0, float(cost))
    _store_ping(state, due, "settled", now, billed, outcome)
    return Ping(due.ping.at, billed.read, cost)


def failed(state: State, due: DuePing, now: float, error: str) -> None:
    """A ping got no answer: it has refreshed nothing and cost nothing."""
    _end(due)
    ledger, experience = state.ledger(due.lane, now), state.tenant(due.lane.tenant).experience
    ledger.pings, experience.spending = keepalive.failed(ledger.pings, experience.spending, due.ping, due.idle)
    _store_ping(state, due, "failed", now, error=error)


def _actual_outcome(due: DuePing, usage: Usage, pool: Pool, tolerance: float, now: float) -> Outcome:
    """What a ping has done to the pool. What it read at its start lives as long again from then on; what it could not
    read was lost, and is there again if it was written."""
    foreseen = due.outcome
    ours, theirs = foreseen.prompt.tokens, usage.prompt
    read = usage.read if ours == theirs or not theirs else round(usage.read * ours / theirs)
    apart = abs(read - foreseen.read)
    if apart > (0 if ours == theirs else foreseen.read * tolerance) and usage.read + usage.written:
        return pool.correct(foreseen, read, now, now)
    nothing = Outcome(foreseen.prompt, foreseen.at, 0, ours)
    outcome = foreseen if usage.read else nothing
    pool.rebuild([effect(foreseen, outcome, now)])
    return outcome


def _end(due: DuePing) -> None:
    if due.done:
        raise HoldfastError(f"ping {due.call} is over already; bring each ping back once.")
    due.done = True


def _store_ping(
    state: State,
    due: DuePing,
    status: CallStatus,
    now: float | None = None,
    usage: Usage | None = None,
    outcome: Outcome | None = None,
    error: str = "",
) -> None:
    """The ping as a call, with what it did to the pool, and the accounts it counts in."""
    lane, at = due.lane, due.outcome.at
    ended = None if now is None else round(now * 1_000_000)
    chain = None if outcome is None else effects_of(effect(due.outcome, outcome, now), Effect(at, None))
    row = Call(
        tenant=lane.tenant,
        id=due.call,
        session=lane.session,
        lane=lane.id,
        model=due.outcome.prompt.model,
        started_at=round(at * 1_000_000),
        status=status,
        kind="ping",
        client=lane.client or None,
        first_token_at=None if outcome is None else ended,
        ended_at=ended,
        usage=usage,
        error=error or None,
        prediction=msgspec.json.encode(due.outcome.usage()),
        chain=chain,
    )
    state.persistence.put_call(row)
    state.persistence.save_lane(lane)
    state.persistence.save_tenant(lane.tenant, state.tenant(lane.tenant))


def waited(tenant: Tenant, ledger: Ledger, now: float) -> IdleLane | None:
    """The pause that ends with a lane's request, if pings were sent in it."""
    if ledger.pings.uncovered is None or ledger.last is None:
        return None
    longest_entry = longest(ledger.last, tenant.pool(facts.model(ledger.last.model)), now)
    return None if longest_entry is None else _idle(ledger.last, longest_entry[1])


def returned(ledger: Ledger, prepared: PreparedCall, verdict: Verdict) -> None:
    """What a lane's pings have brought, now that it came back."""
    if prepared.waited is None:
        return
    price = rates(prepared.core.request.model.ref)
    if price is not None:
        at = prepared.core.outcome.at
        ledger.pings = keepalive.returned(ledger.pings, prepared.waited, verdict.usage.read, price, at)


def longest(last: Sent, pool: Lookup, now: float) -> tuple[int, Entry] | None:
    """The longest live entry of a lane's last request, and its block."""
    for index, key in reversed(last.entries):
        entry = pool.find(key, now)
        if entry is not None:
            return index, entry
    return None


def _idle(last: Sent, entry: Entry) -> IdleLane:
    return IdleLane(since=last.at, tokens=entry.tokens, ttl=entry.ttl, seconds=entry.seconds, expires=entry.expires)


def ping_body(body: Body) -> bytes | None:
    """The request as a ping; None where the provider would refuse it or the prefix would not be the same."""
    if body.dialect != "anthropic":
        return None
    thinking = object_of(body.member("thinking") or b"") or {}
    choice = object_of(body.member("tool_choice") or b"") or {}
    output = object_of(body.member("output_config") or b"") or {}
    if string_of(thinking.get("type")) not in (None, "disabled") or string_of(choice.get("type")) in _FORCED:
        return None
    if "format" in output or "output_format" in body.members:
        return None
    return body.apply(body.change_members({"max_tokens": b"0"}, ("stream",)))
