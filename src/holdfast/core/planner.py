"""Prompts in, plans and verdicts out: the lanes, pools and accounts of all tenants, in memory.

`prepare` compares a prompt with what its lane has sent, plans its markers, checks that they may be paid for and
predicts what will be read; `settle` compares with what was. Time is passed in. Knows neither bytes nor storage: the
engine around it loads and keeps ledgers, pools and experience, and makes requests of plans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from hashlib import sha256
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Outcome, entry_key
from holdfast.config.sections import CacheSettings
from holdfast.facts import rates
from holdfast.records import Usage

from . import account, breaks, counterfactuals, retention, stability
from .call import Booking, PlannedRequest, PlanRequest, Verdict
from .divergence import Comparison, compare
from .economics import Costs, costs
from .experience import Client
from .ledger import Ledger
from .plan import DIGEST, Columns, Kind, Plan, Sent, SettledCall, baseline, columns, head, kind_of
from .plan_variants import Budget, affordable, covered_by, marked
from .pool import Pool
from .situation import Situation
from .strategies import STRATEGIES, combined
from .strategies.places import checked
from .tenants import Start, Tenant
from .ttl_raise import proof, refuted
from .ttl_raise import test as raise_test

NEARLY = 0.98
"""The share of the predicted read that counts as all of it."""


class _Arrival(Struct, frozen=True):
    """A request as it comes, beside what its lane had sent before."""

    tenant: Tenant
    ledger: Ledger
    client: Client
    request: PlanRequest
    blocks: Columns
    comparison: Comparison | None
    kind: Kind
    now: float


def prepare(
    tenant: Tenant, ledger: Ledger, request: PlanRequest, now: float, settings: CacheSettings
) -> PlannedRequest:
    """Plan and predict a request, and register it as pending."""
    prompt, model = request.prompt, request.model
    client = tenant.experience.client(ledger.client)
    last, kind, digests = ledger.last, kind_of(prompt), _digests(request)
    blocks = columns(prompt, last)
    comparison = None if last is None else compare(last, prompt, digests, model, blocks=blocks)
    arrival = _Arrival(tenant, ledger, client, request, blocks, comparison, kind, now)
    gap = _observe(arrival)
    price = costs(model, prompt.tokens)
    automatic = _compare_policies(arrival) * price.input
    allowance = inf
    if automatic:
        allowance = counterfactuals.allowance(tenant.experience, ledger, automatic, price.input) / price.input
    pool, alone = tenant.both(model)
    situation = _situation(arrival, pool, allowance, settings)
    same = request.alone is prompt and pool.knows_as(alone, prompt)
    by_client = alone.begin(request.alone, now)
    if same:  # mostly the client's markers stay as they are, and it need not be decided twice what they do
        pool.follow(by_client)
    wanted = _plan(situation, request.strict)
    plan, reserved = _funded(wanted, situation, pool, client, by_client)
    if plan is not wanted:
        plan = checked(plan, situation, strict=request.strict)
    sent = marked(prompt, plan)
    test = raise_test(sent, pool, now)
    foreseen = pool.decide(sent, now)
    outcome = foreseen or pool.begin(sent, now)
    expectation = breaks.expect(last, comparison, outcome, pool, pool.model, reset=request.reset or ledger.reset)
    if foreseen is not None:  # only now: what it is about to write is no reason for what it cannot read
        pool.enter(foreseen, now)
    booked = Booking(automatic, price.of(outcome)) if automatic else Booking()
    account.add(ledger, client, booked.automatic, booked.spent)
    planned = PlannedRequest(
        request=request,
        plan=plan,
        outcome=outcome,
        alone=by_client,
        expectation=expectation,
        comparison=comparison,
        before=last,
        kind=kind,
        gap=gap,
        reserved=account.reserve(client, reserved),
        raise_test=test,
        likely=counterfactuals.likely(tenant.experience.route(model.ref), outcome, gap) if automatic else 1.0,
        booked=booked,
        baseline=baseline(prompt, situation.head),
    )
    ledger.last = _sent(request, outcome, digests, now, blocks, last)
    ledger.requests += 1
    ledger.reset = None
    return planned


def first_token(tenant: Tenant, prepared: PlannedRequest, now: float) -> None:
    """The answer has begun: what the request wrote can be read."""
    if prepared.first_token is None and not prepared.done:
        prepared.first_token = now
        pool, alone = tenant.both(prepared.request.model)
        pool.first_token(prepared.outcome, now)
        alone.first_token(prepared.alone, now)


def abandon(tenant: Tenant, ledger: Ledger, prepared: PlannedRequest, now: float) -> None:
    """It was cancelled, failed or cut. Before the first token nothing was written; after it the entries are there."""
    if prepared.done:
        return
    prepared.done = True
    client = tenant.experience.client(ledger.client)
    account.release(client, prepared.reserved)
    if prepared.first_token is not None:  # what it costs beyond the client alone is spent, whatever is billed for it
        client.saved -= prepared.reserved
        tenant.experience.route(prepared.request.model.ref).probed += prepared.plan.probe
        _enter(ledger, prepared)
        return
    account.add(ledger, client, -prepared.booked.automatic, -prepared.booked.spent)
    pool, alone = tenant.both(prepared.request.model)
    pool.abandon(prepared.outcome, now)
    alone.abandon(prepared.alone, now)
    _undo_last(tenant, ledger, prepared)


def bypassed(tenant: Tenant, ledger: Ledger, request: PlanRequest, now: float) -> None:
    """Record a request that was sent unplanned, since the next one is compared with it. Its answer is not observed, and
    assumed to begin at once."""
    pools = tenant.both(request.model)
    outcomes = [pool.begin(request.alone, now) for pool in pools]
    for pool, outcome in zip(pools, outcomes, strict=True):
        pool.first_token(outcome, now)
        pool.finish(outcome, (), now)
    ledger.last = _sent(request, outcomes[0], _digests(request), now)


def _enter(ledger: Ledger, prepared: PlannedRequest) -> None:
    """See that a ledger knows a request that went out: another process may have written it meanwhile, as it was
    before."""
    if ledger.last == prepared.before:
        ledger.last = _sent(prepared.request, prepared.outcome, _digests(prepared.request), prepared.outcome.at)
        ledger.requests += 1


def _undo_last(tenant: Tenant, ledger: Ledger, prepared: PlannedRequest) -> None:
    """Make the request before the cancelled one the lane's last, or an earlier one if that was cancelled too."""
    if ledger.last is None or ledger.last.call != prepared.request.call:
        tenant.cancelled[prepared.request.call] = prepared.before
        return
    ledger.last = prepared.before
    while ledger.last is not None and ledger.last.call in tenant.cancelled:
        ledger.last = tenant.cancelled.pop(ledger.last.call)
    ledger.reset = ledger.reset or prepared.expectation.reset  # the reason is still to be used


