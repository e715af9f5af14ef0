"""Markers and lifetimes by expected cost: what will be read again, how soon, at which price.

A marker is placed where the prefix has proved stable and will probably be read; nothing is marked behind a place that
keeps changing. A bridge is placed where the newest turn is longer than the provider walks back. A sub-agent reads what
its parent wrote for an hour and writes nothing for so long itself. Whether a plan may be paid for is decided by the
account, not here.

Which lifetime the marker at the end gets is a question of price. Unit: one plain input token. `premium` is what the
long lifetime costs more per token written, `loss` what an expired token costs more than a read one (rules 5.2, 5.3).

Where a long marker raises the whole prefix (KNOB `ttl_raise` yes), the premium is paid on the new tokens only, and it
can be paid at any turn: an inventory problem. The unprotected part grows with every turn; protecting it costs the
premium on one turn's tokens. The interval that balances the two follows the square-root rule of economic order
quantities; the turn to pay at comes earlier where a pause is near and later where the turn at hand is unusually large.

Where it does not raise, a long chain has to begin at a cold start and cannot be taken up again later: what fixed
lifetimes would have cost so far decides (`counterfactuals`), and the chain goes on until the next cold start.

`SMALLER` was fitted: of many settings tried, it has the smallest worst ratio on the sessions that
`benchmarks/economics.py` reports on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, sqrt

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Entry, Mark, reach
from holdfast.facts import ModelFacts

from .. import counterfactuals
from ..economics import chance_to_cache
from ..plan import Plan, kind_of
from ..retention import override
from ..reuse_odds import Odds, odds
from ..situation import Situation
from ..stability import survival
from .clients import combined
from .places import Wish, free, has_breakpoints, last_system, last_tool, place_of, takes_markers
from .places import plan as planned

COLD = 0.5
"""A request that writes more than this share of itself starts anew."""
SMALLER = 0.4
"""The turn that is chosen to pay the premium is smaller than the mean: this share of it."""


class LifetimePrices(Struct, frozen=True):
    """Of one token, in plain input tokens."""

    premium: float
    loss: float
    worth: float
    """The chance of being read from which a short write pays (rule 5.2)."""


def lifetime_prices(model: ModelFacts, short: str, long: str | None) -> LifetimePrices:
    read, write = float(model.read), float(model.write(short))
    premium = float(model.write(long)) - write if long is not None else 0.0
    worth = chance_to_cache(read, write) if write > read else 0.0
    return LifetimePrices(premium, write - read, worth)


def raise_now(odds: Odds, price: LifetimePrices, new: int, bare: int) -> bool:
    """Whether to pay the premium on `new` tokens so that `bare` ones, unprotected so far, live long."""
    lasting = 1 - odds.ends
    now, later = odds.next[1] * lasting, max(odds.later[1] * lasting, 1e-9)
    growth = max(odds.growth * SMALLER, 1.0)
    interval = sqrt(2 * price.premium / (later * price.loss))
    if interval <= 1:
        waiting = -price.premium * growth
    else:
        mean = growth * (sqrt(2 * price.premium * later * price.loss) - later * price.loss / 2)
        turns = min(max(0, ceil((interval * growth - bare) / growth) - 1), int(odds.remaining))
        waiting = later * price.loss * (turns * bare + growth * turns * (turns + 1) / 2) - mean * (turns + 1)
    return price.premium * (new - growth) < now * price.loss * bare + waiting


NAME = "economic"
PROBES = 20_000.0
"""Plain input tokens that may be spent on a route to learn whether a long marker raises a live prefix."""
_SMALL = 0.05  # a probe writes at most this share of the prompt


class _State(Struct, frozen=True):
    """What is alive of this prompt: the longest entry, how far what lives long reaches, and the chances ahead. No
    `chances` where nothing has ever changed: all of them are one."""

    hit: Entry | None
    hit_block: int
    long: int
    odds: Odds
    chances: list[float] | None

    @property
    def live(self) -> int:
        return 0 if self.hit is None else self.hit.tokens


def economic(situation: Situation) -> Plan:
    model, prompt = situation.model, situation.prompt
    if not takes_markers(model) or not prompt.blocks:
        return Plan(strategy=NAME, reasons=(f"{model.ref} takes no markers",))
    fixed = override(situation.settings, model)
    if fixed == "none":
        return combined(Plan(strategy=NAME, reasons=(f"markers of ours are switched off for {model.ref}",)), situation)
    if situation.subagent and situation.pinned:
        pinned = tuple(Mark(mark.block, model.default_ttl or mark.ttl) for mark in situation.pinned)
        situation = replace(situation, pinned=pinned)
    state = _state(situation)
    if has_breakpoints(model):
        return _breakpoints(situation, state)
    short, long, price = _terms(model, fixed != "short" and not situation.subagent and _proved(situation))
    tail = _tail(situation, state, price)
    tail_ttl, head_ttl, probe, why = _lifetimes(situation, state, price, short, long, tail)
    if fixed == "long" and long is not None:
        tail_ttl, head_ttl, probe, why = long, long, 0.0, f"retention is long for {model.ref}"
    wishes, marked = [], []
    in_the_way = head_ttl == short and situation.in_the_way
    for block in () if in_the_way else (last_tool(situation), last_system(situation)):
        if block is not None and _pays(situation, state, price, block):
            wishes.append(Wish(block, head_ttl, "tools and system text come again"))
            marked.append(block)
    if tail is not None:
        wishes.append(Wish(tail, tail_ttl, why))
        marked.append(tail)
    bridge = _bridge(situation, state, marked, tail_ttl)
    wishes += bridge if bridge or in_the_way else _common(situation, state, price, tail_ttl, marked)
    plan = combined(planned(situation, NAME, wishes), situation, losses=_losses(situation, state, price))
    spent = probe and tail is not None and any(m.block == tail and m.ttl == long for m in plan.marks)
    return replace(plan, probe=probe) if spent else plan


@lru_cache(maxsize=256)
def _terms(model: ModelFacts, may_be_long: bool) -> tuple[str, str | None, LifetimePrices]:
    """The short lifetime, the long one where it may be bought, and what they cost: the same for every request."""
    short = model.default_ttl or model.ttls[0].name
    longer = [ttl for ttl in model.ttls if ttl.seconds > (model.ttl_seconds(short) or 0)]
    long = longer[0].name if longer and may_be_long else None
    return short, long, lifetime_prices(model, short, long)


def _proved(situation: Situation) -> bool:
    """Whether long lifetimes may be bought: through OpenRouter only once anything was read on the route."""
    if situation.model.provider != "openrouter" or situation.experience is None:
        return True
    route = situation.experience.routes.get(situation.model.ref)
    return route is not None and route.reads > 0


def _state(situation: Situation) -> _State:
    prompt, now = situation.prompt, situation.now
    short = situation.model.ttl_seconds(situation.model.default_ttl or "") or 0
    hit: Entry | None = None
    longest, long = -1, 0
    for entry in situation.pool.known(prompt.keys):
        if entry.readable <= now <= entry.expires:
            tokens = entry.tokens
            if tokens > longest:
                hit, longest = entry, tokens
            if entry.seconds > short and tokens > long:
                long = tokens
    block = -1 if hit is None else prompt.block_at(hit.tokens)
    kind, subagent = situation.kind or kind_of(prompt), situation.subagent
    ahead = odds(situation.ledger, situation.experience, kind, prompt.tokens, subagent=subagent)
    return _State(hit, block, long, ahead, survival(situation.ledger, prompt) if situation.ledger.positions else None)


def _pays(situation: Situation, state: _State, price: LifetimePrices, block: int) -> bool:
    """Whether the prefix up to this block is likely enough to be read while it lives: by the lane's next request, or by
    another lane where it is tools and system text alone."""
    odds, chance = state.odds, 1.0 if state.chances is None else state.chances[block]
    reused = chance * (1 - odds.ends) * (odds.next[0] + odds.next[1])
    if situation.prompt.blocks[block].section != "messages":
        reused = 1 - (1 - reused) * (1 - odds.shared * chance)
    return reused > price.worth


def _tail(situation: Situation, state: _State, price: LifetimePrices) -> int | None:
    """The last block of the messages at which a marker pays."""
    blocks = situation.prompt.blocks
    for index in range(len(blocks) - 1, -1, -1):
        if blocks[index].section != "messages":
            return None
        if free(situation, index) and _pays(situation, state, price, index):
            return index
    return None


def _lifetimes(
    situation: Situation, state: _State, price: LifetimePrices, short: str, long: str | None, tail: int | None
) -> tuple[str, str, float, str]:
    """Lifetimes of tail and head, what a probe costs, and the reason."""
    plain = (short, short, 0.0, "the conversation goes on")
    if long is None or tail is None:
        return plain
    tokens = situation.prompt.ends[tail]
    new, bare = tokens - min(state.live, tokens), tokens - min(state.long, tokens)
    odds, experience = state.odds, situation.experience
    # Anything but the short lifetime has to be backed by the tenant's own conversations (law 7).
    supported = experience is not None and counterfactuals.supported(experience)
    if situation.model.knobs.ttl_raise == "yes":
        young = experience is not None and counterfactuals.conversations(experience) < counterfactuals.ENOUGH
        affordable = (supported or young) and price.premium * new <= situation.allowance
        if affordable and raise_now(odds, price, new, bare):
            return long, long, 0.0, f"a pause is worth {odds.next[1]:.1%}, {bare} tokens are not protected yet"
        return plain
    if experience is None or not supported:
        return plain
    policy = counterfactuals.cheapest(experience, situation.ledger.client, situation.model, tokens)
    if state.hit is None or state.hit.seconds > (situation.model.ttl_seconds(short) or 0):
        if price.premium * new <= situation.allowance:
            in_messages = state.hit_block >= 0 and situation.prompt.blocks[state.hit_block].section == "messages"
            if new <= COLD * tokens and in_messages:
                return long, long, 0.0, "what was begun for long goes on"
            if policy == "long":
                return long, long, 0.0, "the long lifetime would have been the cheapest so far"
    elif _may_probe(situation, new, tail) and raise_now(odds, price, new, bare) and not _probing(situation, tail):
        return long, long, price.premium * new, "a small step to learn whether it raises the prefix"
    bare_head = _bare_head(situation, state)
    if policy == "short" or not bare_head or price.premium * bare_head > situation.allowance:
        return plain
    return short, long, 0.0, "the conversation goes on"


def _bare_head(situation: Situation, state: _State) -> int:
    """Tokens of tools and system text that no entry covers."""
    ends = [end for end in (last_tool(situation), last_system(situation)) if end is not None]
    return max(0, situation.prompt.ends[max(ends)] - state.live) if ends else 0


def _may_probe(situation: Situation, new: int, tail: int) -> bool:
    """Return whether the route's treatment of a long marker after a short one is unknown, and a test is cheap."""
    model = situation.model
    if situation.experience is None or model.knobs.ttl_raise is None or new > _SMALL * situation.prompt.ends[tail]:
        return False
    route = situation.experience.routes.get(model.ref)
    return route is None or (route.raises is None and route.probed < PROBES)


