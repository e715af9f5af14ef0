"""The skills of a system text: an index and preloaded bodies, as a client writes them."""

from __future__ import annotations

from collections.abc import Mapping

INDEX = "## Available skills\nUse `skill_search(query)` to filter and `skill_load(name)` to read a body.\n\n"
PDF, ZIP = "Read PDF files.", "Pack and unpack."
BASE = {"pdf": PDF, "zip": ZIP}


def listed(skills: Mapping[str, str], preloaded: tuple[str, ...] = (), beyond: int = 0) -> str:
    """An index as it stands in a prompt."""
    lines = [f"- {name}{' [preloaded]' * (name in preloaded)}: {text}" for name, text in sorted(skills.items())]
    if beyond:
        lines.append(f"- … and {beyond} more, which `skill_search(query)` finds.")
    return INDEX + "\n".join(lines)


def section(name: str, body: str, source: str = "global") -> str:
    return f"# Skill: {name} (source: {source})\n\n{body}"


def text(*parts: str) -> str:
    return "\n\n".join(parts)
