"""The tool that `llm` is given."""

import subprocess


def run_command(command: str) -> str:
    """Run a command in the work directory and give what it prints."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout
