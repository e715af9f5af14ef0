"""Old tool results replaced by placeholders, when the lane is cold or when it pays.

The stored history is never changed: a request is rendered with every result in full, `masks` says which should go, and
the engine decides, records and replays. Dead results go first, then the oldest. The newest stay, and so do those of
protected tools, references to offloaded results, and results with a guide: it is shown only once in a session.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal

from msgspec import Struct

from holdfast import facts
from holdfast.caches import Prompt, rules
from holdfast.config.sections import MaskSettings
from holdfast.core import edit_cost
from holdfast.wire import Body

from .carriers import CLOSE, OPEN, SHORT, loaded_text
from .contract import DISCOVER_TOOLS, SKILL_LOAD
from .observations import Death, Observation, ResultSite, deaths, observe, replaced, sites


class MaskedResult(Struct, frozen=True, kw_only=True):
    """A result that stands there no longer, and how many characters it had."""

    tool: str
    tool_use_id: str
    characters: int


class EditRequests(Struct, frozen=True, kw_only=True):
    """Edits to ask for, all together, and the results they clear."""

    edits: dict[bytes, bytes] = {}
    masked: tuple[MaskedResult, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __or__(self, other: EditRequests) -> EditRequests:
        """Both. One rewrite pays for all that stands behind its beginning."""
        if not (self and other):
            return self or other
        return EditRequests(edits=other.edits | self.edits, masked=(*self.masked, *other.masked))


NOTHING = EditRequests()


PLACEHOLDER = "[Tool result cleared: "
PROTECTED = frozenset({DISCOVER_TOOLS, SKILL_LOAD})
"""Never masked: without their results the model forgets what it may call and how to do what it was asked to."""

_WHY: dict[Death | None, str] = {
    None: "The call was answered; make it again only if you need the output.",
    "superseded": "The file was read again or changed later in this conversation.",
    "overcome": "The call failed; a later one succeeded.",
}
_WORTH = 200  # characters that a placeholder has to save
_LEAST = Decimal("0.1")  # of what looks as if it could go: so that what comes later is looked at too
_LEFT = 35  # about how many tokens a placeholder has
_LONGEST_NAME = 256


def placeholder(tool: str, characters: int, death: Death | None = None) -> str:
    """Return the text that replaces a result. It never changes, so that the prefix stays stable."""
    return f"{PLACEHOLDER}{tool[:_LONGEST_NAME]}, {characters} characters. {_WHY[death]}]"


def masks(
    body: Body,
    prompt: Prompt,
    settings: MaskSettings,
    *,
    already: Collection[bytes] = (),
    failed: Collection[str] = (),
    results: Sequence[ResultSite] | None = None,
) -> EditRequests:
    """Return replacements for old results, from `trigger_chars` of results down to `release_chars`.

    `prompt` is this body as read by a reader; `already` are the blocks with recorded edits (the ledger's `edits`);
    `failed` the ids of calls known to have failed, which some dialects do not mark; `results` the results if already
    known.
    """
    if not settings.enabled:
        return NOTHING
    results = sites(body, prompt) if results is None else results
    if sum([site.size for site in _unmasked(results, prompt, already)]) < settings.trigger_chars:
        return NOTHING  # no text is longer than its bytes
    seen = observe(body, prompt, results)
    unmasked = [not _is_masked(each, already) for each in seen]
    total = sum(each.characters for each, stands in zip(seen, unmasked, strict=True) if stands)
    if total < settings.trigger_chars:
        return NOTHING
    dead = deaths(seen, failed)
    old = len(_old(results, settings))
    texts = {
        number: placeholder(each.tool, each.characters, dead.get(number))
        for number, each in enumerate(seen)
        if number < old and unmasked[number] and _may_go(each, settings)
    }
    texts = {n: text for n, text in texts.items() if seen[n].characters - len(text) >= _WORTH}
    edits: dict[bytes, bytes] = {}
    masked: list[int] = []
    for number in _in_order(_exclusive(seen, texts, prompt), dead):
        if total <= settings.release_chars:
            break
        each = seen[number]
        for digest, new in zip(each.digests, replaced(body, each.site, texts[number]), strict=True):
            edits.setdefault(digest, new)
        total -= each.characters
        masked.append(number)
    if not masked:
        return NOTHING
    masked += [n for n in texts if n not in masked and seen[n].digests[0] in edits]  # the same result once more
    return EditRequests(edits=edits, masked=tuple(_masked(seen[number]) for number in sorted(masked)))


class Masker:
    """Decides when to request edits of one lane's results.

    Immediately if nothing after them is cached. In a warm lane, where a rewrite has to be paid for, only when reading
    removable results has cost as much as the rewrite will: this needs no guess of how long the session continues,
    rewrites as seldom as is best for a long one, and risks at most one useless rewrite. The engine has the last word; a
    refusal costs as much as reading the request again, so the waiting starts again. `strip` also shortens discovery
    results whose tools the request defines elsewhere.
    """

    def __init__(self, settings: MaskSettings, *, strip: bool = False) -> None:
        self.settings, self.strip = settings, strip
        self._wasted = Decimal(0)  # tokens of input that reading what could be gone has cost
        self._share = Decimal(1)  # how much of what looks as if it could go really can
        self._pending: EditRequests = NOTHING
        self._was_cold = self._refused_cold = False

    def requests(
        self,
        body: Body,
        prompt: Prompt,
        *,
        fence: Callable[[], int],
        already: Collection[bytes] = (),
        failed: Collection[str] = (),
        defined: Collection[str] = (),
    ) -> EditRequests:
        """Return the edits to request with this prompt. `fence` is called if `engine.fence` is needed; `already` are
        the lane's recorded edits; `defined` are the tools whose schemas the request has outside of discovery results;
        the rest is as for `masks`. Pass the engine's decision to `settle`."""
        self._pending = NOTHING
        results = sites(body, prompt)
        unmasked = _unmasked(results, prompt, already)
        waiting = self._waiting(body, results, unmasked, defined)
        if not waiting:
            return NOTHING
        tokens, masked = _tokens(prompt, _blocks(waiting)), _blocks(set(results).difference(unmasked))
        rewrite = _Rewrite(prompt, min(site.blocks[0] for site in waiting), fence(), masked)
        if not self._is_due(rewrite, tokens):
            return NOTHING
        requests = masks(body, prompt, self.settings, already=already, failed=failed, results=results)
        if self.strip:
            requests |= strips(body, prompt, defined, already=already, results=results)
        really = _tokens(prompt, [i for i, block in enumerate(prompt.blocks) if block.digest in requests.edits])
        share = max(Decimal(really) / max(1, tokens), _LEAST)
        self._wasted, self._share = self._wasted * share / self._share, share
        if not requests:  # fewer characters than bytes, or none that may go: not to be read again at once
            self._refused()
        elif self._was_cold or self._wasted >= rewrite.cost(really):
            self._pending = requests
        return self._pending

    def settle(self, accepted: bool) -> tuple[MaskedResult, ...]:
        """Handle the engine's decision on the last requests (`prepared.edits.made`); return newly masked results."""
        requests, self._pending = self._pending, NOTHING
        if requests and not accepted:
            self._refused()
        elif requests:
            self._wasted = Decimal(0)
        return requests.masked if accepted else ()

    def _waiting(
        self, body: Body, results: Sequence[ResultSite], unmasked: Sequence[ResultSite], defined: Collection[str]
    ) -> list[ResultSite]:
        """What could perhaps be cleared, without reading any of it."""
        waiting, settings = [], self.settings
        excess = sum([site.size for site in unmasked])
        if settings.enabled and excess >= settings.trigger_chars:
            old = set(_old(results, settings))
            for site in unmasked:
                if site in old and excess > settings.release_chars:
                    waiting.append(site)
                    excess -= site.size
        if self.strip:
            waiting += [site for site in unmasked if may_strip(body, site, defined)]
        return waiting

    def _is_due(self, rewrite: _Rewrite, tokens: int) -> bool:
        self._was_cold = rewrite.live <= rewrite.first
        if self._was_cold:
            return not self._refused_cold
        self._refused_cold = False  # the next time it is cold is another one
        likely = tokens * self._share
        self._wasted += likely * rewrite.model.read
        return self._wasted >= rewrite.cost(int(likely))

    def _refused(self) -> None:
        self._wasted, self._refused_cold = Decimal(0), self._was_cold


class _Rewrite:
    """A rewrite of what is cached from block `first` on: `live` blocks are, and of those in `masked` little is left."""

    def __init__(self, prompt: Prompt, first: int, live: int, masked: Sequence[int]) -> None:
        self.model = facts.model(prompt.model)
        self.first, self.live = first, min(live, len(prompt.blocks))
        self._prompt, self._masked = prompt, masked

    def cost(self, removed: int) -> Decimal:
        """What it costs if so many tokens go away, in tokens of input.

        What can be read ends where an entry does, and few end inside the messages: unless the cache matches token by
        token, all of them are written again.
        """
        prompt, first = self._prompt, self.first
        if not rules(self.model).by_token:
            first = next(index for index, block in enumerate(prompt.blocks) if block.section == "messages")
        behind = prompt.ends[self.live - 1] - (prompt.ends[first - 1] if first else 0) - removed
        behind -= _tokens(prompt, [index for index in self._masked if first <= index < self.live])
        return edit_cost(Decimal(max(0, behind)), self.model.read, self.model.write())


def _tokens(prompt: Prompt, blocks: Sequence[int]) -> int:
    """What goes away where these blocks are masked."""
    return sum([max(0, prompt.blocks[index].tokens - _LEFT) for index in blocks])


def _blocks(results: Iterable[ResultSite]) -> list[int]:
    return [index for site in results for index in site.blocks]


def _unmasked(results: Sequence[ResultSite], prompt: Prompt, already: Collection[bytes]) -> list[ResultSite]:
    """The results that go out as they are."""
    return [site for site in results if prompt.blocks[site.blocks[0]].digest not in already]


def _old(results: Sequence[ResultSite], settings: MaskSettings) -> list[ResultSite]:
    """All but the newest, and but those that the model has yet to read."""
    return [site for site in results[: max(0, len(results) - settings.keep_window)] if not site.unread]


def _is_masked(each: Observation, already: Collection[bytes]) -> bool:
    return each.digests[0] in already or "".join(each.texts[:1]).startswith(PLACEHOLDER)


def _may_go(each: Observation, settings: MaskSettings) -> bool:
    """Return whether a result may be cleared at all. A result without its call may be of any tool."""
    names = {each.tool, each.call.via}
    if not each.plain or each.call.at < 0 or names & PROTECTED or names & set(settings.protected):
        return False
    return not each.stays


def _exclusive(seen: Sequence[Observation], texts: Collection[int], prompt: Prompt) -> list[int]:
    """Return those with no block outside of removable results: an edit applies to every block with the same content."""
    anywhere = Counter([block.digest for block in prompt.blocks])
    counts = Counter([seen[number].digests for number in texts])
    return [
        number
        for number in texts
        if (len(seen[number].digests) == 1 and anywhere[seen[number].digests[0]] == counts[seen[number].digests])
        or all(anywhere[digest] == 1 for digest in seen[number].digests)
    ]


def _in_order(numbers: Sequence[int], dead: dict[int, Death]) -> list[int]:
    ranks = {"superseded": 0, "overcome": 1, None: 2}
    return sorted(numbers, key=lambda number: (ranks[dead.get(number)], number))


def _masked(each: Observation) -> MaskedResult:
    return MaskedResult(tool=each.tool, tool_use_id=each.call.id, characters=each.characters)


# Schemas that discovery put into the history (`tools.deferral.strip = "when_cold"`). Where the request defines all of
# their tools elsewhere, their short form will do; with `call_tool` such a result is all that the model knows of them.

_block = re.compile(f"{OPEN}(.*?){CLOSE}", re.DOTALL).search
_named = re.compile(rb'<function>\{\\"name\\":\\"([\w-]+)').finditer
"""The names in a result as its text stands in a body, without decoding it."""


def strips(
    body: Body,
    prompt: Prompt,
    defined: Collection[str],
    *,
    already: Collection[bytes] = (),
    results: Sequence[ResultSite] | None = None,
) -> EditRequests:
    """Return replacements for discovery results with schemas of tools that are `defined` elsewhere. `prompt` is this
    body as read by a reader, `already` are the blocks with recorded edits, `results` the results if known."""
    results = sites(body, prompt) if results is None else results
    waiting = [
        may_strip(body, site, defined) and prompt.blocks[site.blocks[0]].digest not in already for site in results
    ]
    requests = NOTHING
    for each, waits in zip(observe(body, prompt, results), waiting, strict=True) if any(waiting) else ():
        text = "\n".join(each.texts)
        if not waits or each.tool != DISCOVER_TOOLS or not each.plain or each.stays or text.startswith(SHORT):
            continue
        names = _names(text)
        new = loaded_text(names)
        if names and set(names) <= set(defined) and len(each.digests) == 1 and len(new) < len(text):
            requests |= EditRequests(
                edits={each.digests[0]: replaced(body, each.site, new)[0]},
                masked=(_masked(each),),
            )
    return requests


def may_strip(body: Body, site: ResultSite, defined: Collection[str]) -> bool:
    """A quick no for the many results without schemas, for those that the model has yet to read, and for those that are
    all it has of a tool."""
    if site.unread or not defined:
        return False
    for span in (body.blocks[place] for place in site.places):
        if body.raw.find(OPEN.encode(), span.start, span.end) >= 0:
            names = {match[1].decode() for match in _named(body.raw, span.start, span.end)}
            return names <= set(defined)
    return False


def _names(text: str) -> list[str]:
    """Return the names of the tools defined in the block, in order; none if it cannot be read."""
    block = _block(text)
    names: list[str] = []
    decode, rest = json.JSONDecoder().raw_decode, "" if block is None else block[1]
    at = rest.find("{")
    while at >= 0:
        try:
            value, end = decode(rest, at)
        except (ValueError, RecursionError):
            return []
        name = value.get("name")
        if not isinstance(name, str):
            return []
        names.append(name)
        at = rest.find("{", end)
    return names