def settle(
    tenant: Tenant, ledger: Ledger, prepared: PlannedRequest, usage: Usage, now: float, settings: CacheSettings
) -> Verdict:
    """Compare with the billed usage, learn from it, and find breaks."""
    first_token(tenant, prepared, now)
    prepared.done = True
    request, model, outcome = prepared.request, prepared.request.model, prepared.outcome
    experience, pool, ref = tenant.experience, tenant.pool(model), model.ref
    client, route = experience.client(ledger.client), experience.route(ref)
    ours, theirs = outcome.prompt.tokens, usage.prompt
    predicted = prepared.predicted(experience, usage.output)
    experience.calibration = experience.calibration.observe(ref, ours, theirs)
    read = account.in_our_tokens(usage.read, ours, theirs)
    finding = None
    if breaks.fell_short(prepared.expectation, usage, settings.breaks):
        finding = breaks.judge(prepared.expectation, usage, rates(ref, prompt_tokens=theirs), settings.breaks)
    # exactly, where the provider counts the prompt as we do; else within the thresholds of breaks
    explained = usage.read == outcome.read if theirs == ours else breaks.agrees(prepared.expectation, usage)
    raises = proof(prepared.raise_test, read, route) or refuted(prepared.outcome, prepared.gap, read, route)
    if raises is not None:
        route.raises = raises
        pool.believe(raises)
    client_alone = prepared.alone
    if not explained and ours:
        outcome = pool.correct(outcome, read, prepared.first_token, now)
        client_alone = account.alone_with(prepared, tenant.pool_alone(model), read, now)
    pool.finish(outcome, (), now)
    route.reads += usage.read > 0
    route.outlived += counterfactuals.is_late(prepared.outcome, prepared.gap, read)
    if counterfactuals.tests_the_long(prepared.outcome, prepared.gap):
        route.pauses += 1
        route.survived += read >= NEARLY * prepared.outcome.read
    route.probed += prepared.plan.probe
    account.release(client, prepared.reserved)
    paid = costs(model, theirs).of(usage)
    as_alone = account.is_alone(prepared)
    alone = paid if as_alone else account.alone_cost(prepared, client_alone, usage)
    account.book(client, alone, paid)
    ledger.saved = min(ledger.saved + alone - paid, account.MOST)
    if prepared.booked.automatic:  # in the provider's tokens now
        account.add(ledger, client, prepared.booked.automatic * (theirs / ours - 1), paid - prepared.booked.spent)
    if request.alone.marks:
        alone_read = usage.read if as_alone else client_alone.read * theirs / max(ours, 1)
        account.judge_markers(ledger, costs(model, theirs), alone, theirs, alone_read)
    changes = _turn(ledger, prepared, usage, finding, settings)
    ledger.settled += 1
    _enter(ledger, prepared)
    if ledger.last is not None and ledger.last.call == request.call:
        covered = usage.read + usage.written
        ledger.last = replace(ledger.last, first_token=prepared.first_token, covered=covered, read=usage.read)
    return Verdict(
        usage=usage,
        predicted=predicted,
        explained=explained,
        finding=finding,
        saved=alone - paid,
        changes=changes,
        raises=raises,
        missed=account.missed_by(prepared, usage) if finding is None else None,
        outcome=outcome,
        alone=client_alone,
    )


