"""The data files as checked tables: one TOML per provider, and override files merged over them.

Reads files and reports their errors; what a table means for a model is decided in `catalogue`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import HoldfastError
from holdfast.facts.models import Caching, Cliff, Count, Flags, Knobs, LateTools, TokenLimits, UsageConvention
from holdfast.facts.names import normalise

Table = dict[str, Any]
_DATA = Path(__file__).parent / "data"

SECTIONS = ("defaults", "knobs", "unknown", "groups", "models")
"""The sections that an override file may have for a provider."""

PRICE_KEYS = ("input", "read", "output", "storage_hour", "5m", "30m", "1h", "24h", "in_memory")
"""USD per million tokens; `storage_hour` per million tokens and hour; the rest are writes by TTL."""

_MERGED = ("flags", "limits", "knobs", "prices")


class ModelTable(Struct, kw_only=True, forbid_unknown_fields=True):
    """The keys a model's table may have, after its defaults have been laid under it."""

    floor: Count
    granularity: Annotated[int, Meta(ge=1)] = 1
    ttls: dict[str, Annotated[int, Meta(gt=0)]] = {}
    default_ttl: str | None = None
    lookback: Count = 0
    max_markers: Count = 0
    read: Decimal
    writes: dict[str, Decimal] = {}
    caching: Caching
    marker: str = ""
    automatic_field: bool = False
    breakpoints: bool = False
    retention_field: bool = False
    mid_system: bool = False
    strips_thinking: bool = False
    prewarm: bool = False
    diagnostics: bool = False
    reports_writes: bool = False
    late_tools: LateTools | Literal[""] = ""
    efforts: tuple[str, ...] = ()
    thinking_budgets: dict[str, int] = {}
    adaptive_thinking: bool = False
    usage_note: str | None = None
    context_limit: Annotated[int, Meta(gt=0)]
    output_limit: Annotated[int, Meta(gt=0)]
    cliff: Cliff | None = None
    flags: Flags = Flags()
    limits: TokenLimits = TokenLimits()
    knobs: Knobs = Knobs()
    prices: dict[str, Decimal] = {}
    conservative: tuple[str, ...] = ()
    group: str | None = None
    aliases: tuple[str, ...] = ()
    versions: bool = False


class RouteTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of a vendor behind a route: those of `provider`, changed by the route."""

    provider: str | None = None
    efforts: tuple[str, ...] = ()
    """Levels of effort that the route accepts."""
    rules: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}


class ProviderTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One data file. `names` are the families a bare model name may belong to."""

    provider: str
    as_of: date
    source: str
    usage: UsageConvention
    names: tuple[str, ...]
    defaults: dict[str, Any]
    unknown: dict[str, Any]
    price_source: str | None = None
    family: str = ""
    separator: str = ""
    any_model: bool = False
    knobs: dict[str, Any] = {}
    alternatives: dict[str, tuple[Any, ...]] = {}
    groups: dict[str, dict[str, Any]] = {}
    models: dict[str, dict[str, Any]] = {}
    routes: dict[str, RouteTable] = {}


class Override(Struct, frozen=True, kw_only=True):
    """One override file, checked: its tables by provider."""

    label: str
    where: str
    as_of: date
    source: str
    providers: dict[str, Table]


def parse(text: str, where: str) -> Table:
    """TOML with exact decimals; `where` is how messages call the file."""
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise HoldfastError(f"{where} is not valid TOML ({error}); correct that place.") from error
    except RecursionError as error:
        raise HoldfastError(f"{where} is nested too deeply to be a facts file; flatten it.") from error


@cache
def shipped(provider: str) -> ProviderTable:
    """The data file of a provider, as it came with this version."""
    text = (_DATA / f"{provider}.toml").read_text("utf-8")
    return msgspec.convert(parse(text, f"{provider}.toml"), ProviderTable)


