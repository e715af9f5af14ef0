"""A client's body with its blocks addressed, and the splices that change it.

A body is the bytes as sent plus offsets into them. Nothing here re-serialises: a change is a list of splices, and
without one the output is the input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.caches import Section
from holdfast.records import encode_string

from . import scan
from .raw_json import canon
from .scan import Member, Span, walk_array

T = TypeVar("T")
Ttl = Literal["5m", "1h"]


class BlockSpan(Struct, frozen=True, gc=False):
    """The span of a block, the smallest part that can carry a marker.

    `where` is its path with `{0}` for the message and `{1}` for the item in it; the path is formatted only on demand,
    because a body has a thousand blocks and a report names one. `form` is "object" for a JSON object and "string" for a
    bare text, which has to be wrapped before it can carry a marker. `context` holds the spans of members of the
    surrounding message or item that belong to the block's identity (a tool_call_id, an unknown field); they belong to
    the first block of their message.
    """

    where: str
    section: Section
    role: str
    start: int
    end: int
    message: int = -1
    item: int = 0
    form: Literal["object", "string"] = "object"
    context: tuple[Span, ...] = ()

    @property
    def path(self) -> str:
        return self.where.format(self.message, self.item)


class Marker(Struct, frozen=True):
    """A cache marker the body carries: on a block, nested in one, or at the top level (`block` is None).

    `at` is where the object begins that carries it.
    """

    block: int | None
    ttl: str
    nested: bool = False
    at: int = 0


class Splice(NamedTuple):
    """Replace raw[start:end] by `new`. At one point, what belongs to an inner value (`outer` 0) comes first."""

    start: int
    end: int
    new: bytes
    outer: int = 0


class Unreadable(Struct, frozen=True):
    """A body we do not understand: why, and the bytes, which can always be forwarded as they are."""

    raw: bytes
    reason: str


class Body(Struct, frozen=True):
    """A parsed body. `blocks` are in the provider's prefix order, `members` the top-level members in the body's."""

    raw: bytes
    dialect: str
    model: str
    blocks: tuple[BlockSpan, ...]
    members: dict[str, Member]
    end: int

    @property
    def messages_from(self) -> int:
        """The first block of the messages, which come last in every dialect's prefix order."""
        for index, block in enumerate(self.blocks):  # asked for at every turn: quicker than `next`
            if block.section == "messages":
                return index
        return len(self.blocks)

    def text(self, block: BlockSpan) -> bytes:
        return self.raw[block.start : block.end]

    def member(self, name: str) -> bytes | None:
        """The raw value of a top-level member."""
        member = self.members.get(name)
        return None if member is None else self.raw[member.start : member.end]

    def no_place(self, index: int) -> ValueError:
        """What `place` raises on a block that is not markable: a bug of the caller, who can ask first."""
        return ValueError(f"{self.blocks[index].path} cannot carry a marker on {self.model or 'this model'}")

    def top(self) -> dict[str, bytes]:
        """All top-level members, raw."""
        return {name: self.raw[member.start : member.end] for name, member in self.members.items()}

    def context(self, block: BlockSpan) -> bytes:
        """The canonical text of the members that hang on a block, each after a comma."""
        return b"".join(b"," + canon(b"{" + self.raw[start:end] + b"}")[1:-1] for start, end in block.context)

    def apply(self, splices: Iterable[Splice]) -> bytes:
        return apply(self.raw, splices)

    def set_member(self, name: str, value: bytes) -> list[Splice]:
        """Give a top-level member this raw value: in its place, or as a new last member."""
        return change_members(list(self.members.values()), self.end, {name: value})

    def change_members(self, values: Mapping[str, bytes], remove: Collection[str] = ()) -> list[Splice]:
        """Set and remove top-level members in one go, so that the commas come out right."""
        return change_members(list(self.members.values()), self.end, values, remove)


def guarded(raw: bytes, kind: type[T], build: Callable[[T], Body], shortened: bytes | None = None) -> Body | Unreadable:
    """Decode `raw`, or a shortened form of it, as `kind` and build a Body from the result. Whatever is wrong with the
    bytes, the answer is `Unreadable` with the reason in one sentence."""
    try:
        return build(scan.decode(raw if shortened is None else shortened, kind))
    except msgspec.ValidationError as error:
        return Unreadable(raw, f"the body has an unexpected shape: {error}")
    except msgspec.DecodeError as error:
        return Unreadable(raw, f"the body is not JSON: {error}")
    except UnicodeDecodeError as error:
        return Unreadable(raw, f"the body is not UTF-8: {error.reason}")
    except RecursionError:
        return Unreadable(raw, "the body is nested too deeply to be read")
    except (scan.Misfit, IndexError) as error:
        return Unreadable(raw, f"the body cannot be addressed: {error}")


def tool_spans(raw: bytes, pos: int, tools: Sequence[Raw]) -> tuple[list[BlockSpan], int]:
    """The tools of the list that begins at `pos` as blocks, and where the list ends."""
    spans, end = walk_array(raw, pos, tools)
    return [BlockSpan("tools[{1}]", "tools", "", *span, -1, i) for i, span in enumerate(spans)], end


def is_border(blocks: Sequence[BlockSpan], index: int) -> bool:
    """Return whether a message, or the system text, begins with this block. Tools have no borders: some of them are not
    part of the prefix, and what follows those is the same with and without them."""
    span = blocks[index]
    if span.section == "tools":
        return False
    if not index:
        return True
    before = blocks[index - 1]
    return before.message != span.message or before.section != span.section


def with_context(blocks: list[BlockSpan], members: list[Member]) -> list[BlockSpan]:
    """Hang a message's further members on its first block."""
    if blocks and members:
        blocks[0] = replace(blocks[0], context=tuple((m.key_start, m.end) for m in members))
    return blocks


def apply(raw: bytes, splices: Iterable[Splice]) -> bytes:
    """The text with all splices made. Overlapping splices are a programming error (ValueError)."""
    ordered = sorted(splices, key=lambda splice: (splice.start, splice.end, splice.outer))
    if not ordered:
        return raw
    view = memoryview(raw)  # joining views copies a long body once, not twice
    out: list[bytes | memoryview] = []
    at = 0
    for start, end, new, _ in ordered:
        if start < at:
            raise ValueError(f"splices overlap at byte {start}")
        out += (view[at:start], new)
        at = end
    out.append(view[at:])
    return b"".join(out)


def change_members(
    members: list[Member], end: int, values: Mapping[str, bytes], remove: Collection[str] = ()
) -> list[Splice]:
    """Set and remove members of the object whose members these are and which ends at `end`.

    A new member goes after the last one, and after whatever is added to the end of that one's value.
    """
    splices = [Splice(m.start, m.end, values[m.key]) for m in members if m.key in values]
    splices += _removals(members, remove)
    nonempty = any(member.key not in remove for member in members)
    present = {member.key for member in members}
    for name, value in values.items():
        if name not in present:
            new = (b"," if nonempty else b"") + encode_string(name) + b":" + value
            at = members[-1].end if members else end - 1
            splices.append(Splice(at, at, new, outer=1))
            nonempty = True
    return splices


def _removals(members: list[Member], names: Collection[str]) -> Iterator[Splice]:
    """Remove runs of members, each together with its commas."""
    last: Member | None = None
    run: list[Member] = []
    for member in (*members, None):
        if member is not None and member.key in names:
            run.append(member)
            continue
        if run:
            start = run[0].key_start if last is None else last.end
            end = run[-1].end if last is not None or member is None else member.key_start
            yield Splice(start, end, b"")
            run = []
        last = member
