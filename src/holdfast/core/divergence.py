"""Where a request departs from the lane's last one: the block, the section, what happened there, how much lies behind.

Works on digests: a lane keeps no text. Where the two texts of the block are at hand, `place` finds the byte inside it.
Says what happened, not whether it cost anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from holdfast.caches import EFFORT, Block, Prompt, Rules, Section, rules
from holdfast.facts import ModelFacts
from holdfast.records import Part, common_head

from .plan import DIGEST, Columns, Sent, columns, head
from .redact import excerpt

Course = Literal["extension", "resend", "fork", "rewrite", "window", "compaction"]
"""The relation of a request's blocks to those of the previous one.

extension: it begins with all of them; resend: it is the same; fork: it returns to an earlier place and continues
differently, without anything of what followed; window: messages from the front are gone; compaction: most of the
messages are gone and something short replaces them; rewrite: any other change of what had been sent.
"""

What = Literal["model", "settings", "changed", "removed", "inserted", "moved", "reordered", "trimmed", "stripped"]
"""`stripped`: the client sent it and the provider leaves it out (A14)."""

Settings = Sequence[tuple[str, bytes]]
"""Digests of settings by name, as `Sent.settings` has them."""


_ANSWERS = ("assistant", "model")
_SEEN_IN_BLOCKS = ("thinking.keep",)  # decides which blocks are shown; a change of it is a change of those
_CONVERSATION = 4  # blocks: with fewer, "most messages are gone" means nothing


class Divergence(Struct, frozen=True, kw_only=True):
    """The first place where a request departs from the one before it.

    `block` is a number in the new prompt, its length where it ends earlier. `kept` counts the tokens before it that are
    still the same prefix, `behind` those of the earlier request that are not. `gone` blocks were taken away there and
    `new` ones put in, where that is known.
    """

    what: What
    block: int
    section: Section
    kept: int
    behind: int
    setting: str | None = None
    gone: int = 0
    new: int = 0

    @property
    def part(self) -> Part:
        """The part of the prefix in which they depart."""
        return self.what if self.what == "model" or self.what == "settings" else self.section


class Comparison(Struct, frozen=True):
    """A request beside the one before it. An extension or a resend under the same settings has no divergence."""

    course: Course
    divergence: Divergence | None = None


class Place(Struct, frozen=True):
    """A byte inside a block, and a few redacted characters around it in both texts."""

    offset: int
    before: str
    after: str


def compare(
    before: Sent, prompt: Prompt, settings: Settings, model: ModelFacts, *, blocks: Columns | None = None
) -> Comparison:
    """How a request continues the lane's last one. Of several departures the first in prefix order is named: what lies
    behind it is lost whatever else changed. `blocks` are its own as columns, where they are at hand."""
    blocks = columns(prompt) if blocks is None else blocks
    grown = blocks.same == len(before)  # then nobody asks for single digests
    same = blocks.same if grown else common_head(before.digests, blocks.digests) // DIGEST
    grown = grown or same == len(before)
    old, new = ([], []) if grown else (_apart(before.digests), _apart(blocks.digests))
    course = _course(old, new, same, before, prompt)
    if before.model != prompt.model:
        first = prompt.blocks[0].section if prompt.blocks else "messages"
        behind = sum(before.counts())
        return Comparison(
            course, Divergence(what="model", block=0, section=first, kept=0, behind=behind, setting="model")
        )
    provider = rules(model)
    setting = None if before.settings == settings else _setting(before.settings, settings, provider, model)
    if grown and setting is None:
        return Comparison(course)
    counts = before.counts()
    parted = None if grown else _section(before, prompt, same, provider)
    if setting is not None:
        name, section = setting
        start = _start(prompt, section, provider)
        if parted is None or start <= same:
            kept = prompt.ends[start - 1] if start else 0
            behind = sum(counts[min(start, len(counts)) :])
            return Comparison(
                course,
                Divergence(what="settings", block=start, section=section, kept=kept, behind=behind, setting=name),
            )
    if parted is None:
        return Comparison(course)
    what, gone, added = _what(old, new, same, parted, course, before, prompt)
    lost_all = parted == "tools" and (provider.all_tools or provider.order[0] == "tools")  # A13, B9
    kept = 0 if lost_all else sum(counts[:same])
    return Comparison(
        course,
        Divergence(what=what, block=same, section=parted, kept=kept, behind=sum(counts) - kept, gone=gone, new=added),
    )


def place(before: str | bytes | None, after: str | bytes | None, *, keep_bodies: bool = False) -> Place | None:
    """The first byte at which two texts of a block differ; None where they do not, or where neither is at hand."""
    if before is None and after is None:
        return None
    old, new = as_bytes(before), as_bytes(after)
    offset = common_head(old, new)
    if offset == len(old) == len(new):
        return None
    return Place(
        offset,
        excerpt(old, offset, keep_bodies=keep_bodies) if before is not None else "",
        excerpt(new, offset, keep_bodies=keep_bodies) if after is not None else "",
    )


def as_bytes(text: str | bytes | None) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    return text or b""


def _apart(joined: bytes) -> list[bytes]:
    return [joined[at : at + DIGEST] for at in range(0, len(joined), DIGEST)]


def _course(old: list[bytes], new: list[bytes], same: int, before: Sent, prompt: Prompt) -> Course:
    if same == len(before):
        return "extension" if len(prompt.blocks) > same else "resend"
    first = head(prompt)
    if same < first or before.section(same) != "messages":
        return "rewrite"
    if same == len(new):
        return "fork"
    counts, again = before.counts(), set(new[same:])
    back = sum(counts[i] for i in range(same, len(old)) if old[i] in again)
    answered = any(_is_answer(block) for block in prompt.blocks[same:])
    # at most one message is kept in front: clients that trim often keep the first as an anchor
    front = same == first or prompt.blocks[same - 1].message == prompt.blocks[first].message
    if _resumes(old[same:], new[same:]):
        whole = same == first or prompt.blocks[same].message != prompt.blocks[same - 1].message
        return "window" if front and whole and not _left_out(prompt, same) else "rewrite"
    in_front = prompt.ends[first - 1] if first else 0
    shorter = 2 * (prompt.tokens - in_front) < sum(counts[first:]) and len(new) < len(old)
    replaced = new[same] not in set(old[same:]) and (front or answered or back)
    if shorter and replaced and len(old) - first >= _CONVERSATION:
        return "compaction"
    # A fork goes back to a place and asks anew: what it asks has no answer yet, and what followed does not come again.
    if not answered and 2 * back < sum(counts[same:]):
        return "fork"
    return "rewrite"


def _what(
    old: list[bytes], new: list[bytes], same: int, section: Section, course: Course, before: Sent, prompt: Prompt
) -> tuple[What, int, int]:
    """What happened at the first block that differs, how many blocks went and how many came there."""
    tail, now = old[same:], new[same:]
    if section != "messages":
        inside = [digest for i, digest in enumerate(old) if before.section(i) == section]
        if sorted(inside) == sorted(new[i] for i, block in enumerate(prompt.blocks) if block.section == section):
            return "reordered", 0, 0
    gone = _resumes(tail, now)
    if course == "window":
        return "trimmed", gone, 0
    if gone and section == "messages" and _left_out(prompt, same):
        return "stripped", gone, 0
    if gone:
        later = set(now[len(tail) - gone :])
        return ("moved" if all(digest in later for digest in tail[:gone]) else "removed"), gone, 0
    answered = section == "messages" and any(_is_answer(b) for b in prompt.blocks[same:])
    came = _resumes(now, tail)
    if came:
        moved = answered and any(_is_answer(b) for b in prompt.blocks[same : same + came])
        return ("moved" if moved else "inserted"), 0, came
    # The answer follows what it answers without the end of it: that end was for one request only.
    dropped = answered and _is_answer(prompt.blocks[same]) and not set(tail) & set(now)
    return ("removed", len(tail), 0) if dropped or not now else ("changed", 0, 0)


def _is_answer(block: Block) -> bool:
    """Return whether the block is the model's. Items of OpenAI's Responses that are not messages have no role."""
    return block.role in _ANSWERS or (not block.role and (block.kind == "reasoning" or block.kind.endswith("_call")))


def _left_out(prompt: Prompt, index: int) -> bool:
    """Return whether the body has a block before this one that the cache does not see."""
    return bool(prompt.origin) and index > 0 and prompt.origin[index] - prompt.origin[index - 1] > 1


def _resumes(whole: list[bytes], part: list[bytes]) -> int:
    """How many blocks at the front of `whole` are left out when it goes on as `part` begins; 0 if it does not.

    Two blocks in a row have to agree where there are two: a short text may come twice by chance.
    """
    if not part:
        return 0
    for index in range(1, len(whole)):
        if whole[index] == part[0]:
            following = whole[index + 1 : index + 2], part[1:2]
            if not all(following) or following[0] == following[1]:
                return index
    return 0


def _section(before: Sent, prompt: Prompt, index: int, provider: Rules) -> Section:
    """The section that changed: where the two have different ones, the earlier has lost or gained its last block."""
    sections = {before.section(index)}
    if index < len(prompt.blocks):
        sections.add(prompt.blocks[index].section)
    return next(section for section in provider.order if section in sections)


def _setting(before: Settings, after: Settings, provider: Rules, model: ModelFacts) -> tuple[str, Section] | None:
    """Return the changed setting that loses most, and the first section it loses (A13, B9). Settings missing in the
    rules' table (such as a cache key) separate entries from the start."""
    old, new = dict(before), dict(after)
    changed = [n for n in sorted(old.keys() | new.keys()) if old.get(n) != new.get(n) and n not in _SEEN_IN_BLOCKS]
    everything = provider.order[0]
    sections = {name: provider.affecting.get(name, everything) for name in changed}
    if model.knobs.effort_invalidates == "all":
        sections |= {name: everything for name in sections if name in EFFORT}
    if not sections:
        return None
    return min(sections.items(), key=lambda item: provider.order.index(item[1]))


def _start(prompt: Prompt, section: Section, provider: Rules) -> int:
    """The first block that is lost with a section."""
    rank = provider.order.index(section)
    places = (i for i, block in enumerate(prompt.blocks) if provider.order.index(block.section) >= rank)
    return next(places, len(prompt.blocks))
