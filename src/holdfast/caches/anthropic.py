"""Anthropic's prompt cache: entries at markers, a bounded walk back, two lifetimes.

The rules, as the tests cite them:

- A1 order tools, system, messages; a cumulative digest of decoded content; shared within organisation, workspace, model
- A2 at most four markers, the automatic one included
- A3 an entry is written only at a marker: the prefix that ends there
- A4 reading walks back 20 positions from each marker, its own first; a run of calls or of results is one position; the
  longest live match wins
- A5 markers are not part of the content
- A6 no marker, no caching
- A7 thinking, empty text, nested content and deferred tools cannot carry a marker
- A8 the automatic marker goes to the last block that can
- A9 below the model's floor a marker does nothing
- A10 lifetimes count from the start of the request that wrote or read; a read never lengthens one
- A11 an entry can be read once the answer that wrote it has begun
- A12 billing: read A, 1h up to B, 5m up to C, the rest plain
- A13 what a change of settings costs, by section
- A14 older models drop earlier thinking at a new user turn, unless they are asked to keep all of it
- A15 what a response's diagnostics name
- A16 a deferred tool is no part of the prefix; a result that names one holds its definition, and changes with it

Times are seconds on any clock and come in as parameters. Knows neither bytes nor prices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import takewhile
from operator import attrgetter
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.facts import ModelFacts

from . import chain
from .chain import NO_CONTROLS
from .entries import Entries
from .prompts import NEVER, Block, Cache, CacheControls, Entry, Mark, Outcome, Prompt, Section

Diagnosis = Literal[
    "model_changed",
    "system_changed",
    "tools_changed",
    "messages_changed",
    "previous_message_not_found",
    "unavailable",
]

ORDER: tuple[Section, ...] = ("tools", "system", "messages")

AFFECTING: Mapping[str, Section] = {
    "output_config.format": "tools",
    "output_format": "tools",
    "speed": "system",
    "citations": "system",
    "tool_choice": "messages",
    "images": "messages",
    "thinking": "messages",
    "output_config.effort": "messages",
    "reasoning.effort": "messages",
}
"""A13: settings and the first section that a change of them loses.

