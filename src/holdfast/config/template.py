"""A `holdfast.toml` to begin with: every key commented out with its default, so that it changes nothing as it is.

`#key = value` is a key, `# text` is prose: with the mark before every key removed the file says what holds anyway.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from holdfast.config.keys import KEYS, SECTIONS, Key

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
    said = key.description
    if key.kind == "choice":
        said += f" {key.allowed[0].upper()}{key.allowed[1:]}."
    if key.zones:
        said += ' Only with cache.strategy = "zones".'
    yield ""
    yield from _prose(said)
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