def _probing(situation: Situation, tail: int) -> bool:
    """Return whether a test is still within reach: it continues, and no other one is bought."""
    model, prompt, now = situation.model, situation.prompt, situation.now
    lives = {ttl.name: ttl.seconds for ttl in model.ttls}
    entries = situation.pool.known(prompt.keys)
    tests = [entry.key for entry in entries if entry.seconds < lives.get(entry.ttl, 0) and entry.live(now)]
    near = reach(prompt.blocks, tail, model, lookback=max(1, model.lookback // 2)) if tests else ()
    return any(prompt.keys[index] in tests for index in near)


def _bridge(situation: Situation, state: _State, marked: list[int], ttl: str) -> list[Wish]:
    """A marker from which the longest live entry is found, where no other reaches it (A4)."""
    hit = state.hit_block
    if hit < 0:
        return []
    blocks, model = situation.prompt.blocks, situation.model
    for mark in reversed(marked):
        # a block is one position at most
        if mark >= hit and (mark - hit < model.lookback or hit in reach(blocks, mark, model)):
            return []
    behind = range(hit, min(len(blocks), hit + 10 * model.lookback))
    reaching = [i for i in behind if free(situation, i) and hit in reach(blocks, i, model)]
    if not reaching:
        return []
    # where nothing behind it is worth a write, it is only read
    place = reaching[-1] if max(marked, default=-1) > reaching[-1] else reaching[0]
    return [Wish(place, ttl, f"the entry at block {hit} is out of reach of the other markers")]


def _common(
    situation: Situation,
    state: _State,
    price: LifetimePrices,
    ttl: str,
    marked: Sequence[int] = (),
    *,
    alive: bool = False,
) -> list[Wish]:
    """A marker at the end of what other conversations begin with: written once, read by each of them. One that is alive
    stays so while anything behind it is read, and is marked again only where it is found by that."""
    block = situation.common
    if block is None or block in marked or not free(situation, block):
        return []
    if not alive and situation.pool.find(situation.prompt.keys[block], situation.now) is not None:
        return []
    chance = 1.0 if state.chances is None else state.chances[block]
    shared = 1.0 if situation.proved else state.odds.shared
    return [Wish(block, ttl, "other conversations begin with it")] if shared * chance > price.worth else []


def _losses(situation: Situation, state: _State, price: LifetimePrices) -> set[str]:
    """Places of the client's markers that have proved a loss: what they write is not read again, nor do they read."""
    prompt = situation.prompt
    lost: set[str] = set()
    for mark in prompt.marks:
        if not _pays(situation, state, price, mark.block):
            lost.add(place_of(prompt, mark.block))
    return lost if not lost or state.hit_block < 0 else lost - {place_of(prompt, state.hit_block)}


def _breakpoints(situation: Situation, state: _State) -> Plan:
    """One lifetime and a breakpoint of the provider's own: mark what sessions share, and where a conversation will not
    go on, keep the provider from writing its end."""
    model = situation.model
    price = lifetime_prices(model, model.default_ttl or "", None)
    head = last_system(situation)
    wishes = [Wish(head, model.default_ttl or "", "other sessions begin with it")] if head is not None else []
    wishes += _common(situation, state, price, model.default_ttl or "", alive=situation.subagent)
    goes_on = _tail(situation, state, price) is not None
    plan = combined(planned(situation, NAME, wishes), situation)
    modeless = (
        situation.prompt.mode == "explicit" or not model.breakpoints
    )  # who converts requests to OpenAI knows no mode
    if goes_on or modeless or situation.settings.client_markers == "respect":
        return plan
    return replace(plan, mode="explicit", reasons=(*plan.reasons, "the end of this conversation is not read again"))