`citations` and `images` stand for whether any block asks for citations or holds an image; `reasoning.effort` is how
OpenRouter spells the effort. Web search and web fetch are
tools whose coming and going loses the system text but not the tools: they count as the first blocks of that section.
"""

EFFORT = ("output_config.effort", "reasoning.effort")
"""Settings for which a fact of the model gives the extent of the loss."""

_RUNS = frozenset({"tool_use", "tool_result"})
_THINKING = frozenset({"thinking", "redacted_thinking"})
_WEB = ("web_search_", "web_fetch_")


class Lookup(Protocol):
    """Where entries are found; `caches.entries.Entries` is one."""

    def get(self, key: bytes) -> Entry | None: ...
    def find(self, key: bytes, now: float) -> Entry | None: ...
    def known(self, keys: Sequence[bytes]) -> tuple[Entry, ...]: ...


Find = Callable[[bytes, float], Entry | None]
"""Gives the entry of a key that can be read now."""


def marked_prompt(
    model: ModelFacts,
    blocks: Sequence[Block],
    controls: CacheControls = NO_CONTROLS,
    *,
    like: Prompt | None = None,
    same: bool = False,
) -> Prompt:
    """What the cache sees of these blocks (A1, A8, A13, A14). Tools that are loaded later are left out by the caller.

    `same` if settings, tools and system text are known to be those of `like`.
    """
    settings = controls.settings
    marks = with_automatic(blocks, controls.marks, controls.automatic)
    shown, places = _shown(model, blocks, settings, same and like is not None and not like.origin)
    if places is not None:
        marks = [Mark(places[mark.block], mark.ttl) for mark in marks if mark.block in places]
    if same and like is not None:
        built = chain.grown(like, shown, marks)
    else:
        seen = CacheControls(scope=controls.scope, marks=marks)
        built = chain.build(model.ref, shown, seen, order=ORDER, salts=_salts(model, shown, settings), like=like)
    return built if places is None else replace(built, origin=tuple(places))


def with_automatic(blocks: Sequence[Block], marks: Sequence[Mark], automatic: str | None) -> Sequence[Mark]:
    """A8: the automatic marker stands on the last block that can carry one, unless a marker is there already."""
    if automatic is None:
        return marks
    last = next((i for i in range(len(blocks) - 1, -1, -1) if blocks[i].markable), None)
    if last is None or any(mark.block == last for mark in marks):
        return marks
    return (*marks, Mark(last, automatic))


def decide(prompt: Prompt, entries: Lookup, now: float, model: ModelFacts, *, explain: bool = True) -> Outcome:
    """Return what a request starting now reads, refreshes and writes, unchanged; `explain` adds the reasons."""
    if not prompt.marks:
        return Outcome(prompt, now, 0, prompt.tokens, why=("no marker: nothing is read or written (A6)",))
    marks = _effective(prompt, model)
    near = _nearest(prompt, marks, entries, now, model)
    hit, hit_entry, source = near or _longest(prompt, marks, entries.find, now, model)
    read = prompt.ends[hit] if hit_entry is not None else 0
    beyond = [mark for mark in marks if mark.block > hit]
    writes, written = _bill(prompt, beyond, read)
    refreshed = () if hit_entry is None else _refreshed(prompt, hit, entries, marks, now, model)
    base = refreshed[-1] if refreshed else None  # the entry at the hit, as it lives from now on
    outcome = Outcome(
        prompt,
        now,
        read,
        prompt.tokens - read - written,
        writes,
        hit,
        _written(prompt, beyond, base, now, model),
        refreshed,
    )
    return replace(outcome, why=tuple(_why(outcome, marks, hit_entry, source, entries, model))) if explain else outcome


def readable(prompt: Prompt, find: Find, now: float, model: ModelFacts) -> int:
    """Return the tokens that a request would read, as `decide` does, and nothing else."""
    hit, entry, _ = _longest(prompt, _effective(prompt, model), find, now, model)
    return prompt.ends[hit] if entry is not None else 0


def cold_writes(prompt: Prompt, model: ModelFacts) -> tuple[tuple[str, int], ...]:
    """Return what a request writes if no entry is alive."""
    return _bill(prompt, _effective(prompt, model), 0)[0]


def _effective(prompt: Prompt, model: ModelFacts) -> list[Mark]:
    """A9: the markers that do anything, in prefix order."""
    ends, floor = prompt.ends, model.floor
    marks = [mark for mark in prompt.marks if ends[mark.block] >= floor]
    if len(marks) > 1:
        marks.sort(key=_block)
    return marks


_block = attrgetter("block")


class ReportedDivergence(Struct, frozen=True):
    """Where a request diverges from an earlier one: the reason in a response's diagnostics, and the tokens after it."""

    reason: Diagnosis
    missed: int = 0


def diagnose(previous: Prompt | None, prompt: Prompt) -> ReportedDivergence | None:
    """A15: the first section in which a request departs from the one it names; None if it extends it.

    Equal content under other settings is `unavailable`: the provider names sections, not parameters.
    """
    if previous is None:
        return ReportedDivergence("previous_message_not_found")
    if previous.model != prompt.model:
        return ReportedDivergence("model_changed", previous.tokens)
    for index, (before, after) in enumerate(zip(previous.blocks, prompt.blocks, strict=False)):
        if before.digest != after.digest or before.section != after.section:
            sections = {before.section, after.section}
            if "tools" in sections:
                return ReportedDivergence("tools_changed", previous.tokens)
            missed = previous.tokens - (previous.ends[index - 1] if index else 0)
            return ReportedDivergence("system_changed" if "system" in sections else "messages_changed", missed)
    same = all(before == after for before, after in zip(previous.keys, prompt.keys, strict=False))
    return None if same else ReportedDivergence("unavailable")


class AnthropicCache(Cache):
    """The rules with their state: one organisation's entries, or many told apart by the prompts' scopes."""

    def __init__(self, model: ModelFacts, entries: Entries | None = None) -> None:
        self._model = model
        self._entries = Entries() if entries is None else entries

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        return self.enter(decide(prompt, self._entries, now, self._model), now)

    def enter(self, outcome: Outcome, now: float) -> Outcome:
        """Begin a request of which it is decided already what it does."""
        self._entries.put(outcome.refreshed, now)
        for entry in outcome.new:
            if self._absent(entry.key, now):
                self._entries.put((entry,), now)
        return outcome

    def _absent(self, key: bytes, now: float) -> bool:
        """No entry that can be read, now or from a moment that is already known."""
        entry = self._entries.get(key)
        return entry is None or entry.readable == NEVER or entry.expires < now

    def first_token(self, outcome: Outcome, now: float) -> None:
        """A11. Of requests that write the same prefix side by side, the first answer makes it readable."""
        fresh = []
        for entry in outcome.new:
            pending, at = self._entries.get(entry.key), now
            if pending is None or pending.readable == NEVER or pending.expires < entry.expires:
                if pending is not None and pending.readable < now <= pending.expires:
                    at = pending.readable
                fresh.append(replace(entry, readable=at))
        self._entries.put(fresh, now)

    def abandon(self, outcome: Outcome, now: float) -> None:
        """Nothing was written: what would have been is forgotten."""
        for entry in outcome.new:
            if self._entries.get(entry.key) == entry:
                self._entries.drop(entry.key)

    def entries(self, now: float) -> list[Entry]:
        return self._entries.live(now)