def _observe(arrival: _Arrival) -> float | None:
    """Count what this request shows of its lane and client; gives the gap since the lane's last request."""
    tenant, ledger, client, comparison = arrival.tenant, arrival.ledger, arrival.client, arrival.comparison
    request, kind, now = arrival.request, arrival.kind, arrival.now
    last, prompt = ledger.last, request.prompt
    if last is None and ledger.requests == 0:
        ledger.started = now
        client.lanes += 1
        if client.lanes > 1:
            client.returns.ended()  # lanes do not say that they end; a new one stands for one that did
        end = head(prompt)
        if end:
            client.heads[0 if tenant.head_known(prompt.keys[end - 1]) else 1] += 1
    if comparison is not None and comparison.course == "resend":
        return None
    ledger.asked += 1
    client.long_marks += any(mark.ttl != request.model.default_ttl for mark in request.alone.marks)
    if ledger.asked > 1 or prompt.tokens >= request.model.floor:  # what cannot be cached says nothing of what can
        client.count(ledger.asked, subagent=request.subagent)
    if last is None or comparison is None:
        ledger.kind = kind
        return None
    gap = max(0.0, now - last.at)
    client.gaps.see(ledger.kind, kind, gap)
    ledger.gaps.see(ledger.kind, kind, gap)
    if kind == "user":
        client.returns.add(gap)
        ledger.pause = gap
    ledger.kind = kind
    if request.reset is None and ledger.reset is None and not _continues_earlier(tenant, request, comparison, now):
        stability.observe(ledger, last, comparison)
    if comparison.course == "extension":
        same = arrival.blocks.same
        before = prompt.ends[same - 1] if same == len(last) > 0 else sum(last.counts())
        added = prompt.tokens - before
        if added > 0:
            ledger.grown += added
            ledger.growths += 1
    return gap


