"""What is wanted of results that were sent: replacements by the digest of the block, for the engine to decide on."""

from __future__ import annotations

from msgspec import Struct


class Masked(Struct, frozen=True, kw_only=True):
    """A result that stands there no longer, and how many characters it had."""

    tool: str
    tool_use_id: str
    characters: int


class Wanted(Struct, frozen=True, kw_only=True):
    """Edits to ask for, all together, and the results they clear."""

    edits: dict[bytes, bytes] = {}
    masked: tuple[Masked, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __or__(self, other: Wanted) -> Wanted:
        """Both. One rewrite pays for all that stands behind its beginning."""
        if not (self and other):
            return self or other
        return Wanted(edits=other.edits | self.edits, masked=(*self.masked, *other.masked))


NOTHING = Wanted()
