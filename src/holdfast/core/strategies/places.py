"""Where markers may stand in a prompt, how the ones a strategy wishes for become a plan, and the plan's final check.

Places are block numbers. Which of them is worth a marker is the strategies' business. The check knows no strategy: a
marker of ours in a wrong place would cost the client its request. The client's own markers are its request and are left
alone, legal or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Mark, Prompt, developer_end
from holdfast.facts import ModelFacts

from ..plan import Plan, head, is_result
from ..retention import TTLS, override
from ..situation import Situation

_block = attrgetter("block")
_MARKERS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")


class Wish(Struct, frozen=True):
    """A marker that a strategy would like to have; no block where the prompt has no such place."""

    block: int | None
    ttl: str
    why: str


def takes_markers(model: ModelFacts) -> bool:
    """Automatic caches, cached objects and no cache at all leave nothing to mark."""
    return model.caching != "none" and model.max_markers > 0 and model.marker in _MARKERS


def has_breakpoints(model: ModelFacts) -> bool:
    """OpenAI's rules from GPT-5.6 on, on whatever route: a marker of its own at the latest eligible message."""
    return model.breakpoints or bool(model.limits.explicit_markers)


def marks_tail_itself(situation: Situation) -> bool:
    return has_breakpoints(situation.model) and situation.prompt.mode != "explicit"


def slots(model: ModelFacts, mode: str) -> int:
    """Markers a request may have. In implicit mode one of OpenAI's is the provider's own (rule B1)."""
    if not has_breakpoints(model):
        return model.max_markers
    limit = model.limits.explicit_markers if mode == "explicit" else model.limits.implicit_extra_markers
    return model.max_markers if limit is None else limit


def ttl_name(model: ModelFacts, wanted: str) -> str:
    """The TTL where the model has it, else its default."""
    return wanted if model.ttl_seconds(wanted) is not None else model.default_ttl or wanted


def free(situation: Situation, index: int) -> bool:
    """Whether a marker of ours may stand on this block."""
    return situation.prompt.blocks[index].markable and index not in situation.volatile


def _head(situation: Situation) -> int:
    return head(situation.prompt) if situation.head is None else situation.head


def last_tool(situation: Situation) -> int | None:
    blocks = situation.prompt.blocks
    for index in range(_head(situation) - 1, -1, -1):
        if blocks[index].section == "tools" and free(situation, index):
            return index
    return None


def last_system(situation: Situation) -> int | None:
    """The last system block with nothing volatile before it in the system text: the end of what is stable.

    Tools for the web count as system text (rule A13) but are tools in the body, where the order of lifetimes is
    checked: they are no place for a marker of ours.
    """
    blocks = situation.prompt.blocks
    if has_breakpoints(situation.model):
        end = developer_end(blocks)
        places = [i for i in range(0 if end is None else end + 1) if blocks[i].section != "tools"]
    elif not situation.volatile:
        for index in range(_head(situation) - 1, -1, -1):
            if blocks[index].section == "system" and blocks[index].role and blocks[index].markable:
                return index
        return None
    else:
        places = [i for i in range(head(situation.prompt)) if blocks[i].section == "system" and blocks[i].role]
    if situation.volatile:
        unstable = min((i for i in places if i in situation.volatile), default=len(blocks))
        places = [i for i in places if i < unstable]
    return _last(situation, places)


def tail(situation: Situation) -> int | None:
    """The last block that can carry a marker."""
    return _last(situation, range(len(situation.prompt.blocks)))


def _last(situation: Situation, places: Sequence[int]) -> int | None:
    """The last of some places, which are in order, that may carry a marker of ours."""
    return next((index for index in reversed(places) if free(situation, index)), None)


def user_ends(situation: Situation) -> list[int]:
    """The place at the end of each user message, in order. Results of tools come from the user's side; in dialects that
    send each as a message of its own, those in a row are one."""
    ends: list[int] = []
    group: int | str | None = None
    for index, block in enumerate(situation.prompt.blocks):
        if block.section != "messages" or not (block.role == "user" or is_result(block.kind, block.role)):
            group = None
            continue
        this = block.message if block.role == "user" else "results"
        if this != group:
            ends.append(-1)
            group = this
        if free(situation, index):
            ends[-1] = index
    return [end for end in ends if end >= 0]


