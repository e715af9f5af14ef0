"""Working guidance for an agent, as text that stands in the stable prefix when it needs padding.

Constant: it names no tool set, session, date or path of anybody's. Sections are added whole, in this order, so that the
text never ends in the middle of a thought. Knows nothing of floors or costs.
"""

from __future__ import annotations

from pathlib import Path

_HEADING = "\n## "
_first, *_others = Path(__file__).with_suffix(".md").read_text("utf-8").rstrip("\n").split(_HEADING)

SECTIONS: tuple[str, ...] = (_first.rstrip("\n"), *(f"## {section}".rstrip("\n") for section in _others))
"""The guidance, section by section, each with its heading."""
