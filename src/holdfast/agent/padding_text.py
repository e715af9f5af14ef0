"""The text that fills a short prompt up to a model's floor: Holdfast's own, or a file of the user's.

Read once, when a session begins: what was sent stands in its log, and nothing that happens to the file later changes
it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.core import SECTIONS, split_sections
from holdfast.errors import HoldfastError
from holdfast.tools import Workspace, mend, shown

_logger = logging.getLogger(__name__)

MOST = 65_536
"""Bytes of a file: no floor asks for more, and a file that is larger is hardly meant."""


def padding_sections(workspace: Path, named: str) -> Sequence[str]:
    """The sections of the file `cache.padding_text` names, or the built-in ones where it names none. A file that cannot
    be used is a warning and no more: a session can do without it."""
    if not named:
        return SECTIONS
    try:
        return _sections(workspace, named)
    except HoldfastError as problem:
        _logger.warning(
            "cache.padding_text: %s; padding uses the built-in text. Correct the file or the setting",
            str(problem).rstrip("."),
        )
        return SECTIONS


def _sections(workspace: Path, named: str) -> tuple[str, ...]:
    try:
        data = _read(workspace, named)
    except OSError as problem:
        raise HoldfastError(f"{shown(named)} cannot be read ({problem.strerror or problem})") from problem
    if len(data) > MOST:
        raise HoldfastError(f"{shown(named)} is longer than {MOST:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise HoldfastError(f"{shown(named)} is no UTF-8 text") from problem
    if "\0" in text:
        raise HoldfastError(f"{shown(named)} is no text")
    sections = split_sections(mend(text))
    if not sections:
        raise HoldfastError(f"{shown(named)} is empty")
    return sections


def _read(workspace: Path, named: str) -> bytes:
    """A relative name is a file of the workspace, and no link leads out of it; an absolute one was named by the user
    outside of any workspace and is followed wherever it leads."""
    place, name = workspace, named
    if Path(named).is_absolute():
        real = Path(os.path.realpath(named))
        place, name = real.parent, real.name
    with Workspace(place).open_read(name) as file:
        return file.read(MOST + 1)
