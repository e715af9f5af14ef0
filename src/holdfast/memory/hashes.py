"""What an entry says, as one short value: the same for two texts that a reader would call the same."""

from __future__ import annotations

from hashlib import sha256
from unicodedata import normalize

_LENGTH = 16
_ENDS = ".,;:!? "


def normalised(text: str) -> str:
    """A text without what says nothing: forms of letters, capitals, white space, punctuation at the ends of lines.

    Whatever is decided by it is decided alike after a spelling was tidied up. Once normalised, always normalised.
    """
    lines = normalize("NFKC", normalize("NFKC", text).casefold()).splitlines()
    return " ".join(kept for line in lines if (kept := " ".join(line.split()).rstrip(_ENDS)))


def entry_hash(title: str, content: str) -> str:
    """What changes where an entry says something else. No line break is left in either text, so that one parts them."""
    return sha256(f"{normalised(title)}\n{normalised(content)}".encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
