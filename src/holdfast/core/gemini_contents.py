"""Gemini's explicit cache: which `cachedContents` objects to create, use, refresh and delete.

A state machine of values: `AgentContents` is what one agent is believed to hold, `decide` answers what a request uses
and what is to be done, and the methods of `AgentContents` take in what came of it. An object is identified by the
SHA-256 of everything it holds. Times are seconds, passed in; nothing here sends anything or knows how a call is
spelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import sha256

from msgspec import Struct, structs

from holdfast.config.sections import GeminiSettings
from holdfast.facts import ModelFacts, Rates

from .economics import uses_to_hold

SLACK = 5.0
"""Seconds before its end at which an object is no longer named: a request takes time to arrive."""

_HOUR = Decimal(3600)


class Offer(Struct, frozen=True):
    """What an object could hold of a request: system instruction, tools, tool configuration and its first contents."""

    identity: str
    contents: int
    tokens: int


class HeldContents(Struct, frozen=True, kw_only=True):
    """An object the provider holds for us, or one that is being created (`name` is empty).

    `since` is the beginning of its present life, `uses` counts the requests in it, not the one it was created for, and
    `worth` is how many of them in a whole life pay for the storage. Storage has been accounted for up to `charged`.
    """

    identity: str
    model: str
    contents: int
    tokens: int
    lanes: tuple[str, ...]
    since: float
    expires: float
    used: float
    charged: float
    worth: float
    uses: int = 0
    name: str = ""

    def live(self, now: float) -> bool:
        return bool(self.name) and now < self.expires - SLACK


class Create(Struct, frozen=True):
    """Make an object of the request's first parts. Announced by `creating`; its result is `created` or `failed`."""

    offer: Offer
    ttl_s: int
    lane: str
    model: str
    worth: float


class Refresh(Struct, frozen=True):
    """Let an object live as long again from now on; its result is `refreshed` or `lost`."""

    name: str
    ttl_s: int


class Delete(Struct, frozen=True):
    """Give an object up: no lane needs it, or it makes room. Its result is `deleted`, whatever the provider says."""

    name: str


Command = Create | Refresh | Delete

UNUSED_S = 86_400.0
"""Seconds for which a lane that left an object without naming it creates no other."""

MAKING_S = 120.0
"""Seconds in which a creation may be under way: until then its lane does not begin another, larger one."""


class Use(Struct, frozen=True):
    """Name this object in the request, and leave out what it holds."""

    name: str
    contents: int
    tokens: int


class ContentsDecision(Struct, frozen=True):
    """What the request uses now, and what to do. Without `use` the request is sent unchanged."""

    use: Use | None = None
    commands: tuple[Command, ...] = ()
    why: str = ""


class ContentsRequest(Struct, frozen=True, kw_only=True):
    """A request that could use an object: everything it could leave to one, and its lane's frequency.

    `remaining` is how many more requests the lane is expected to make. `implicit` is how often its prefix would be read
    without an object; None: as known of the model.
    """

    lane: str
    offers: tuple[Offer, ...]
    per_hour: float
    remaining: float = float("inf")
    implicit: float | None = None


class Charge(Struct, frozen=True):
    """Storage that has not been accounted for before: tokens of a model held for some time."""

    name: str
    token_hours: Decimal
    model: str

    def cost(self, rates: Rates) -> Decimal:
        return self.token_hours * (rates.storage_hour or Decimal(0))


