"""Names that a shell completes: sessions, models, strategies, settings. Quick, and silent whatever is wrong.

What is looked up is imported when a name is asked for; a shell waits for every keystroke of Tab.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import click

from holdfast.errors import HoldfastError

_SESSIONS = 50
_PLAIN = re.compile(r"[\w.][\w.:,=@%+/-]*").fullmatch
"""Shells put a name on the line as it is: clients and workspaces choose some, and `;` would be theirs to run."""


def _quiet(names: Callable[[str], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A lookup whose problems are nobody's business while a line is being typed."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in names(incomplete) if name.startswith(incomplete) and _PLAIN(name)]
        except (HoldfastError, OSError, sqlite3.Error, ValueError):
            return []

    return complete


def _sessions(incomplete: str) -> Iterable[str]:
    from holdfast.config import load_config
    from holdfast.store import open_existing

    store = open_existing(load_config().settings.store.url, busy_timeout=0.2)
    if store is None:
        return ()
    with store:
        return [each.session for each in store.active_sessions(prefix=incomplete, limit=_SESSIONS)]


def _models(incomplete: str) -> Iterable[str]:
    from holdfast.facts import default

    return (model.ref for model in default().models())


def _providers(incomplete: str) -> Iterable[str]:
    from holdfast.facts import default

    return default().providers()


def _strategies(incomplete: str) -> Iterable[str]:
    from typing import get_args

    from holdfast.config.sections import Strategy

    before, comma, _ = incomplete.rpartition(",")
    return (before + comma + name for name in get_args(Strategy))


def _settings(incomplete: str) -> Iterable[str]:
    from holdfast.config import KEYS

    key, sign, _ = incomplete.partition("=")
    if not sign:
        return (f"{name}=" for name in KEYS)
    setting = KEYS.get(key)
    choices: tuple[Any, ...] = () if setting is None else setting.choices
    if setting is not None and setting.kind == "boolean":
        choices = ("true", "false")
    return (f"{key}={choice}" for choice in choices)


def _agents(incomplete: str) -> Iterable[str]:
    from holdfast.config import load_config

    return load_config().agents


sessions, models, providers = _quiet(_sessions), _quiet(_models), _quiet(_providers)
strategies, settings, agents = _quiet(_strategies), _quiet(_settings), _quiet(_agents)