def _shown(
    model: ModelFacts, blocks: Sequence[Block], settings: Mapping[str, bytes], tools_stay: bool
) -> tuple[Sequence[Block], dict[int, int] | None]:
    """The blocks the model is shown, and where each went; None when all stay in place. `tools_stay` if that is known of
    the tools."""
    drop: set[int] = set()
    thinking = settings.get("thinking", b"")
    keeps_thinking = not model.strips_thinking or settings.get("thinking.keep") == b"all"
    if not keeps_thinking and thinking and b'"disabled"' not in thinking:
        drop = _stripped(blocks)
    if tools_stay and not drop:
        return blocks, None
    tools, web = 0, []
    for tools, block in enumerate(blocks):
        if block.section != "tools":
            break
        if block.kind != "tool" and block.kind.startswith(_WEB):
            web.append(tools)
    else:
        tools = len(blocks)
    if not drop and not web:
        return blocks, None
    order = [i for i in range(tools) if i not in web]
    order += [*web, *(i for i in range(tools, len(blocks)) if i not in drop)]
    moved = set(web)
    shown = [replace(blocks[i], section="system") if i in moved else blocks[i] for i in order]
    return shown, {old: new for new, old in enumerate(order)}


def _stripped(blocks: Sequence[Block]) -> set[int]:
    """A14: thinking before the last user message that says something other than tool results."""
    turn = max(
        (b.message for b in blocks if b.section == "messages" and b.role == "user" and b.kind != "tool_result"),
        default=-1,
    )
    return {i for i, b in enumerate(blocks) if b.kind in _THINKING and b.section == "messages" and b.message < turn}


def _salts(model: ModelFacts, blocks: Sequence[Block], settings: Mapping[str, bytes]) -> dict[Section, bytes]:
    """A13: what is mixed into the chain where each section begins.

    The tools go in as a whole: the provider loses all of them when one is added, even at the end of the list.
    """
    tools = b"".join([block.digest for block in takewhile(lambda block: block.section == "tools", blocks)])
    salts: dict[Section, bytes] = {"tools": sha256(tools).digest()}
    for name in sorted(settings):
        section = AFFECTING.get(name)
        if name in EFFORT and model.knobs.effort_invalidates == "all":
            section = "tools"
        if section is not None:
            salts[section] = salts.get(section, b"") + name.encode() + b"=" + settings[name] + b"\0"
    return salts


def reach(blocks: Sequence[Block], mark: int, model: ModelFacts, *, lookback: int | None = None) -> Iterator[int]:
    """A4: the blocks within the lookback of a marker, the model's or another one, nearest first."""
    collapse = model.knobs.collapse_tool_runs is not False
    walk = model.lookback if lookback is None else lookback
    left, run = max(1, walk), None  # a provider that does not walk back still looks at the marker itself
    for index in range(mark, -1, -1):
        kind = blocks[index].kind
        if not (collapse and kind == run and kind in _RUNS):
            left -= 1
            if left < 0:
                return
        run = kind
        yield index


def _longest(
    prompt: Prompt, marks: Sequence[Mark], find: Find, now: float, model: ModelFacts
) -> tuple[int, Entry | None, int]:
    """A4: the end of the longest live match, its entry, and the marker that reached it."""
    best: tuple[int, Entry | None, int] = (-1, None, -1)
    for mark in reversed(marks):
        if mark.block <= best[0]:
            break  # nor does any marker before it reach further
        for index in reach(prompt.blocks, mark.block, model):
            if index <= best[0]:
                break
            entry = find(prompt.keys[index], now)
            if entry is not None:
                best = (index, entry, mark.block)
                break
    return best


