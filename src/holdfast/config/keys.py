"""The settings as a flat table: one `Key` for each.

A key is found by its dotted name or by its environment variable. The table is derived from the declarations once,
at import; it knows no values but the defaults.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from .sections.mcp import ServerTable
from .sections.settings import Settings

Kind = Literal["boolean", "whole", "number", "text", "choice", "list", "table"]

# Names that begin like a setting's variable but are none.
RESERVED = ("HOLDFAST_HOME", "HOLDFAST_OFF", "HOLDFAST_TRACEBACK")
RESERVED_PREFIX = "HOLDFAST_TEST_"
_LONGEST = 200  # characters of a name that are compared: the comparison is quadratic, and no real name is longer


class Key(Struct, frozen=True):
    """One setting: where it stands, what it means, what it may be."""

    name: str
    type: Any
    kind: Kind
    optional: bool
    default: Any
    description: str
    allowed: str
    choices: tuple[str, ...] = ()
    zones: bool = False
    path: bool = False
    guarded: bool = False
    seed: str | None = None
    seed_value: Any = None

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def variable(self) -> str:
        return "HOLDFAST_" + self.name.replace(".", "_").upper()


def _split(hint: Any) -> tuple[Any, Meta, bool]:
    """A field's annotation as (type without None, its Meta, whether it may be unset)."""
    optional = get_origin(hint) in (Union, UnionType)
    if optional:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    meta = next(part for part in get_args(hint)[1:] if isinstance(part, Meta))
    return hint, meta, optional


def _kind(plain: Any) -> Kind:
    simple: dict[Any, Kind] = {bool: "boolean", int: "whole", float: "number", str: "text"}
    built: dict[Any, Kind] = {Literal: "choice", tuple: "list", Mapping: "table"}
    return simple[plain] if plain in simple else built[get_origin(plain)]


def _range(meta: Meta) -> str:
    if meta.ge is not None:
        return f"from {meta.ge} to {meta.le:_}"
    return f"above {meta.gt} and " + (f"below {meta.lt}" if meta.le is None else f"up to {meta.le:_}")


def _allowed(plain: Any, kind: Kind, meta: Meta, extra: Mapping[str, Any]) -> str:
    if extra["allowed"]:
        return str(extra["allowed"])
    if kind in ("whole", "number"):
        return ("a whole number " if kind == "whole" else "a number ") + _range(meta)
    if kind == "choice":
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(plain))
    if kind == "table":
        value = get_args(plain)[1]
        inner, limits = get_args(value) if get_origin(value) is Annotated else (value, Meta())
        return "a table whose values are " + _allowed(inner, _kind(inner), limits, extra)
    if kind == "boolean":
        return "true or false"
    return "one line of text" if kind == "text" else "a list of texts, one line each"


def _keys(section: type[Struct], prefix: str = "") -> Iterator[Key]:
    defaults = section()
    for field, hint in get_type_hints(section, include_extras=True).items():
        name = prefix + field.rstrip("_")  # Python has words of its own, such as `pass`
        default = getattr(defaults, field)
        if isinstance(default, Struct):
            yield from _keys(type(default), name + ".")
            continue
        typed, meta, optional = _split(hint)
        plain = get_args(typed)[0]
        kind = _kind(plain)
        extra = meta.extra or {}
        allowed = _allowed(plain, kind, meta, extra) + (', or "unset"' if optional else "")
        yield Key(
            name=name,
            type=typed,
            kind=kind,
            optional=optional,
            default=default,
            description=str(meta.description),
            allowed=allowed,
            choices=get_args(plain) if kind == "choice" else (),
            zones=extra["zones"],
            path=extra["path"],
            guarded=extra["guarded"],
            seed=extra["seed"],
            seed_value=extra["seed_value"],
        )


def _sections(section: Struct, prefix: str = "") -> Iterator[tuple[str, str]]:
    for field in section.__struct_fields__:
        value = getattr(section, field)
        if isinstance(value, Struct):
            yield prefix + field, (type(value).__doc__ or "").strip()
            yield from _sections(value, f"{prefix}{field}.")


KEYS: Mapping[str, Key] = {key.name: key for key in _keys(Settings)}
SECTIONS: Mapping[str, str] = dict(_sections(Settings()))
SERVERS = "mcp.servers"
SERVER_KEYS: Mapping[str, Key] = {key.name: key for key in _keys(ServerTable)}
"""What one table of `mcp.servers` may hold."""
VARIABLES: Mapping[str, Key] = {key.variable: key for key in KEYS.values()}
_SEEDS = {key.seed: key.name for key in KEYS.values() if key.seed}


def nearest(name: str, *, sections: bool = False) -> str:
    """The known key (or section) that `name` most likely meant."""
    last = name.rpartition(".")[2]
    for seed in (name, last):
        if seed in _SEEDS:
            return _SEEDS[seed]
    names = [*KEYS, *SECTIONS] if sections else list(KEYS)
    close = difflib.get_close_matches(name[:_LONGEST], names, n=1, cutoff=0.75)
    if close:
        return close[0]
    # Right name, wrong section: compare the last parts alone before settling for the least distant.
    by_last = {key.rpartition(".")[2]: key for key in reversed(list(KEYS))}
    close = difflib.get_close_matches(last[:_LONGEST], by_last, n=1, cutoff=0.75)
    return by_last[close[0]] if close else _closest(name, names)


def nearest_variable(name: str) -> str:
    return _closest(name, [*VARIABLES, *RESERVED])


def _closest(name: str, names: Iterable[str]) -> str:
    return difflib.get_close_matches(name[:_LONGEST], list(names), n=1, cutoff=0.0)[0]