class AgentContents(Struct, frozen=True):
    """What one agent holds, by identity, and the lanes that could not create one, with the time to try again.

    A request first lets go what has run out (`swept`), then asks `decide`.
    """

    held: Mapping[str, HeldContents] = {}
    refused: Mapping[str, float] = {}

    def named(self, name: str) -> HeldContents | None:
        return next((each for each in self.held.values() if name and each.name == name), None)

    def creating(self, create: Create, now: float) -> AgentContents:
        """A creation is under way: the place is taken, and nobody begins it a second time."""
        offer = create.offer
        begun = HeldContents(
            identity=offer.identity,
            model=create.model,
            contents=offer.contents,
            tokens=offer.tokens,
            lanes=(create.lane,),
            since=now,
            expires=now + create.ttl_s,
            used=now,
            charged=now,
            worth=create.worth,
        )
        return self._with(begun)

    def created(self, create: Create, name: str, expires: float, tokens: int, now: float) -> AgentContents:
        """Record the created object with the token count and expiry reported by the provider."""
        content = self.creating(create, now).held[create.offer.identity]
        return self._with(structs.replace(content, name=name, expires=expires, tokens=tokens))

    def failed(self, create: Create, now: float) -> AgentContents:
        """It could not be created; its lane does not try again for the length of a life."""
        refused = {**self._refused(now), create.lane: now + create.ttl_s}
        return structs.replace(self._without(create.offer.identity), refused=refused)

    def dropped(self, create: Create) -> AgentContents:
        """It was never asked for: the place is free, and its lane may try again."""
        content = self.held.get(create.offer.identity)
        return self if content is None or content.name else self._without(create.offer.identity)

    def used(self, name: str, lane: str, now: float) -> AgentContents:
        """A lane names an object, and no longer needs any other."""
        content = self.named(name)
        if content is None:
            return self
        uses = content.uses + (now > content.since)
        others = self._left_by(lane, besides=content.identity)
        lanes = content.lanes if lane in content.lanes else (*content.lanes, lane)
        return others._with(structs.replace(content, lanes=lanes, used=now, uses=uses))

    def refreshed(self, name: str, expires: float, now: float) -> AgentContents:
        content = self.named(name)
        return self if content is None else self._with(structs.replace(content, since=now, expires=expires, uses=0))

    def deleted(self, name: str, now: float) -> tuple[AgentContents, Charge | None]:
        """It is gone by our own wish: what it has cost since the last account is the rest."""
        content = self.named(name)
        return (self, None) if content is None else (self._without(content.identity), _charge(content, now))

    def lost(self, name: str, now: float) -> tuple[AgentContents, Charge | None]:
        """The provider does not know the object any more; it was stored at most until now. If the first request that
        used it failed, its lanes create none for the length of its life: the next one would be wasted too."""
        content = self.named(name)
        left, charge = self.deleted(name, now)
        if content is not None and content.uses <= 1:
            pause = dict.fromkeys(content.lanes, now + content.expires - content.since)
            left = structs.replace(left, refused={**left._refused(now), **pause})
        return left, charge

    def charged(self, name: str, now: float) -> tuple[AgentContents, Charge | None]:
        """The storage of an object since it was last asked for."""
        content = self.named(name)
        if content is None:
            return self, None
        return self._with(structs.replace(content, charged=min(now, content.expires))), _charge(content, now)

    def swept(self, now: float) -> tuple[AgentContents, tuple[Charge, ...]]:
        """Without those that have run out, and the last of what they cost. A creation that never ended is forgotten."""
        over = [each for each in self.held.values() if each.expires < now]
        left = {each.identity: each for each in self.held.values() if each.expires >= now}
        return structs.replace(self, held=left), tuple(_charge(each, now) for each in over if each.name)

    def ended(self, lane: str, now: float) -> AgentContents:
        """End a lane; `due` deletes what no other one uses. If the lane leaves an object that it never used, it creates
        none for a day: a program that is started for each message would pay for one each time."""
        mine = [each for each in self.held.values() if lane in each.lanes]
        left = self._left_by(lane)
        if any(each.uses for each in mine) or not mine:
            return left
        return structs.replace(left, refused={**self._refused(now), lane: now + UNUSED_S})

    def fence(self, lane: str, now: float) -> int:
        """Return the number of a lane's contents that live objects cover and that must not be edited."""
        return max((each.contents for each in self.held.values() if lane in each.lanes and each.live(now)), default=0)

    def _refused(self, now: float) -> dict[str, float]:
        return {lane: until for lane, until in self.refused.items() if until > now}

    def _left_by(self, lane: str, besides: str = "") -> AgentContents:
        held = {
            key: each if key == besides else structs.replace(each, lanes=tuple(o for o in each.lanes if o != lane))
            for key, each in self.held.items()
        }
        return structs.replace(self, held=held)

    def _with(self, changed: HeldContents) -> AgentContents:
        return structs.replace(self, held={**self.held, changed.identity: changed})

    def _without(self, identity: str) -> AgentContents:
        return structs.replace(self, held={key: each for key, each in self.held.items() if key != identity})


def identity(
    model: str, system: bytes | None, tools: bytes | None, tool_config: bytes | None, contents: Sequence[bytes]
) -> str:
    """The SHA-256 of all that an object holds, as canonical bytes: equal content has one object, whatever its spelling.

    Every part goes in with its length, and an absent one differs from an empty one.
    """
    digest = sha256()
    for part in (model.encode("utf-8", "surrogatepass"), system, tools, tool_config, *contents):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.hexdigest()


def decide(
    objects: AgentContents,
    wanted: ContentsRequest,
    model: ModelFacts,
    rates: Rates | None,
    settings: GeminiSettings,
    now: float,
) -> ContentsDecision:
    """What a request uses, and whether an object, or a larger one, pays for its lane by rule 5.8."""
    if model.marker != "cachedContent":
        return ContentsDecision(why=f"{model.ref} has no cached contents")
    if not settings.enabled:
        return ContentsDecision(why="cached contents are switched off")
    offered = [objects.held.get(offer.identity) for offer in wanted.offers]
    live = [each for each in offered if each is not None and each.live(now)]
    current = max(live, key=lambda each: each.tokens, default=None)
    use = None if current is None else Use(current.name, current.contents, current.tokens)
    refresh = () if current is None else _refresh(current, settings, now, using=True)
    commands, why = _create(objects, current, wanted, model, rates, settings, now)
    if current is not None and not commands:
        why = f"`{current.name}` holds {current.tokens} tokens"
    return ContentsDecision(use, (*refresh, *commands), why)