def _continues_earlier(tenant: Tenant, request: PlanRequest, comparison: Comparison, now: float) -> bool:
    """Return whether a request that does not continue the lane's last one continues an earlier one: if two
    conversations share a lane, neither of them is unstable."""
    if comparison.course == "extension" or comparison.divergence is None:
        return False
    known = tenant.pool(request.model).known(request.prompt.keys)
    return any(entry.tokens > comparison.divergence.kept and entry.live(now) for entry in known)


def _compare_policies(arrival: _Arrival) -> float:
    """Count what this request costs under each fixed policy; gives what it costs under the short one, in plain input
    tokens, where there is a choice."""
    request, ledger, comparison = arrival.request, arrival.ledger, arrival.comparison
    model, prompt, last = request.model, request.prompt, ledger.last
    if len(model.ttls) < 2 or request.subagent:
        return 0.0
    common, idle = 0, 0.0
    if last is not None and comparison is not None:
        common = sum(last.counts()) if comparison.divergence is None else comparison.divergence.kept
        idle = arrival.now - last.at
    route = arrival.tenant.experience.route(model.ref)
    head = baseline(prompt, arrival.blocks.head)
    each = counterfactuals.priced(model, prompt.tokens, head, common, idle, route)
    if comparison is None or comparison.course != "resend":
        counterfactuals.see(arrival.client, each, prompt.tokens, second=ledger.asked == 2)
    return each[0]


def _situation(arrival: _Arrival, pool: Pool, allowance: float, settings: CacheSettings) -> Situation:
    request, comparison, head = arrival.request, arrival.comparison, arrival.blocks.head
    begins = comparison is None or comparison.course not in ("extension", "resend")
    start = arrival.tenant.start(request.prompt, head) if begins and request.common is None else Start()
    return Situation(
        prompt=request.prompt,
        model=pool.model,
        now=arrival.now,
        pool=pool,
        ledger=arrival.ledger,
        settings=settings,
        experience=arrival.tenant.experience,
        volatile=request.volatile,
        pinned=retention.lasting(request.pinned, settings, pool.model),
        summary=request.summary,
        common=start.block if request.common is None else request.common,
        allowance=allowance,
        proved=start.times > 1,
        subagent=request.subagent,
        kind=arrival.kind,
        head=head,
    )


def _plan(situation: Situation, strict: bool) -> Plan:
    """The strategy's plan, together with the client's markers, checked."""
    name, prompt = situation.settings.strategy, situation.prompt
    if prompt.hidden:
        why = "the client has markers that stand on no block of their own, so its markers are left as they are"
        return Plan(strategy=name, marks=prompt.marks, reasons=(why,))
    plan = STRATEGIES[name](situation)
    if name not in ("economic", "passthrough"):
        plan = combined(plan, situation)
    return checked(plan, situation, strict=strict)  # before it is paid for, and again if it becomes another by that


def _funded(plan: Plan, situation: Situation, pool: Pool, client: Client, alone: Outcome) -> tuple[Plan, float]:
    """The plan as far as the client's account can pay for it (law 7), and what it costs beyond the client alone."""
    if situation.settings.strategy != "economic" or situation.prompt.hidden:
        return plan, 0.0
    price = costs(situation.model, situation.prompt.tokens)
    lone = price if alone.prompt is situation.prompt else costs(situation.model, alone.prompt.tokens)
    paid = lone.of(alone)  # it may stand on the other side of a price cliff
    limit = _limit(situation, client, price)
    if limit >= 0 and pool.decide(marked(situation.prompt, plan), situation.now) is alone:
        return plan, 0.0  # the same, for the same price
    risk = max(limit, situation.ledger.wasted + min(0.0, situation.ledger.saved))
    return affordable(plan, situation, pool, price, Budget(paid, limit, covered_by(alone), risk))