@cache
def shipped_providers() -> tuple[str, ...]:
    names = (file.name.removesuffix(".toml") for file in _DATA.iterdir() if file.name.endswith(".toml"))
    return tuple(sorted(name for name in names if name != "unknown"))


@cache
def shipped_overrides() -> tuple[str, ...]:
    folder = _DATA / "overrides"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint to append to a message: the nearest known word, or all of them when none is near."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean `{close[0]}`?" if close else f"known are {', '.join(words)}."


LARGEST_OVERRIDE = 1_000_000


def read_override(name: str | Path) -> Override:
    """A shipped override set by its name, or an override file by its path."""
    if isinstance(name, str) and name in shipped_overrides():
        file = _DATA / "overrides" / f"{name}.toml"
        return _checked_override(parse(file.read_text("utf-8"), file.name), name, name)
    path = Path(name)
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > LARGEST_OVERRIDE):
            raise HoldfastError(f"facts override `{path}` is no file of reasonable size; check the path.")
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        hint = nearest(str(name), shipped_overrides())
        raise HoldfastError(f"facts override `{name}` is neither a file nor a shipped set; {hint}") from error
    except OSError as error:
        raise HoldfastError(f"facts override `{path}` cannot be read ({error.strerror}); check the path.") from error
    except UnicodeDecodeError as error:
        raise HoldfastError(f"facts override `{path}` is not UTF-8; save it as UTF-8 text.") from error
    return _checked_override(parse(text, str(path)), str(path), path.stem)


def _checked_override(table: Table, where: str, label: str) -> Override:
    keys = ("as_of", "source", *shipped_providers())
    for key in table:
        if key not in keys:
            raise HoldfastError(f"{where}: unknown key `{key}`; {nearest(key, keys)}")
    as_of = table.get("as_of")
    if not isinstance(as_of, date) or isinstance(as_of, datetime):
        raise HoldfastError(f"{where}: key `as_of` must be a date; add a line like as_of = 2026-11-01.")
    source = table.get("source", label)
    if not isinstance(source, str):
        raise HoldfastError(f"{where}: key `source` must be text.")
    providers = {name: table[name] for name in shipped_providers() if name in table}
    for provider, section in providers.items():
        _check_section(section, provider, where)
    return Override(label=label, where=where, as_of=as_of, source=source, providers=providers)


def _check_section(section: object, provider: str, where: str) -> None:
    for kind, table in _as_table(section, where, provider).items():
        path = f"{provider}.{kind}"
        if kind not in SECTIONS:
            raise HoldfastError(f"{where}: unknown key `{path}`; {nearest(kind, SECTIONS)}")
        if kind == "knobs":
            check_entry({"knobs": table}, provider, where)
        elif kind in ("groups", "models"):
            for name, entry in _as_table(table, where, path).items():
                if not normalise(name):
                    raise HoldfastError(f"{where}: `{path}` has an entry without a name; name it or remove it.")
                check_entry(_as_table(entry, where, f"{path}.{name}"), f"{path}.{name}", where)
        else:
            check_entry(_as_table(table, where, path), path, where)
    _check_alternatives(section, provider, where)


def _check_alternatives(section: Any, provider: str, where: str) -> None:
    tables = [("knobs", section.get("knobs", {}))]
    for name, entry in section.get("models", {}).items():
        tables.append((f"models.{name}.knobs", entry.get("knobs", {})))
    for path, knobs in tables:
        for knob, value in knobs.items():
            allowed = shipped(provider).alternatives.get(knob)
            if allowed is not None and value not in allowed:
                choices = " or ".join(str(choice) for choice in allowed)
                raise HoldfastError(f"{where}: `{provider}.{path}.{knob}` is {value!r}; it must be {choices}.")


def _as_table(value: object, where: str, path: str) -> Table:
    if not isinstance(value, dict):
        raise HoldfastError(f"{where}: `{path}` must be a table.")
    return value


