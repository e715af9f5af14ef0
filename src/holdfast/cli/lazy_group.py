"""Groups of commands, each of which is imported only when it is called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """`modules` are those of the commands by name: `module`, where the command is its attribute `command`, or
    `module:attribute`."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        module, _, attribute = self.modules[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def complete_commands(self) -> dict[str, str]:
        """The names that a shell completes, with what each does where that is known without importing it."""
        return dict.fromkeys(self.modules, "")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click does it, but without importing every command for its help."""
        from click.shell_completion import CompletionItem

        commands = self.complete_commands().items()
        names = [
            CompletionItem(name, help=help_text or None) for name, help_text in commands if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        close = difflib.get_close_matches(args[0], self.modules, n=1)
        if args[0] not in self.modules and not args[0].startswith("-"):
            cure = f"did you mean {close[0]!r}?" if close else f"`{ctx.command_path} --help` lists them."
            ctx.fail(f"No such command {args[0]!r}; {cure}")
        return super().resolve_command(ctx, args)
