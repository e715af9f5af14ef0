"""Writing `holdfast.toml`: a whole new file, or one value into an existing file.

A new file has every key commented out with its default, so that it changes nothing: `#key = value` is a key, `# text`
is prose. A single value is written so that every other line, comments included, stays unchanged.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError

from .document import FILE, ConfigDocument, parse, printable
from .keys import KEYS, SECTIONS, Key
from .loader import _read
from .parse import shown

WIDTH = 110
FIRST = (
    "cache.strategy",
    "cache.repair",
    "cache.client_markers",
    "gateway.port",
    "gateway.preflight_usd",
    "agent.model",
    "mcp.servers",
    "upstream.anthropic",
    "store.retention",
    "memory.inject",
)
"""What most people look for first."""

_HEAD = """\
Settings of Holdfast {where}.

Every key below is commented out and shows its default: as it is, this file changes nothing. To set one, remove the
`#` before it and change its value. `holdfast config show --changed` then says what is set and where, and
`holdfast doctor` whether all is well. {order}
For one agent or sub-agent role alone: [agents.NAME.SECTION], such as [agents.scout.cache]."""
_WORKSPACE = (
    "This file wins over holdfast.toml in HOLDFAST_HOME; variables such as HOLDFAST_CACHE_STRATEGY win over both."
)
_HOME = "holdfast.toml of a workspace wins over this file; variables such as HOLDFAST_CACHE_STRATEGY win over both."
_GUARDED = """\
Not here, because a workspace may be a stranger's repository: {keys}.
`holdfast init --global` writes a file that may set them."""


def as_toml(*, workspace: bool) -> str:
    """The file for a workspace, or for HOLDFAST_HOME; keys that a workspace cannot set are named in its file only."""
    where = "for this workspace" if workspace else "for every workspace of this user"
    lines = [*_prose(_HEAD.format(where=where, order=_WORKSPACE if workspace else _HOME)), "#", "# Wanted first:"]
    lines += [f"#   {name:22} {KEYS[name].description}" for name in FIRST if _may(KEYS[name], workspace)]
    guarded = [key.name for key in KEYS.values() if not _may(key, workspace)]
    if guarded:
        lines += ["#", *_prose(_GUARDED.format(keys=", ".join(guarded)))]
    for section, meaning in SECTIONS.items():
        keys = [key for key in KEYS.values() if key.section == section and _may(key, workspace)]
        if keys:
            lines += ["", f"[{section}]", *_prose(meaning)]
            lines += [line for key in keys for line in _key(key)]
    return "\n".join(lines) + "\n"


def _may(key: Key, workspace: bool) -> bool:
    return not (workspace and key.guarded)


def _key(key: Key) -> Iterator[str]:
    text = key.description
    if key.kind == "choice":
        text += f" {key.allowed[0].upper()}{key.allowed[1:]}."
    if key.zones:
        text += ' Only with cache.strategy = "zones".'
    yield ""
    yield from _prose(text)
    value = '"unset"' if key.default is None else shown(key.default)
    yield f"#{key.name.rpartition('.')[2]} = {value}"


def _prose(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield "#"
        yield from textwrap.wrap(
            " ".join(paragraph.split()),
            WIDTH,
            initial_indent="# ",
            subsequent_indent="# ",
            break_long_words=False,
            break_on_hyphens=False,
        )


_BOM = "\ufeff"
_VALUE = re.compile(r"""^([^=]*=\s*)(?:"[^"\\\n]*"|'[^'\n]*')""")


class NoPlaceError(Exception):
    """The value cannot be changed without rewriting other parts of the file; the message has the alternative."""