def place_of(prompt: Prompt, block: int) -> str:
    """A place that means the same in the next request: tools and system blocks by number (`system:1`), messages by
    their distance from the last one (`messages:-1`)."""
    section = prompt.blocks[block].section
    if section != "messages":
        first = next(i for i, other in enumerate(prompt.blocks) if other.section == section)
        return f"{section}:{sum(1 for other in prompt.blocks[first:block] if other.section == section)}"
    later = {other.message for other in prompt.blocks[block:] if other.section == "messages"}
    return f"messages:{-len(later)}"


def body_order(prompt: Prompt, mark: Mark) -> int:
    """Where a marker stands in the body: there the provider checks that longer lifetimes come first."""
    return prompt.place(mark.block)


def preferred(prompt: Prompt, marks: Sequence[Mark], pinned: Sequence[Mark] = ()) -> list[Mark]:
    """Markers by how much one would miss them: pinned, tail, end of system, tools, then the zones between: the oldest,
    the most recent, the middle."""
    if len(marks) < 2:
        return list(marks)
    in_messages = sorted({mark.block for mark in marks if prompt.blocks[mark.block].section == "messages"})
    required = {mark.block for mark in pinned}
    zones = {block: min(2 * i, 2 * (len(in_messages) - 2 - i) + 1) for i, block in enumerate(in_messages[:-1])}

    def rank(mark: Mark) -> tuple[int, int]:
        section = prompt.blocks[mark.block].section
        if mark.block in required:
            return 0, -mark.block
        if mark.block in zones:
            return 4, zones[mark.block]
        return {"messages": 1, "system": 2, "tools": 3}[section], -mark.block

    return sorted(marks, key=rank)


def plan(situation: Situation, strategy: str, wishes: Sequence[Wish]) -> Plan:
    """Return a valid plan of the wished and the pinned markers, with the reasons for dropped ones."""
    model, prompt = situation.model, situation.prompt
    if not takes_markers(model):
        return Plan(strategy=strategy, reasons=(f"{model.ref} takes no markers",))
    if prompt.mode == "explicit" and has_breakpoints(model) and not prompt.marks:
        return Plan(strategy=strategy, reasons=("the client switched caching off: explicit mode, no breakpoint",))
    wanted, why, dropped = _wanted(situation, wishes)
    room, best = slots(model, prompt.mode), list(wanted.values())
    if len(best) > room:
        best = preferred(prompt, best, situation.pinned)
        dropped += [f"block {mark.block}: all {room} markers are used" for mark in best[room:]]
        best = best[:room]
    marks = ordered(prompt, best, model)
    return Plan(
        strategy=strategy,
        marks=marks,
        reasons=tuple([f"block {mark.block}, {mark.ttl}: {why[mark.block]}" for mark in marks]),
        dropped=tuple(dropped),
    )


def _wanted(situation: Situation, wishes: Sequence[Wish]) -> tuple[dict[int, Mark], dict[int, str], list[str]]:
    """The markers by block, why they are wanted, and what was left out. The longer of two lifetimes wins."""
    model, ends, blocks = situation.model, situation.prompt.ends, situation.prompt.blocks
    by_block: dict[int, Mark] = {}
    why: dict[int, str] = {}
    dropped = []
    if situation.pinned:
        wishes = [*wishes, *[Wish(mark.block, mark.ttl, "pinned") for mark in situation.pinned]]
    for wish in wishes:
        block = wish.block
        if block is None:
            continue
        if not blocks[block].markable or block in situation.volatile:
            dropped.append(f"block {block}: no marker may stand there ({wish.why})")
        elif ends[block] < model.floor:
            dropped.append(f"block {block}: {ends[block]} tokens, below the floor of {model.floor}")
        else:
            mark, other = Mark(block, ttl_name(model, wish.ttl)), by_block.get(block)
            if other is None or _seconds(model, mark) > _seconds(model, other):
                by_block[block] = mark
            why[block] = wish.why if other is None else f"{why[block]}, {wish.why}"
    return by_block, why, dropped


def ordered(prompt: Prompt, marks: Sequence[Mark], model: ModelFacts) -> tuple[Mark, ...]:
    """The same places in prefix order with a legal order of lifetimes: what comes before a longer one lives as long."""
    for mark in marks:
        if mark.ttl != marks[0].ttl:
            break
    else:
        return tuple(sorted(marks, key=_block))
    longest: Mark | None = None
    legal = []
    for mark in sorted(marks, key=lambda mark: body_order(prompt, mark), reverse=True):
        if longest is None or _seconds(model, mark) > _seconds(model, longest):
            longest = mark
        legal.append(Mark(mark.block, longest.ttl))
    return tuple(sorted(legal, key=_block))


