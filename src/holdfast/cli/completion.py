"""`holdfast completion SHELL`: the script that makes a shell complete Holdfast's commands, options and names."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

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
    made = shell_class(cli, {}, "holdfast", VARIABLE)
    click.echo(made.source_template % made.source_vars())