_NESTED: Mapping[str, tuple[str, ...]] = {
    "flags": Flags.__struct_fields__,
    "limits": TokenLimits.__struct_fields__,
    "knobs": Knobs.__struct_fields__,
    "cliff": Cliff.__struct_fields__,
    "prices": PRICE_KEYS,
}
_FILLER: Table = {"floor": 0, "read": 0, "caching": "none", "context_limit": 1, "output_limit": 1}


def check_entry(table: Table, path: str, where: str) -> None:
    """Refuse keys a model's table cannot have and values of the wrong kind, naming file and key."""
    for key, value in table.items():
        if key not in ModelTable.__struct_fields__:
            raise HoldfastError(f"{where}: unknown key `{path}.{key}`; {nearest(key, ModelTable.__struct_fields__)}")
        if key in _NESTED:
            for inner in _as_table(value, where, f"{path}.{key}"):
                if inner not in _NESTED[key]:
                    hint = nearest(inner, _NESTED[key])
                    raise HoldfastError(f"{where}: unknown key `{path}.{key}.{inner}`; {hint}")
    build_entry(_FILLER | table, path, where, complete=False)


def build_entry(table: Table, path: str, where: str, *, complete: bool = True) -> ModelTable:
    """The typed entry of a merged table; with `complete` its parts must also fit each other."""
    try:
        entry = msgspec.convert(_plain_floats(table), ModelTable)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        key = path + (place.rstrip("`") if place else "")
        raise HoldfastError(f"{where}: `{key}` is wrong: {problem}; correct the value.") from error
    amounts = {"read": entry.read, **{f"writes.{ttl}": value for ttl, value in entry.writes.items()}}
    amounts |= {f"prices.{key}": value for key, value in entry.prices.items()}
    if entry.cliff is not None:
        amounts["cliff.factor"] = entry.cliff.factor
    for key, amount in amounts.items():
        if not amount.is_finite() or amount < 0:
            raise HoldfastError(f"{where}: `{path}.{key}` is {amount}; it must be zero or more.")
    if complete:
        _check_ttls(entry, path, where)
    return entry


def _check_ttls(entry: ModelTable, path: str, where: str) -> None:
    if entry.default_ttl is not None and entry.default_ttl not in entry.ttls:
        hint = nearest(entry.default_ttl, entry.ttls)
        raise HoldfastError(f"{where}: `{path}.default_ttl` is {entry.default_ttl!r}, which `ttls` lacks; {hint}")
    for ttl in entry.writes:
        if ttl not in entry.ttls:
            raise HoldfastError(f"{where}: `{path}.writes.{ttl}` has no TTL of that name; {nearest(ttl, entry.ttls)}")


def _plain_floats(table: Table) -> Table:
    """Knobs are plain numbers; everything else keeps its exact decimals."""
    knobs = table.get("knobs")
    if not isinstance(knobs, dict):
        return table
    return table | {"knobs": {k: float(v) if isinstance(v, Decimal) else v for k, v in knobs.items()}}


def merge(under: Table, over: Table) -> Table:
    """`over` laid on `under`: flags, limits, knobs and prices key by key, everything else whole."""
    merged = under | over
    for key in _MERGED:
        if key in under and key in over:
            merged[key] = under[key] | over[key]
    return merged


def lay_over(table: ProviderTable, section: Table) -> ProviderTable:
    """A provider's table with an override's section on it; model names meet in their normalised form."""
    models = dict(table.models)
    by_form = {normalise(name): name for name in models}
    for name, entry in section.get("models", {}).items():
        listed = by_form.get(normalise(name), name)
        base = models.get(listed, dict(table.unknown))
        models[listed] = merge(base, entry)
    groups = dict(table.groups)
    for name, entry in section.get("groups", {}).items():
        groups[name] = merge(groups.get(name, {}), entry)
    return msgspec.structs.replace(
        table,
        defaults=merge(table.defaults, section.get("defaults", {})),
        unknown=merge(table.unknown, section.get("unknown", {})),
        knobs=table.knobs | section.get("knobs", {}),
        groups=groups,
        models=models,
    )