def _seconds(model: ModelFacts, mark: Mark) -> int:
    return model.ttl_seconds(mark.ttl) or 0


def overridden(situation: Situation, strategy: str, wishes: Sequence[Wish]) -> Plan:
    """The plan of a strategy with fixed lifetimes, under the retention that may be set for the model."""
    value = override(situation.settings, situation.model)
    if value == "none":
        return Plan(strategy=strategy, reasons=(f"retention is none for {situation.model.ref}",))
    if value is not None:
        wishes = [replace(wish, ttl=TTLS[value]) for wish in wishes]
    return plan(situation, strategy, wishes)


class IllegalPlanError(AssertionError):
    """A plan of ours that the provider would refuse: a bug in a strategy."""


def checked(plan: Plan, situation: Situation, *, strict: bool) -> Plan:
    """The plan without what the provider would refuse or ignore, and why in `dropped`; never the request.

    `strict` raises instead for all that is a bug of ours. A marker below the floor is only a wasted slot: it is dropped
    either way.
    """
    if plan.marks == situation.prompt.marks:
        return plan  # all of them are the client's
    clients, ours, faults = _split_marks(plan, situation)
    if faults and strict:
        raise IllegalPlanError(f"plan of {plan.strategy}: {'; '.join(faults)}; the strategy must not plan this.")
    floor, ends = situation.model.floor, situation.prompt.ends
    small = [mark for mark in ours if ends[mark.block] < floor]
    ours = [mark for mark in ours if mark not in small]
    dropped = [*faults, *(f"block {m.block}: {ends[m.block]} tokens, below the floor of {floor}" for m in small)]
    legal = list(clients)
    for mark in preferred(situation.prompt, ours, situation.pinned):
        fault = _conflict(mark, legal, plan, situation)
        if fault is None:
            legal.append(mark)
        elif strict:
            raise IllegalPlanError(f"plan of {plan.strategy}: {fault}; the strategy must not plan this.")
        else:
            dropped.append(fault)
    if not dropped:
        return plan
    legal.sort(key=lambda mark: mark.block)
    return replace(plan, marks=tuple(legal), dropped=tuple(dict.fromkeys((*plan.dropped, *dropped))))


def _split_marks(plan: Plan, situation: Situation) -> tuple[list[Mark], list[Mark], list[str]]:
    """Split the markers into the client's and our valid ones, with the problems of the rest."""
    unmatched = list(situation.prompt.marks)
    clients, ours, faults = [], [], []
    for mark in plan.marks:
        if mark in unmatched:
            unmatched.remove(mark)
            clients.append(mark)
        elif (fault := next(_faults(mark, situation), None)) is None:
            ours.append(mark)
        else:
            faults.append(fault)
    return clients, ours, faults


def _faults(mark: Mark, situation: Situation) -> Iterator[str]:
    """Yield the problems of a marker, regardless of others."""
    model, blocks = situation.model, situation.prompt.blocks
    if not takes_markers(model):
        yield f"block {mark.block}: {model.ref} takes no markers"
    if not 0 <= mark.block < len(blocks):
        yield f"block {mark.block}: the prompt has {len(blocks)} blocks"
    elif not blocks[mark.block].markable:
        yield f"block {mark.block}: a {blocks[mark.block].kind} block cannot carry a marker"
    elif mark.block in situation.volatile:
        yield f"block {mark.block}: it is volatile"
    if model.ttl_seconds(mark.ttl) is None:
        yield f"block {mark.block}: {model.ref} has no TTL {mark.ttl!r}"


def _conflict(mark: Mark, kept: Sequence[Mark], plan: Plan, situation: Situation) -> str | None:
    """Return the conflict of a marker with those already accepted, or None."""
    model, prompt = situation.model, situation.prompt
    if any(other.block == mark.block for other in kept):
        return f"block {mark.block}: it has a marker already"
    if len(kept) >= (most := slots(model, plan.mode or prompt.mode)):
        return f"block {mark.block}: {most} markers are all a request may have"
    at, seconds = body_order(prompt, mark), model.ttl_seconds(mark.ttl) or 0
    for other in kept:
        lives, place = model.ttl_seconds(other.ttl) or 0, body_order(prompt, other)
        if (place < at and lives < seconds) or (place > at and lives > seconds):
            first, second = (other, mark) if place < at else (mark, other)
            return f"block {mark.block}: {second.ttl} at block {second.block} after {first.ttl} at block {first.block}"
    return None
