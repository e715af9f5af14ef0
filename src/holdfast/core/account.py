"""Law 7 as accounting: through us a client that marks pays at most what it would have paid alone, and one that does not
at most what automatic caching costs, plus one probing credit.

Every call is priced twice: as it went out, and as the client's own bytes and markers would have fared alone (a second
pool that only ever sees those). What was saved funds later writes; a plan that costs more than alone now, in the hope
of reads to come, needs the balance to cover the difference. Parallel calls reserve theirs, so that together they cannot
overdraw. What the provider read corrects both prices: an entry that was lost for us would have been lost for the client
too, and one that somebody else had written the client would have read as well. Nothing here is a bill.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.caches import Outcome
from holdfast.facts import rates
from holdfast.records import Usage

from .call import MissedReads, PlannedRequest
from .economics import Costs, costs
from .experience import Client
from .ledger import Ledger
from .pool import Pool, block_near

MOST = 5.0
"""Dollars of savings that are kept: a client that turns bad after a good month is stood down soon."""


def available(client: Client, credit: float) -> float:
    """Return what a plan may cost more than the client alone would pay."""
    return credit + client.saved - client.reserved


def reserve(client: Client, excess: float) -> float:
    """Reserve what a plan costs more than the client alone, and return it."""
    reserved = max(0.0, excess)
    client.reserved += reserved
    return reserved


def add(ledger: Ledger, client: Client, automatic: float, spent: float) -> None:
    """Add to what a lane and its client cost, and would have cost with the short lifetime everywhere."""
    for sums in (ledger, client):
        sums.automatic += automatic
        sums.spent += spent


def judge_markers(ledger: Ledger, price: Costs, alone: float, tokens: int, read: float) -> None:
    """Add the cost of the client's own markers in this lane, against none, since they last paid off: the amount that
    dropping one may risk. A request's write counts once the next request has not read it."""
    saved = read * (price.input - price.read)
    ledger.wasted = max(0.0, ledger.wasted + ledger.premium - saved)
    ledger.premium = alone - tokens * price.input + saved


def release(client: Client, reserved: float) -> None:
    client.reserved = max(0.0, client.reserved - reserved)


def book(client: Client, alone: float, paid: float) -> None:
    """A call is settled: what it saved, or cost, against the client alone."""
    client.saved = min(client.saved + alone - paid, MOST)


def is_alone(prepared: PlannedRequest) -> bool:
    """Return whether the request was sent as good as unchanged: its cost is then what the client alone would have paid,
    whatever was predicted. Implicit caches give more or less than they promise."""
    sent, alone = prepared.outcome, prepared.alone
    if sent is alone:
        return True
    same = sent.prompt.keys == alone.prompt.keys and sent.prompt.marks == alone.prompt.marks
    return same and (sent.read, sent.writes) == (alone.read, alone.writes)


def alone_with(prepared: PlannedRequest, pool: Pool, read: int, now: float) -> Outcome:
    """What would have come of the client's own request, now that so many of our tokens were read; its pool follows."""
    alone, began = prepared.alone, prepared.first_token
    if read < prepared.outcome.read:
        return pool.correct(alone, min(read, alone.read), began, now)
    shared = _shared(prepared, read)
    if shared <= alone.read:
        return alone
    if pool.by_entry:  # where its own markers are there were entries too: nobody knows, so it is not counted as saved
        return pool.correct(alone, shared, began, now, at_marks=True)
    return _more_read(alone, shared)


def _shared(prepared: PlannedRequest, read: int) -> int:
    """Return the tokens of the client's own prompt in what was read, up to the end of a block."""
    prompt, alone = prepared.outcome.prompt, prepared.alone.prompt
    last = block_near(prompt, read)
    if alone.keys == prompt.keys:
        return alone.ends[last] if last >= 0 else 0
    keys = set(prompt.keys[: last + 1])
    return max((end for key, end in zip(alone.keys, alone.ends, strict=True) if key in keys), default=0)


def _more_read(outcome: Outcome, read: int) -> Outcome:
    """The outcome with more of its prompt read: what would have been written, and then what was plain input."""
    left, writes = read - outcome.read, []
    for ttl, tokens in outcome.writes:
        writes.append((ttl, tokens - min(left, tokens)))
        left -= min(left, tokens)
    return replace(outcome, read=read, writes=tuple(writes), input=max(0, outcome.input - left))


def alone_cost(prepared: PlannedRequest, alone: Outcome, usage: Usage) -> float:
    """Return what the client alone would have paid. Entries that the provider lost for us would have been lost for the
    client too; unexpected reads are part of `alone` already."""
    model, ours = prepared.request.model, prepared.prompt.tokens
    read = in_our_tokens(usage.read, ours, usage.prompt)
    lost = min(max(0, prepared.outcome.read - read), prepared.alone.read)
    alone = prepared.alone if lost else alone
    scale = usage.prompt / ours if ours else 1.0
    price = costs(model, round(alone.prompt.tokens * scale))
    extra = lost * ((price.write(alone.writes[-1][0]) if alone.writes else price.input) - price.read)
    return (price.of(alone) + extra) * scale


def in_our_tokens(read: int, ours: int, theirs: int) -> int:
    return read if ours == theirs or not theirs else round(read * ours / theirs)


def missed_by(prepared: PlannedRequest, usage: Usage) -> MissedReads | None:
    """Return what a turn paid in full although its conversation had sent it before, because that was left without
    markers; None for any other turn.

    If most conversations of a client end with their first request, the next one's is not written. Whether that was
    right shows when it continues: then a marker would have been read.
    """
    plan, before, model = prepared.plan, prepared.before, prepared.request.model
    if before is None or before.marks or before.covered or not plan.marks or prepared.request.alone.marks:
        return None
    if plan.strategy != "economic" or prepared.comparison is None or prepared.comparison.course != "extension":
        return None
    lives = model.ttl_seconds(model.default_ttl or "") or 0
    ours, price = prepared.prompt.tokens, rates(model.ref, prompt_tokens=usage.prompt)
    if price is None or not ours or (prepared.gap or 0.0) > lives:
        return None
    sent_before = min(usage.prompt, round(sum(before.counts()) * usage.prompt / ours))
    tokens = sent_before - usage.read
    write = price.write(model.default_ttl)
    dollars = tokens * (write - price.read) - sent_before * (write - price.input)
    return MissedReads(tokens, dollars) if sent_before >= model.floor and dollars > 0 else None
