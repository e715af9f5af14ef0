"""Layers of settings put on top of each other, checked, with every problem reported at once.

Pure: documents, environment and flags come in as values. Rising precedence: defaults, the home file, the
workspace file (all but guarded keys), the agent's blocks in both, environment, flags. A list or a table is
replaced as a whole, never merged; only MCP servers of all layers are used together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.facts import Facts

from . import servers
from .document import DEFAULT, FILE, ConfigDocument, Origin, printable
from .keys import (
    KEYS,
    RESERVED,
    RESERVED_PREFIX,
    SECTIONS,
    SERVERS,
    VARIABLES,
    Key,
    Settings,
    nearest,
    nearest_variable,
)
from .parse import NotAllowedError, check, expand, literal, mask, parse, quoted


class ResolvedValue(msgspec.Struct, frozen=True):
    value: Any
    origin: Origin


Layer = dict[str, ResolvedValue]
ROOTS = "skills.roots"
PADDING_TEXT = "cache.padding_text"
OWN_ROOTS = ("HOLDFAST_HOME/skills", "~/.agents/skills", "~/.claude/skills")
"""Where people have their own skills: these a workspace may name too, since its list replaces the default one."""

_LONGEST_NAME = 100

# (lesser, greater): the first may not be larger than the second.
_ORDERED = (
    ("cache.padding_min", "cache.padding_max"),
    ("skills.warn_tokens", "skills.hard_tokens"),
    ("tools.mask.release_chars", "tools.mask.trigger_chars"),
    ("mcp.reconnect_s", "mcp.reconnect_max_s"),
)


class View(msgspec.Struct, frozen=True):
    """What one agent sees: the typed settings, and the same values with their origins by dotted name."""

    settings: Settings
    values: Mapping[str, ResolvedValue]


class Config(msgspec.Struct, frozen=True):
    """Every value with its origin, for all agents and for each one that has a block of its own."""

    home: Path
    workspace: Path | None
    files: tuple[str, ...]
    base: View
    by_agent: Mapping[str, View]

    @property
    def settings(self) -> Settings:
        """The settings of an agent without a block of its own."""
        return self.base.settings

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that have an `[agents.NAME]` block."""
        return tuple(sorted(self.by_agent))

    def for_agent(self, name: str) -> Settings:
        """The settings of one agent; an agent without a block of its own has everyone's."""
        return self.by_agent.get(name, self.base).settings

    def values(self, agent: str | None = None) -> Mapping[str, ResolvedValue]:
        """Every key's value and origin, by dotted name."""
        view = self.base if agent is None else self.by_agent.get(agent, self.base)
        return view.values

    def origin(self, key: str, agent: str | None = None) -> Origin:
        if key not in KEYS:
            raise HoldfastError(_unknown("key", key))
        return self.values(agent)[key].origin

    def path(self, text: str) -> Path:
        """A path from the configuration; relative ones belong to the workspace."""
        return (self.workspace or Path()) / text


