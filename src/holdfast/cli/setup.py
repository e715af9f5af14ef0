"""What commands do before their work: the configuration of the current directory, and the facts it asks for."""

from __future__ import annotations

import logging
from pathlib import Path

from holdfast.config import load_here
from holdfast.facts import Facts, use


def use_configured_facts() -> None:
    """Lay the override sets of `facts.overrides` over the shipped facts, for this process."""
    logging.basicConfig(format="holdfast: %(message)s")  # warnings of the library, as the command says them
    config = load_here()
    sets = [_place(config.path(name), name) for name in config.settings.facts.overrides]
    use(Facts.load(sets) if sets else None)


def _place(path: Path, name: str) -> Path | str:
    """A file of the workspace, or the name of a shipped set."""
    return path if path.exists() else name
