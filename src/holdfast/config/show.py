"""The configuration for people: values with their origins, notes on them, and the reference page.

Pure functions of a Config or of the schema; printing is the command line's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from holdfast.config import inert
from holdfast.config.document import DEFAULT, FILE, printable
from holdfast.config.keys import KEYS, RESERVED, RESERVED_PREFIX, SECTIONS, SERVER_KEYS, SERVERS, Key
from holdfast.config.resolution import Config

from .parse import mask, shown

_WIDEST_VALUE = 34


def notes(config: Config, agent: str | None = None) -> Iterator[str]:
    """What a user should know about values that are set: where they are without effect."""
    yield from (text for _, text in inert.notes(config, agent))


def as_json(config: Config, agent: str | None = None, *, changed: bool = False) -> dict[str, Any]:
    """Every value with its origin, default and description, and the notes."""
    return {
        "values": {
            name: {
                "value": mask(each.value),
                "origin": str(each.origin),
                "default": mask(KEYS[name].default),
                "description": KEYS[name].description,
            }
            for name, each in config.values(agent).items()
            if not changed or each.origin != DEFAULT
        },
        "notes": list(notes(config, agent)),
    }


def as_text(
    config: Config, agent: str | None = None, *, changed: bool = False, width: int | None = None
) -> Iterator[str]:
    """Lines grouped by section: key, value, origin; two lines per key where `width` does not hold one."""
    rows = [
        (KEYS[name].section, name, shown(each.value), str(each.origin))
        for name, each in config.values(agent).items()
        if not changed or each.origin != DEFAULT
    ]
    if not rows:
        yield "Every value is the default."
    names = max((len(name) for _, name, _, _ in rows), default=0)
    values = max((len(value) for _, _, value, _ in rows if len(value) <= _WIDEST_VALUE), default=0)
    for section, group in groupby(rows, key=lambda row: row[0]):
        yield f"[{section}]"
        for _, name, value, origin in group:
            line = f"{name:{names}}  {value:{values}}  {origin}"
            if width is None or len(line) <= width:
                yield line
            else:
                yield f"{name} = {value}"
                yield f"    {origin}"
        yield ""
    places = [printable(place) for place in (config.home, config.workspace) if place]
    yield f"Read: {', '.join(config.files)}" if config.files else f"No {FILE} in {' or '.join(places)}"
    for note in notes(config, agent):
        yield f"Note: {note}"


_PAGE = """\
# Configuration

This page is generated from the code: `python -m holdfast.config --markdown > docs/configuration.md`.

Some keys have another name or value in the documents Holdfast implements; theirs is given beside ours.

Holdfast works without any configuration. What you want otherwise stands in `holdfast.toml`, in the
environment or in flags. `holdfast init` writes a file with every key commented out, `holdfast config show` prints every
value and where it came from, `holdfast doctor` says whether they can be used. Later ones win:

1. the defaults below;
2. `holdfast.toml` in `HOLDFAST_HOME` (default `~/.holdfast`);
3. `holdfast.toml` in the workspace, the current directory, except the keys marked *not in a workspace*;
4. for one agent or sub-agent role, its `[agents.NAME]` blocks in the two files;
5. environment variables: `HOLDFAST_`, section and key joined by `_`, such as `HOLDFAST_CACHE_GEMINI_ENABLED`;
6. flags, such as `--set cache.strategy=zones`.

```toml
[cache]
strategy = "zones"
retention_overrides = { "claude-haiku" = "none" }

[agents.scout.cache]      # any section, for the agent "scout" only
strategy = "rolling"
```

- Unknown keys, wrong types and values out of range are errors; all of them are reported at once.
- A workspace may be a repository of strangers: what decides who receives your calls, keys and prompts is an error
  in its file.
- A list or a table is replaced as a whole by the next layer, never merged; only MCP servers of all layers are used
  together, and a workspace cannot replace one of your own.
- In the environment and in flags: `true`, `false`, `1`, `0`, `yes`, `no`; numbers with or without `_`; lists
  as `a,b` or `["a", "b"]`; tables as `{ "a" = "b" }` or `{"a": "b"}`. An empty variable counts as not set.
- A value that is set and has no effect is told to whoever set it: `holdfast serve`, `run` and `chat`, `open_agent` and
  `http_client()` say so once, in one line, when they begin; `holdfast config show` and `holdfast doctor` say where and
  why. Keys for another door, as in one file that serves all of them, are listed by `config show` only.
- A key whose default is *unset* returns to that with the value `"unset"`.
- In paths, `HOLDFAST_HOME` and a leading `~` stand for those directories; relative paths belong to the
  workspace.
- Keys and passwords have no place in the configuration; what an address carries is masked wherever it is
  printed.
"""

_SERVERS = """
## [mcp.servers.NAME]

One MCP server: a program to start, or an address to connect to. Servers may also stand in `.mcp.json` of the workspace,
in the form other clients use; on equal names your own `holdfast.toml` wins, then the workspace's.

A server that the workspace names, in `.mcp.json` or in its `holdfast.toml`, is a stranger's until you say otherwise: it
is started only after `holdfast mcp --approve NAME`, and again only after you approved every change of its definition.

`${VAR}` and `${VAR:-default}` in `command`, `args`, `env`, `cwd`, `url` and `headers` are replaced from the
environment, so that no secret has to stand in a file.

```toml
[mcp.servers.tracker]
command = "npx"
args = ["-y", "@example/tracker-server"]
env = { TRACKER_TOKEN = "${TRACKER_TOKEN}" }
read_only = ["get_*", "list_*"]

[mcp.servers.search]
url = "https://search.example/mcp"
headers = { Authorization = "Bearer ${SEARCH_KEY}" }
```
"""


def as_markdown() -> str:
    """The reference page `docs/configuration.md`."""
    reserved = ", ".join(f"`{name}`" for name in (*RESERVED, RESERVED_PREFIX + "*"))
    parts = [_PAGE, f"- Reserved variables that are no settings: {reserved}.\n"]
    for section, description in SECTIONS.items():
        keys = [key for key in KEYS.values() if key.section == section]
        parts.append(f"\n## [{section}]\n\n{description}\n")
        if keys:
            parts.extend(_table(keys))
        if section == SERVERS.rpartition(".")[0]:
            parts.append(_SERVERS)
            parts.extend(_table(SERVER_KEYS.values()))
    return "".join(parts)


def _table(keys: Iterable[Key]) -> Iterator[str]:
    yield "\n| key | default | allowed | meaning |\n|---|---|---|---|\n"
    yield from (_row(key) for key in keys)


def _row(key: Key) -> str:
    default = "unset" if key.default is None else f"`{shown(key.default)}`"
    meaning = [key.description]
    if key.guarded:
        meaning.append("*Not in a workspace.*")
    if key.zones:
        meaning.append('Only with `cache.strategy = "zones"`.')
    if key.seed and not key.seed.startswith("(") and " " not in key.seed:
        meaning.append(f"In the source documents: `{key.seed}`.")
    if key.seed_value is not None:
        meaning.append(f"Their value: `{shown(key.seed_value)}`.")
    return f"| `{key.name.rpartition('.')[2]}` | {default} | {key.allowed} | {' '.join(meaning)} |\n"
