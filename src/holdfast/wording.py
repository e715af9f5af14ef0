"""Values in words, the same in every report: text that is safe to show, counts, dollars."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

UNKNOWN = "unknown"
"""The text for dollars without a known price."""


def printable(text: object) -> str:
    """The text as one line, with `?` for every character that cannot be shown, whatever a client put into it."""
    return "".join(character if character.isprintable() else "?" for character in str(text))


def counted(number: int, noun: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def dollars(value: Decimal | None, *, signed: bool = False) -> str:
    """Cents from a dollar on, hundredths of a cent below; never 0 for what is not known."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size and size < Decimal("0.00005"):
        text = "<$0.0001"
    else:
        places = Decimal("0.01") if size >= 1 or not size else Decimal("0.0001")
        text = f"${size.quantize(places, ROUND_HALF_UP):,}"
    sign = "-" if value < 0 else "+" if signed and value > 0 else ""
    return sign + text