def with_value(text: str, section: str, key: str, value: str) -> str:
    """The text of a file with this string as the value of a key of a top-level table."""
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    end = "\r\n" if "\r\n" in text else "\n"
    document = parse("", text)
    lines = text.split("\n")
    literal = json.dumps(value)
    table = document.table.get(section)
    advice = _advice(document, lines, section, f"{key} = {literal}")
    if table is not None and not isinstance(table, dict):
        raise NoPlaceError(advice)
    if table is None:
        gap = "" if not text.strip() else end if text.endswith("\n") else end * 2
        changed = f"{text}{gap}[{section}]{end}{key} = {literal}{end}"
    elif key in table:
        place = document.lines.get((section, key))
        line = "" if place is None else lines[place - 1]
        replaced = _VALUE.sub(lambda match: match[1] + literal, line)
        changed = "\n".join([*lines[: (place or 1) - 1], replaced, *lines[(place or 1) :]])
    else:
        changed = _added(lines, section, f"{key} = {literal}", end)
    expected: dict[str, Any] = {**document.table, section: {**(table or {}), key: value}}
    try:
        written = tomllib.loads(changed)
    except tomllib.TOMLDecodeError as problem:
        raise NoPlaceError(advice) from problem
    if written != expected:
        raise NoPlaceError(advice)
    return bom + changed


def _advice(document: ConfigDocument, lines: list[str], section: str, assignment: str) -> str:
    """Return the advice for changing the value by hand."""
    place = document.line((section, assignment.split(" ")[0]))
    line = "" if place is None else lines[place - 1]
    if not isinstance(document.table.get(section, {}), dict):
        return f"line {place} is no table; write [{section}] and below it {assignment} instead"
    if re.match(rf"\s*{_spelt(section)}\s*=\s*{{", line):
        return f"write {assignment} inside the braces of `{section} = {{…}}` on line {place} yourself"
    if place is not None and "=" in line:
        return f"write {assignment} on line {place} yourself"
    return f"write {assignment} under [{section}] yourself"


def _spelt(name: str) -> str:
    """A bare key as it may be spelt."""
    return rf"""(?:{re.escape(name)}|"{re.escape(name)}"|'{re.escape(name)}')"""


def _added(lines: list[str], section: str, assignment: str, end: str) -> str:
    """A new key: behind the header of its table, in front of its first dotted key, or in a table at the end."""
    carriage = end[:-1]
    header = re.compile(rf"\s*\[\s*{_spelt(section)}\s*\]")
    dotted = re.compile(rf"\s*{_spelt(section)}\s*\.")
    for place, line in enumerate(lines):
        if header.match(line):
            if place == len(lines) - 1:
                return "\n".join([*lines[:place], line + carriage, assignment + carriage, ""])
            return "\n".join([*lines[: place + 1], assignment + carriage, *lines[place + 1 :]])
        if dotted.match(line):
            return "\n".join([*lines[:place], f"{section}.{assignment}{carriage}", *lines[place:]])
    whole = "\n".join(lines)
    gap = end if whole.endswith("\n") else end * 2
    return f"{whole}{gap}[{section}]{end}{assignment}{end}"


def write_value(file: Path, section: str, key: str, value: str) -> None:
    """Write a value into a file, which is made where there is none: the whole file or nothing."""
    where = printable(file)
    _read(file, workspace=False)  # what could not be read afterwards is refused now
    try:
        there = file.resolve()  # a link stays one
        before = there.read_bytes().decode() if there.exists() else ""
        after = with_value(before, section, key, value)
        _replace(there, after.encode())
    except NoPlaceError as problem:
        raise HoldfastError(f"{where} was left as it is: {problem}") from problem
    except (OSError, RuntimeError) as problem:  # RuntimeError: links that lead in a circle, before Python 3.13
        why = getattr(problem, "strerror", None) or str(problem)
        raise HoldfastError(
            f"{where} cannot be written ({why}); mend its rights, or set HOLDFAST_HOME to a directory of yours"
        ) from problem


def _replace(file: Path, data: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_name(f".{FILE}.{secrets.token_hex(4)}")
    old = file.stat() if file.exists() else None
    if old is not None and not os.access(file, os.W_OK):
        raise PermissionError(13, "Permission denied")
    try:
        with beside.open("xb") as writing:
            if old is not None:
                _copy_owner_and_mode(writing.fileno(), old)
            writing.write(data)
            writing.flush()
            os.fsync(writing.fileno())
        beside.replace(file)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _copy_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner and mode, as far as the user is permitted to."""
    with contextlib.suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
