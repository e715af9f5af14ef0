"""The command line: one file per command, each a thin door to the packages that do the work.

This file knows the commands by name only and imports one when it is called, so that `holdfast --help` stays
quick. A command is the attribute `command` of its module; adding one is a line in `COMMANDS`.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import click

from holdfast.errors import HoldfastError
from holdfast.version import __version__

from .lazy_group import LazyGroup

INTERRUPTED = 130  # as shells report a program ended by Ctrl-C


class Door(NamedTuple):
    """One command as `holdfast --help` shows it, without importing it."""

    module: str
    help: str
    example: str


COMMANDS = {
    "demo": Door("holdfast.cli.demo", "See what Holdfast does, without a key or a network.", "holdfast demo"),
    "explain": Door(
        "holdfast.cli.explain.command",
        "Say what broke the cache, from logs you already have.",
        "holdfast explain",
    ),
    "replay": Door(
        "holdfast.cli.replay.command",
        "Replay sessions: what each strategy would have cost.",
        "holdfast replay session.jsonl",
    ),
    "serve": Door(
        "holdfast.cli.serve",
        "Serve any client: a gateway in front of four provider APIs.",
        "holdfast serve",
    ),
    "run": Door(
        "holdfast.cli.run_client", "Run a client through the gateway and say what it cost.", "holdfast run -- claude"
    ),
    "repair": Door(
        "holdfast.cli.repair", "Say or set how much of a client's prompts is repaired.", "holdfast repair values"
    ),
    "chat": Door(
        "holdfast.cli.chat.command",
        "Talk to an agent whose prompt stays cached, and see the cost.",
        "holdfast chat --simulate",
    ),
    "mcp": Door(
        "holdfast.cli.mcp.command",
        "Offer explain and your MCP servers' tools to other agents.",
        "holdfast mcp --list",
    ),
    "skills": Door(
        "holdfast.cli.skills", "List, check and write skills, and see which are used.", "holdfast skills list"
    ),
    "memory": Door(
        "holdfast.cli.memory",
        "List, search and change what is remembered, and see why.",
        "holdfast memory list",
    ),
    "simulate": Door(
        "holdfast.cli.simulate",
        "Run a provider on this machine, with its cache and its faults.",
        "holdfast simulate",
    ),
    "sessions": Door("holdfast.cli.sessions", "List sessions: calls, hit rate, cost, breaks.", "holdfast sessions"),
    "show": Door("holdfast.cli.show", "Show one session or one call.", "holdfast show"),
    "breaks": Door(
        "holdfast.cli.breaks", "List what broke the cache, what it cost, what to do.", "holdfast breaks --since 7d"
    ),
    "bill": Door("holdfast.cli.bill", "Add up what was paid.", "holdfast bill --by day"),
    "store": Door(
        "holdfast.cli.store",
        "Check, copy, prune and shrink what is stored; forget a tenant.",
        "holdfast store check",
    ),
    "doctor": Door(
        "holdfast.cli.doctor",
        "Check configuration, store, upstreams, clients, dates of facts.",
        "holdfast doctor",
    ),
    "init": Door("holdfast.cli.init", "Write a commented holdfast.toml.", "holdfast init"),
    "models": Door(
        "holdfast.cli.models",
        "Show what is known of models: floors, lifetimes, prices, dates.",
        "holdfast models",
    ),
    "config": Door(
        "holdfast.cli.config", "Show every setting and where it came from.", "holdfast config show --changed"
    ),
    "completion": Door(
        "holdfast.cli.completion",
        "Print what makes a shell complete commands, options and names.",
        "holdfast completion bash",
    ),
}


class Commands(LazyGroup):
    """The commands of the table."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, door.help) for name, door in COMMANDS.items()])

    def complete_commands(self) -> dict[str, str]:
        return {name: door.help for name, door in COMMANDS.items()}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for door in COMMANDS.values():
                formatter.write_text(door.example)


@click.group(
    cls=Commands,
    modules={name: door.module for name, door in COMMANDS.items()},
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="holdfast")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keep the prompt of an LLM agent byte-stable, so that the provider's cache is hit."""
    if ctx.invoked_subcommand is None:
        from holdfast.cli import next_steps

        click.echo(next_steps.text(os.environ, __version__, next_steps.program()))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The program `holdfast`: 0 done, 1 a problem the user can act on, 2 wrong usage, 130 interrupted."""
    gc.set_threshold(50_000, 20, 50)  # what is loaded stays: looking through it takes a sixth of a short command
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code, with whatever went wrong told on standard error."""
    if "_HOLDFAST_COMPLETE" in os.environ:  # a shell asks what could stand here
        importlib.import_module("holdfast.cli.completion")
    try:
        result = cli.main(arguments, prog_name="holdfast", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except HoldfastError as problem:
        return _tell(problem)
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("holdfast: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return 1  # as click itself ends when it notices first
    except OSError as problem:
        if problem.errno != errno.ENOSPC:
            raise
        _silence_stdout()
        click.echo("holdfast: the disk is full; free some space and try again", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _tell(problem: HoldfastError) -> int:
    if os.environ.get("HOLDFAST_TRACEBACK"):
        traceback.print_exception(problem)
    for line in str(problem).splitlines():
        click.echo(f"holdfast: {line}", err=True)
    return 1


def _silence_stdout() -> None:
    """What is still buffered has no reader; without this the interpreter complains about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
