"""The facts that a configuration asks for: the shipped ones, with the sets of `facts.overrides` over them."""

from __future__ import annotations

from pathlib import Path

from holdfast.facts import Facts

from .resolution import Config


def configured_facts(config: Config) -> Facts | None:
    """The facts with their overrides; None where the shipped ones are meant."""
    sets = [_place(config.path(name), name) for name in config.settings.facts.overrides]
    return Facts.load(sets) if sets else None


def _place(path: Path, name: str) -> Path | str:
    """A file of the workspace, or the name of a shipped set."""
    return path if path.exists() else name