class Problems:
    """The problems so far, in the order found."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, where: Origin, message: str) -> None:
        line = f"{where}: {message}"
        if line not in self.lines:
            self.lines.append(line)


def resolve(
    documents: Sequence[ConfigDocument],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    *,
    home: Path,
    user_home: Path,
    workspace: Path | None,
    unread: Sequence[str] = (),
) -> Config:
    """The configuration, or one HoldfastError with a line per problem; `unread` are problems of the files."""
    problems = Problems()
    problems.lines.extend(unread)
    tables = [{name: value for name, value in each.table.items() if name != "agents"} for each in documents]
    layers = [_walk(table, document, (), None, problems) for table, document in zip(tables, documents, strict=True)]
    over = _environment(environ, problems)
    _put(over, _flags(flags, problems))
    blocks = [_agent_layers(document, problems) for document in documents]
    names = {name: None for block in blocks for name in block}

    def view(*own: Layer) -> View:
        values = {name: ResolvedValue(key.default, DEFAULT) for name, key in KEYS.items()}
        for layer in (*layers, *own, over):
            _put(values, layer)
        _check_order(values, problems)
        for name, each in values.items():
            value = expand(KEYS[name], each.value, home=home, user_home=user_home)
            values[name] = ResolvedValue(value, each.origin)
        return View(_settings(values), values)

    base = view()
    by_agent = {name: view(*(block[name] for block in blocks if name in block)) for name in names}
    if problems.lines:
        raise HoldfastError("\n".join(problems.lines))
    return Config(
        home=home,
        workspace=workspace,
        files=tuple(document.where for document in documents),
        base=base,
        by_agent=by_agent,
    )


def _put(values: Layer, layer: Layer) -> None:
    """Merge one layer over the existing values."""
    for name, value in layer.items():
        if name == SERVERS and name in values:
            value = ResolvedValue(servers.merged(values[name].value, value.value), value.origin)
        values[name] = value


def _settings(values: Mapping[str, ResolvedValue]) -> Settings:
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        table = nested
        for section in sections:
            table = table.setdefault(section, {})
        table[last] = value.value
    return msgspec.convert(nested, Settings)


def _unknown(kind: str, name: str, *, sections: bool = False) -> str:
    near = nearest(name, sections=sections)
    return f"unknown {kind} {_cut(name)}; the nearest known name is {near}"


def _cut(name: str) -> str:
    name = printable(mask(name))
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _checked(key: Key, value: object, origin: Origin, problems: Problems, *, text: bool = False) -> Layer:
    if key.name == SERVERS:
        table = literal(str(value)) if text else value
        return {key.name: ResolvedValue(servers.read(table, lambda steps: origin, problems.add), origin)}
    try:
        return {key.name: ResolvedValue(parse(key, str(value)) if text else check(key, value), origin)}
    except NotAllowedError:
        empty = ", none of them empty" if isinstance(value, list) and "" in value else ""
        allowed = f"it must be {key.allowed}{empty}{_model_hint(key, value)}"
        problems.add(origin, f"{key.name} = {quoted(value)} is not allowed; {allowed}")
        return {}


def _model_hint(key: Key, value: object) -> str:
    """Return a hint with the model that a name without provider may stand for."""
    if key.name != "agent.model" or not isinstance(value, str):
        return ""
    from holdfast import facts  # reading settings, which every start does, needs none of them

    near = facts.default().nearest(value)
    return f"; did you mean {near}?" if near else ""


def _agent_layers(document: ConfigDocument, problems: Problems) -> dict[str, Layer]:
    agents = document.table.get("agents", {})
    layers: dict[str, Layer] = {}
    for name, table in agents.items() if isinstance(agents, dict) else [("", agents)]:
        if isinstance(table, dict) and name:
            layers[name] = _walk(table, document, (), name, problems)
        else:
            origin = Origin("file", document.where, document.line(("agents", name)))
            problems.add(origin, "agents holds one table per agent; write [agents.NAME.SECTION]")
    return layers


def _walk(
    table: Mapping[str, Any], document: ConfigDocument, path: tuple[str, ...], agent: str | None, problems: Problems
) -> Layer:
    """The known keys of a table of a file; everything else is a problem with the line it stands on."""
    layer: Layer = {}
    for part, value in table.items():
        here = (*path, part)
        name = ".".join(f'"{step}"' if "." in step else step for step in here)
        line = document.line(here if agent is None else ("agents", agent, *here))
        shown = None if agent is None else printable(agent)
        origin = Origin("file" if agent is None else "agent", document.where, line, shown)
        if name in KEYS and KEYS[name].guarded and document.workspace:
            where = f"HOLDFAST_HOME/{FILE}, in the variable {KEYS[name].variable} or in a flag"
            problems.add(origin, f"a workspace cannot set {name}; set it in {where}")
        elif name == SERVERS:
            place = partial(_place, document, origin, here if agent is None else ("agents", agent, *here))
            layer[name] = ResolvedValue(servers.read(value, place, problems.add, project=document.workspace), origin)
        elif name == ROOTS and document.workspace and (strange := _strange(value)):
            own = ", ".join(OWN_ROOTS)
            message = f"{name} names {quoted(strange)}, which is not in this workspace; its file may name {own} besides"
            problems.add(origin, f"{message}, all others belong into HOLDFAST_HOME/{FILE}")
        elif name == PADDING_TEXT and document.workspace and _strange([value]):
            message = f"{name} names {quoted(value)}, which is not in this workspace"
            problems.add(origin, f"{message}; all others belong into HOLDFAST_HOME/{FILE}")
        elif name in KEYS:
            layer |= _checked(KEYS[name], value, origin, problems)
        elif name not in SECTIONS:
            kind = "section" if isinstance(value, dict) else "key"
            problems.add(origin, _unknown(kind, name, sections=True))
        elif isinstance(value, dict):
            layer |= _walk(value, document, here, agent, problems)
        else:
            problems.add(origin, f"{name} = {quoted(value)} is not allowed; it is a section, write [{name}]")
    return layer


def _strange(value: object) -> str | None:
    """Return a path that a workspace must not name: its content can be read by tools or get into prompts, and the
    workspace may be untrusted."""
    for each in value if isinstance(value, list) else ():
        named = PurePath(each) if isinstance(each, str) else None
        if named is not None and str(named) not in OWN_ROOTS:
            first = named.parts[0] if named.parts else ""
            if named.is_absolute() or ".." in named.parts or first == "HOLDFAST_HOME" or first.startswith("~"):
                return str(each)
    return None


def _place(document: ConfigDocument, table: Origin, path: tuple[str, ...], steps: tuple[str, ...]) -> Origin:
    """Return the place of a key within a table."""
    return msgspec.structs.replace(table, line=document.line((*path, *steps)))


def _environment(environ: Mapping[str, str], problems: Problems) -> Layer:
    layer: Layer = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith("HOLDFAST_") or variable.startswith(RESERVED_PREFIX):
            continue
        if variable in RESERVED:
            continue
        origin = Origin("environment", _cut(variable))
        if variable not in VARIABLES:
            problems.add(origin, f"unknown variable; the nearest known name is {nearest_variable(variable)}")
        elif text.strip():  # an empty variable is one that is not set
            layer |= _checked(VARIABLES[variable], text, origin, problems, text=True)
    return layer


def _flags(flags: Mapping[str, object], problems: Problems) -> Layer:
    layer: Layer = {}
    for name, value in flags.items():
        origin = Origin("flag", _cut(name))
        if name not in KEYS:
            problems.add(origin, _unknown("key", name))
        elif value is not None:  # an option that was not given
            layer |= _checked(KEYS[name], value, origin, problems, text=isinstance(value, str))
    return layer


def _check_order(values: Layer, problems: Problems) -> None:
    for lesser, greater in _ORDERED:
        low, high = values[lesser], values[greater]
        if low.value > high.value:
            origin = high.origin if low.origin == DEFAULT else low.origin
            allowed = f"it must be at most {greater} = {high.value}"
            problems.add(origin, f"{lesser} = {low.value} is not allowed; {allowed}")


def configured_facts(config: Config) -> Facts | None:
    """The facts with their overrides; None where the shipped ones are meant."""
    names = config.settings.facts.overrides  # files of the workspace, or shipped sets
    sets = [path if (path := config.path(name)).exists() else name for name in names]
    return Facts.load(sets) if sets else None