def _nearest(
    prompt: Prompt, marks: Sequence[Mark], entries: Lookup, now: float, model: ModelFacts
) -> tuple[int, Entry, int] | None:
    """The same without a walk where the last marker surely reaches it, as mostly: a block is one position at most."""
    last = marks[-1].block if marks else -1
    for entry in reversed(entries.known(prompt.keys)):
        if entry.readable <= now <= entry.expires:
            index = bisect_left(prompt.ends, entry.tokens)
            if index <= last < index + model.lookback and prompt.keys[index] == entry.key:
                return index, entry, last
            break
    return None


def _bill(prompt: Prompt, beyond: Sequence[Mark], read: int) -> tuple[tuple[tuple[str, int], ...], int]:
    """A12, for the markers beyond the hit: tokens written by lifetime, and their sum."""
    if not beyond:
        return (), 0
    last, long = prompt.ends[beyond[-1].block], read
    for mark in beyond:  # in prefix order
        if mark.ttl == "1h":
            long = prompt.ends[mark.block]
    pairs = (("1h", long - read), ("5m", last - long))
    return tuple([pair for pair in pairs if pair[1]]), last - read


def _written(
    prompt: Prompt, beyond: Sequence[Mark], hit_entry: Entry | None, now: float, model: ModelFacts
) -> tuple[Entry, ...]:
    """A3, A10. Unless `ttl_raise`, an entry lives only as long as the shortest-lived part it stands on."""
    base = hit_entry.seconds if hit_entry is not None else float("inf")
    new = []
    for mark in beyond:
        seconds = float(model.ttl_seconds(mark.ttl) or 0)
        if model.knobs.ttl_raise != "yes":
            seconds = base = min(seconds, base)
        new.append(Entry(prompt.keys[mark.block], prompt.ends[mark.block], mark.ttl, seconds, now, now + seconds))
    return tuple(new)


def _refreshed(
    prompt: Prompt, hit: int, entries: Lookup, marks: Sequence[Mark], now: float, model: ModelFacts
) -> tuple[Entry, ...]:
    """A10: what the read keeps alive, each at the lifetime it was written with."""
    whole, last = model.knobs.refresh_whole_prefix is not False, prompt.keys[hit]
    long = {prompt.keys[mark.block] for mark in marks if mark.ttl == "1h"} if model.knobs.upgrade_5m_by_1h else ()
    fresh = []
    for entry in entries.known(prompt.keys):
        key, until = entry.key, entry.expires
        if entry.readable <= now <= until and (whole or key == last):
            ttl, seconds = entry.ttl, entry.seconds
            if long and key in long and ttl == "5m":
                ttl, seconds = "1h", float(model.ttl_seconds("1h") or 0)
            expires = now + seconds
            if expires < until:
                expires = until
            fresh.append(Entry(key, entry.tokens, ttl, seconds, entry.written, expires, entry.readable))
        if key == last:
            break
    return tuple(fresh)


def _why(
    outcome: Outcome, marks: Sequence[Mark], source_entry: Entry | None, source: int, entries: Lookup, model: ModelFacts
) -> Iterator[str]:
    """What happened, for people. Looks only at what lies between the hit and the last marker; `found` is what is read,
    reached from the marker at block `source`."""
    prompt, now = outcome.prompt, outcome.at
    for mark in prompt.marks:
        if prompt.ends[mark.block] < model.floor:
            yield (
                f"the marker at block {mark.block} ends at {prompt.ends[mark.block]} tokens, below the floor of "
                f"{model.floor}: it does nothing (A9)"
            )
    if marks:
        for index in range(marks[-1].block, outcome.hit, -1):
            missed = entries.get(prompt.keys[index])
            if missed is not None:
                yield _missed(index, missed, now, model)
    if source_entry is not None:
        yield (
            f"read {source_entry.tokens} tokens: the {source_entry.ttl} entry at block {outcome.hit}, written "
            f"{now - source_entry.written:.0f} s ago, reached from the marker at block {source} (A4)"
        )
    elif marks:
        yield "nothing read: no entry for this prefix in reach of a marker (A4)"
    for ttl, tokens in outcome.writes:
        yield f"wrote {tokens} tokens for {ttl} (A12)"


def _missed(index: int, entry: Entry, now: float, model: ModelFacts) -> str:
    if entry.readable > now:
        return f"the entry at block {index} cannot be read yet: the answer that writes it has not begun (A11)"
    if entry.expires < now:
        return f"the {entry.ttl} entry at block {index} expired {now - entry.expires:.0f} s ago (A10)"
    return f"the live entry at block {index} is more than {model.lookback} positions before the next marker (A4)"
