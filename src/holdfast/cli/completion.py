"""`holdfast completion SHELL`: the script that makes a shell complete Holdfast's commands, options and names."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from holdfast.errors import HoldfastError

_SESSIONS = 50
_PLAIN = re.compile(r"[\w.][\w.:,=@%+/-]*").fullmatch
"""Shells put a name on the line as it is: clients and workspaces choose some, and `;` would be theirs to run."""


def _quiet(names: Callable[[str], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Wrap a lookup so that an error gives no completions instead of a message while typing."""

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


VARIABLE = "_HOLDFAST_COMPLETE"
SHELLS = ("bash", "zsh", "fish")

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(COMP_LINE="${COMP_LINE:0:$COMP_POINT}" %(complete_var)s=bash_complete $1)
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class BashCompletion(BashComplete):
    """bash breaks words at `:` and `=`, which models (`anthropic:…`) and settings (`KEY=VALUE`) have inside: so the
    line is taken as it was typed, and of an answer only what follows the last of them is given back."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        typed = incomplete.partition("=")[2] if incomplete.startswith("-") else incomplete
        quoted = line.rpartition(" ")[2][:1] in ("'", '"')  # in quotes bash breaks nothing
        self._typed = 0 if quoted else max(typed.rfind(":"), typed.rfind("=")) + 1
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value[self._typed :] if item.type == 'plain' else item.value}"


add_completion_class(BashCompletion)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print what makes a shell complete commands, options, and names such as sessions, models and settings.

    \b
    Examples, each to be done once:
      echo 'eval "$(holdfast completion bash)"' >> ~/.bashrc
      echo 'eval "$(holdfast completion zsh)"' >> ~/.zshrc
      holdfast completion fish > ~/.config/fish/completions/holdfast.fish

    It acts in shells that are opened after that. bash has to be 4.4 or newer; zsh needs `compinit` before the line.
    """
    from holdfast.cli import cli

    shell_class = get_completion_class(shell)
    assert shell_class is not None  # click knows the three
    completion = shell_class(cli, {}, "holdfast", VARIABLE)
    click.echo(completion.source_template % completion.source_vars())