def _turn(
    ledger: Ledger, prepared: PlannedRequest, usage: Usage, finding: breaks.Finding | None, settings: CacheSettings
) -> tuple[retention.RetentionChange, ...]:
    model, before = prepared.request.model, ledger.retention
    turn = SettledCall(
        at=prepared.outcome.at,
        kind=prepared.kind,
        gap=prepared.gap,
        read=usage.read,
        written=usage.written,
        input=usage.input,
        expected=prepared.expectation.expected,
        baseline=prepared.baseline,
        evicted=finding is not None and finding.cause == "likely_server_side",
    )
    ledger.retention = after = retention.observe(before, turn, settings, model)
    return retention.changes(before, after, settings, model, subagent=prepared.request.subagent)


def _limit(situation: Situation, client: Client, price: Costs) -> float:
    """What a plan may cost beyond the client alone (law 7). A client that marks pays nothing in advance: what its own
    conversation has saved is all there is. One that does not may always do what automatic caching would, which is to
    write its prompt for the short lifetime, and has a credit for more."""
    if situation.prompt.marks and not situation.pinned:
        return min(account.available(client, 0.0), situation.ledger.saved)
    automatic = (price.write(situation.model.default_ttl or "") - price.input) * situation.prompt.tokens
    return max(account.available(client, situation.settings.probe_credit_usd), automatic)


def _digests(request: PlanRequest) -> tuple[tuple[str, bytes], ...]:
    """Return digests of what the prefix depends on besides its blocks; also a cache key, which separates entries."""
    settings = request.settings
    if request.prompt.route:
        settings = {**settings, "prompt_cache_key": request.prompt.route.encode("utf-8", "surrogatepass")}
    return tuple([(name, sha256(settings[name]).digest()[:DIGEST]) for name in sorted(settings)])


def _sent(
    request: PlanRequest,
    outcome: Outcome,
    digests: tuple[tuple[str, bytes], ...],
    now: float,
    blocks: Columns | None = None,
    before: Sent | None = None,
) -> Sent:
    blocks = columns(request.prompt) if blocks is None else blocks
    return Sent(
        call=request.call,
        at=now,
        model=request.prompt.model,
        digests=blocks.digests,
        tokens=blocks.tokens,
        sections=blocks.sections,
        entries=_entries(outcome, before if blocks.same else None),
        settings=digests,
        marks=outcome.prompt.marks,
        covered=covered_by(outcome),
        read=outcome.read,
    )


def _entries(outcome: Outcome, before: Sent | None) -> tuple[tuple[int, bytes], ...]:
    """The blocks at whose ends a request read or wrote an entry, in order, and the entries' keys. A request that begins
    like the one before mostly reads what that one had."""
    prompt, blocks = outcome.prompt, {}  # by key: one stands once in a prompt
    ends, keys, last = prompt.ends, prompt.keys if not prompt.route else (), len(prompt.ends)
    used, had = (*outcome.refreshed, *outcome.new), before.entries if before is not None else ()
    if had and [key for _, key in had] == [entry.key for entry in outcome.refreshed]:
        used = outcome.new
    else:
        had = ()
    for entry in used:
        key, first = entry.key, bisect_left(ends, entry.tokens)
        if keys and first < last and keys[first] == key:
            blocks[key] = first
            continue
        for index in range(first, bisect_right(ends, entry.tokens)):
            if entry_key(prompt, index) == key:
                blocks[key] = index
    new = sorted(zip(blocks.values(), blocks, strict=True))
    return (*had, *new) if not had or not new or new[0] > had[-1] else tuple(sorted((*had, *new)))
