"""The tools that come with Holdfast: files, search, commands. Each is a plain `Tool`; `Processes` is one session's.

They touch files only through the workspace, and say nothing that changes from run to run: no times, no process numbers.
"""

from __future__ import annotations

from holdfast.config.sections.agent import ToolsSettings

from ..contract import Tool
from ..keys import Keys
from .commands import process_output, process_stop, run_command
from .files import list_dir, read_file, write_file
from .grep import grep_files
from .patch import patch_file
from .processes import Processes

__all__ = ["Processes", "builtin_tools"]


def builtin_tools(
    settings: ToolsSettings, processes: Processes | None = None, keys: Keys | None = None
) -> tuple[Tool, ...]:
    """All of them, in the order in which they are declared. Whoever gives `processes` closes them; otherwise they end
    with the tools."""
    processes, keys = processes or Processes(), keys or Keys(settings.command)
    return (
        read_file(settings.offload),
        write_file(),
        patch_file(),
        list_dir(),
        grep_files(processes),
        run_command(settings.command, processes, keys),
        process_output(processes, keys),
        process_stop(processes),
    )