def due(objects: AgentContents, settings: GeminiSettings, now: float) -> tuple[Command, ...]:
    """Return the commands between requests: delete what no lane needs, refresh what was used enough."""
    commands: list[Command] = []
    for each in objects.held.values():
        if each.name and not each.lanes:
            commands.append(Delete(each.name))
        else:
            commands += _refresh(each, settings, now)
    return tuple(commands)


def creation_cost(tokens: int, rates: Rates) -> Decimal:
    """An object is paid for as input when it is made; its storage comes on top (`Charge`)."""
    return tokens * rates.input


def _create(
    objects: AgentContents,
    current: HeldContents | None,
    wanted: ContentsRequest,
    model: ModelFacts,
    rates: Rates | None,
    settings: GeminiSettings,
    now: float,
) -> tuple[tuple[Command, ...], str]:
    """The commands that bring about the largest object the request offers, or why there are none."""
    best = max(wanted.offers, key=lambda offer: offer.tokens, default=None)
    if best is None or best.tokens < model.floor:
        return (), f"nothing to hold reaches the floor of {model.floor} tokens"
    same = objects.held.get(best.identity)
    if same is not None and same.expires >= now:
        return (), "it is being created" if not same.name else "it is about to run out"
    if any(
        not each.name and wanted.lane in each.lanes and now - each.since < MAKING_S for each in objects.held.values()
    ):
        return (), "an object of this lane is being created"
    if objects.refused.get(wanted.lane, now) > now:
        return (), "creating an object failed; it is not tried again yet"
    if rates is None or not _pays(best, current, wanted, model, rates, settings):
        return (), "too few uses are expected to pay for an object (rule 5.8)"
    room = _room(objects, settings, now, keep=current)
    if room is None:
        return (), f"all {settings.max_active} objects of this agent are in use"
    create = Create(best, settings.ttl_s, wanted.lane, model.ref, _worth(wanted, model, rates, settings))
    return (*room, create), "the expected uses pay for an object (rule 5.8)"


def _pays(
    best: Offer,
    current: HeldContents | None,
    wanted: ContentsRequest,
    model: ModelFacts,
    rates: Rates,
    settings: GeminiSettings,
) -> bool:
    """Rule 5.8 with the uses expected in one life; a larger object must pay beside the one there is."""
    hours = Decimal(settings.ttl_s) / _HOUR
    needed = uses_to_hold(
        rates.input,
        rates.read,
        (rates.storage_hour or Decimal(0)) * hours,
        covered=Decimal(0 if current is None else current.tokens),
        tokens=Decimal(best.tokens),
        implicit=_implicit(wanted, model),
    )
    return needed is not None and min(wanted.per_hour * float(hours), wanted.remaining) > float(needed)


def _worth(wanted: ContentsRequest, model: ModelFacts, rates: Rates, settings: GeminiSettings) -> float:
    """How many uses in one life pay for its storage, now that creating it has been paid: rule 5.8 without `in`."""
    gain = (rates.input - rates.read) * (1 - _implicit(wanted, model))
    storage = (rates.storage_hour or Decimal(0)) * settings.ttl_s / _HOUR
    return float(storage / gain) if gain > 0 else float("inf")


def _implicit(wanted: ContentsRequest, model: ModelFacts) -> Decimal:
    probability = model.knobs.implicit_hit_probability or 0.0
    if model.caching == "explicit":
        probability = 0.0
    return Decimal(str(probability if wanted.implicit is None else wanted.implicit))


def _refresh(held: HeldContents, settings: GeminiSettings, now: float, *, using: bool = False) -> tuple[Refresh, ...]:
    """At its half life an object goes on if it was used since then, and so often that its storage pays."""
    if not held.live(now):
        return ()
    life, passed, uses = held.expires - held.since, now - held.since, held.uses + using
    if passed < life * settings.refresh_at or not uses or uses * life < held.worth * passed:
        return ()
    return (Refresh(held.name, settings.ttl_s),)


def _room(
    objects: AgentContents, settings: GeminiSettings, now: float, keep: HeldContents | None
) -> tuple[Delete, ...] | None:
    """Room for one more: nothing to do, or the least recently used give way; None while all are in active use.

    One that was used again in this life and not long ago would only be created anew by its own next request.
    """
    there = [each for each in objects.held.values() if each.expires >= now]
    surplus = len(there) - settings.max_active + 1
    idle = settings.ttl_s * settings.refresh_at
    free = [each for each in there if each.name and each != keep and (not each.uses or now - each.used >= idle)]
    if surplus > len(free):
        return None
    oldest = sorted(free, key=lambda each: each.used)[: max(0, surplus)]
    return tuple(Delete(each.name) for each in oldest)


def _charge(held: HeldContents, now: float) -> Charge:
    seconds = max(0.0, min(now, held.expires) - held.charged)
    return Charge(held.name, held.tokens * Decimal(seconds) / _HOUR, held.model)
