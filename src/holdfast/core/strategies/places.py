"""Where markers may stand in a prompt, and how the ones a strategy wishes for become a plan.

Places are block numbers. Which of them is worth a marker is the strategies' business.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    said = sorted({mark.block for mark in marks if prompt.blocks[mark.block].section == "messages"})
    required = {mark.block for mark in pinned}
    zones = {block: min(2 * i, 2 * (len(said) - 2 - i) + 1) for i, block in enumerate(said[:-1])}

    def rank(mark: Mark) -> tuple[int, int]:
        section = prompt.blocks[mark.block].section
        if mark.block in required:
            return 0, -mark.block
        if mark.block in zones:
            return 4, zones[mark.block]
        return {"messages": 1, "system": 2, "tools": 3}[section], -mark.block

    return sorted(marks, key=rank)


def plan(situation: Situation, strategy: str, wishes: Sequence[Wish]) -> Plan:
    """A legal plan of these markers and those that are pinned; says what had to go."""
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
    found: dict[int, Mark] = {}
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
            mark, known = Mark(block, ttl_name(model, wish.ttl)), found.get(block)
            if known is None or _seconds(model, mark) > _seconds(model, known):
                found[block] = mark
            why[block] = wish.why if known is None else f"{why[block]}, {wish.why}"
    return found, why, dropped


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
