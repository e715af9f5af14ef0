"""Finding the facts of a model by its name.

Names are `provider:name`; a bare name finds its provider by its family. Answers are cached and
bounded, because names come from clients. Warns once per unknown model; decides nothing about caches.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path

from msgspec import Struct, structs

from holdfast.errors import HoldfastError
from holdfast.facts import names, tables
from holdfast.facts.models import ModelFacts, Ttl, UsageConvention
from holdfast.facts.names import longest_match, normalise, starts_family
from holdfast.facts.tables import ModelTable, Override, ProviderTable, RouteTable, Table

log = logging.getLogger("holdfast.facts")

_REMEMBERED = 4096
"""Names kept in the cache, and models warned about: both come from clients and must not grow without end."""


_LONGEST_NAME = 512
"""Characters of a name that are looked at: no model's name is longer, and reading one takes quadratic time."""


class Resolved(Struct, frozen=True, kw_only=True):
    """A model with its facts and what pricing needs."""

    facts: ModelFacts
    spellings: tuple[str, ...]
    """The names of this very model in price lists: the requested one, and every known alias."""
    price_source: str | None
    prices: dict[str, Decimal]
    """Prices of our own, USD per million tokens, with their date."""
    prices_as_of: date
    backed: str | None = None
    """The model behind a route, as `provider:name`."""


class Facts:
    """The data files with override sets laid over them; files are read when first needed."""

    def __init__(self, overrides: tuple[Override, ...] = ()) -> None:
        self._overrides = overrides
        self._tables: dict[str, ProviderTable] = {}
        self._forms: dict[str, dict[str, tuple[str, bool]]] = {}
        self._listed: dict[str, tuple[Resolved, ...]] = {}
        self._resolved: dict[str, Resolved] = {}
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    @property
    def remembered(self) -> int:
        """How many names need not be looked up again."""
        return len(self._resolved)

    @classmethod
    def load(cls, overrides: Sequence[Path | str] = ()) -> Facts:
        """Facts with the given override sets (shipped names or paths), later ones winning."""
        facts = cls(tuple(tables.read_override(name) for name in overrides))
        for override in facts._overrides:
            for provider in override.providers:
                facts._build_all(provider, override.where)
        return facts

    def providers(self) -> tuple[str, ...]:
        return tables.shipped_providers()

    def model(self, name: str) -> ModelFacts:
        return self.resolve(name).facts

    def models(self, provider: str | None = None) -> tuple[ModelFacts, ...]:
        """Every model described, in the order of the data; through each route, every model it can lead to."""
        if provider is None:
            return tuple(facts for name in self.providers() for facts in self.models(name))
        if provider not in self.providers():
            hint = tables.nearest(provider, self.providers())
            raise HoldfastError(f"no facts about provider `{provider}`; {hint}")
        resolved_models = self._listed.get(provider)
        if resolved_models is None:
            resolved_models = self._listed[provider] = tuple(self._all_of(provider))
        # Remembered under their own names: asking for what was listed is no reason to warn.
        self._resolved.update((resolved.facts.ref, resolved) for resolved in resolved_models)
        return tuple(resolved.facts for resolved in resolved_models)

    def _all_of(self, provider: str) -> Iterator[Resolved]:
        table = self._table(provider)
        listed = [*table.models]
        if table.any_model:
            listed.append("*")
        for vendor, route in table.routes.items():
            backed = [*self._table(route.provider).models] if route.provider else ["*"]
            listed.extend(f"{vendor}{table.separator}{name}" for name in backed)
        return (self._look_up(provider, name) for name in listed)

    def resolve(self, name: str) -> Resolved:
        name = name[:_LONGEST_NAME]
        resolved = self._resolved.get(name)
        if resolved is None:
            provider, rest = self._split(name)
            resolved = self._look_up(provider, rest)
            if len(self._resolved) >= _REMEMBERED:
                self._resolved.clear()
            self._resolved[name] = resolved
            if not resolved.facts.known and rest:
                self.warn_once(f"facts {normalise(rest)}", lambda: self._unknown(name))
        return resolved

    def nearest(self, name: str) -> str | None:
        """The model that a name is most like, as provider:name; None where none is much like it. Other providers are
        looked at where the name has none, or a misspelt one."""
        provider, colon, rest = name[:_LONGEST_NAME].partition(":")
        rest = rest if colon else provider
        named = provider if colon and provider in self.providers() else names.nearest(provider, self.providers())
        among = [named] if colon and named else [each for each in self.providers() if not self._table(each).routes]
        models = [each for provider in reversed(among) for each in self.models(provider)]
        refs = {normalise(each.ref.partition(":")[2]): each.ref for each in models if not each.ref.endswith("*")}
        close = names.nearest(normalise(rest), refs)
        return None if close is None else refs[close]

    def hint(self, name: str) -> str:
        """Return a hint for an unknown model: the one probably meant, or the nearest; empty if there is none."""
        near = self.nearest(name)
        if near is None or near == name:
            return ""
        provider, colon, _ = name.partition(":")
        same = not colon or near.startswith(f"{provider}:")
        if same and names.is_version_of(normalise(name.partition(":")[2] or name), normalise(near.partition(":")[2])):
            return f"the nearest that is known is {near}"
        return f"did you mean {near}?"

    def _unknown(self, name: str) -> str:
        hint = self.hint(name)
        warning = f"no facts about model {name[:200]!r}: careful values are used until an override describes it"
        return f"{warning}; {hint}" if hint else warning

    def warn_once(self, key: str, message: Callable[[], str]) -> None:
        """Log a warning the first time `key` is seen; silent after too many different ones."""
        with self._lock:
            if key in self._warned or len(self._warned) >= _REMEMBERED:
                return
            self._warned.add(key)
        log.warning("%s", message())

    def _table(self, provider: str) -> ProviderTable:
        table = self._tables.get(provider)
        if table is None:
            table = tables.shipped(provider)
            for override in self._overrides:
                if provider in override.providers:
                    table = tables.lay_over(table, override.providers[provider])
            self._tables[provider] = table
        return table

    def _build_all(self, provider: str, where: str) -> None:
        """Build every entry of an override, so that an error can name its file."""
        table = self._table(provider)
        for name in table.models:
            group = table.models[name].get("group")
            if group is not None and group not in table.groups:
                hint = tables.nearest(str(group), table.groups)
                raise HoldfastError(f"{where}: `{provider}.models.{name}.group` is {group!r}; {hint}")
            self._entry(table, name, where)

    def _split(self, name: str) -> tuple[str, str]:
        """Provider and model name; the provider of a bare name is found by its family."""
        provider, colon, rest = name.partition(":")
        if colon and provider.lower() in self.providers():
            return provider.lower(), rest
        bare = normalise(name)
        for each in self.providers():
            if starts_family(bare, self._table(each).names):
                return each, name
        return ("unknown", name) if not colon or "/" in provider else (provider.lower(), rest)

    def _look_up(self, provider: str, name: str) -> Resolved:
        if provider not in self.providers():
            return self._answer(self._table("unknown"), name, None, provider=provider)
        table = self._table(provider)
        if table.routes:
            vendor, route, rest = self._route(table, name)
            if route is not None:
                return self._through_route(table, vendor, route, rest, name)
            return self._answer(table, name, None)
        return self._answer(table, name, self._find(table, name))

    def _find(self, table: ProviderTable, name: str) -> str | None:
        """Return the entry of the data for a name."""
        if table.any_model:
            return "*"
        forms = self._forms.get(table.provider)
        if forms is None:
            forms = self._forms[table.provider] = {
                normalise(form): (entry, bool(keys.get("versions", False)))
                for entry, keys in table.models.items()
                for form in (entry, *keys.get("aliases", ()))
            }
        wanted = normalise(name)
        if table.family and not wanted.startswith(table.family):
            wanted = table.family + wanted
        form = longest_match(wanted, {form: versions for form, (_, versions) in forms.items()})
        return forms[form][0] if form is not None else None

    def _spellings(self, table: ProviderTable, asked: str, entry: str | None) -> tuple[str, ...]:
        names = (entry or "", *table.models.get(entry or "", {}).get("aliases", ()))
        wanted = normalise(asked).removeprefix(table.family)
        # A name that merely extends the entry (gpt-5.6-nova) is another model with a price of its own.
        same = any(wanted == normalise(name).removeprefix(table.family) for name in names)
        return (asked, *names) if same else (asked,)

    def _merged(self, table: ProviderTable, entry: str | None) -> Table:
        merged = tables.merge({"knobs": table.knobs}, table.defaults)
        if entry is None:
            return tables.merge(merged, table.unknown)
        own = table.models.get(entry, {})
        group = own.get("group")
        return tables.merge(tables.merge(merged, table.groups[group] if group else {}), own)

    def _entry(self, table: ProviderTable, name: str | None, where: str = "") -> ModelTable:
        label = f"{table.provider}.models.{name}" if name else f"{table.provider}.unknown"
        return tables.build_entry(self._merged(table, name), label, where or f"{table.provider}.toml")

    def _answer(self, table: ProviderTable, asked: str, entry: str | None, *, provider: str = "") -> Resolved:
        facts = _facts(
            self._entry(table, entry),
            provider=provider or table.provider,
            name=asked if entry in (None, "*") else str(entry),
            known=entry is not None,
            usage=table.usage,
            as_of=self._as_of(table.provider, entry, table.as_of),
            source=self._source(table.provider, entry, table.source),
        )
        prices = self._entry(table, entry).prices
        return Resolved(
            facts=facts,
            spellings=self._spellings(table, asked, entry),
            price_source=table.price_source,
            prices=prices,
            prices_as_of=self._as_of(table.provider, entry, table.as_of, key="prices"),
        )

    def _touching(self, provider: str, entry: str | None) -> list[Override]:
        """Return the override sets that change an entry."""
        touching = []
        for override in self._overrides:
            section = override.providers.get(provider)
            if section is None:
                continue
            named = {normalise(name) for name in section.get("models", {})}
            if set(section) - {"models"} or (entry is not None and normalise(entry) in named):
                touching.append(override)
        return touching

    def _as_of(self, provider: str, entry: str | None, base: date, *, key: str = "") -> date:
        """When the data about an entry was last stated; with `key`, only overrides that carry it count."""
        dates = [base]
        for override in self._touching(provider, entry):
            entries = override.providers[provider].get("models", {}).items()
            if not key or any(normalise(name) == normalise(entry or "") and key in e for name, e in entries):
                dates.append(override.as_of)
        return dates[-1]

    def _source(self, provider: str, entry: str | None, base: str) -> str:
        labels = [f"{override.label} ({override.source})" for override in self._touching(provider, entry)]
        return "; overridden by ".join([base, *labels])

    def _route(self, table: ProviderTable, name: str) -> tuple[str, RouteTable | None, str]:
        """The vendor behind a routed name, its route, and what the vendor calls the model."""
        lowered = name.lower()
        for vendor, route in table.routes.items():
            mark = vendor + table.separator
            at = lowered.find(mark)
            if at == 0 or (at > 0 and not lowered[at - 1].isalnum() and lowered[at - 1] not in "-_"):
                return vendor, route, name[at + len(mark) :]
        bare = normalise(name)
        for vendor, route in table.routes.items():
            if route.provider and starts_family(bare, self._table(route.provider).names):
                return vendor, route, name
        return "", None, name

    def _through_route(self, table: ProviderTable, vendor: str, route: RouteTable, rest: str, asked: str) -> Resolved:
        backed = self._table(route.provider) if route.provider else None
        if backed is None:
            merged, entry, known = self._merged(table, "*"), None, False
        else:
            entry = self._find(backed, rest)
            merged, known = self._merged(backed, entry), entry is not None
            merged = tables.merge(merged, {"limits": table.defaults.get("limits", {}), "knobs": table.knobs})
        merged = tables.merge(merged, route.rules)
        if route.efforts:
            merged = merged | {"efforts": [each for each in merged.get("efforts", ()) if each in route.efforts]}
        merged = tables.merge(merged, route.groups.get(merged.get("group", ""), {})) | {"prices": {}}
        source_table = backed or table
        facts = _facts(
            tables.build_entry(merged, f"{table.provider}.routes.{vendor}", f"{table.provider}.toml"),
            provider=table.provider,
            name=f"{vendor}{table.separator}{entry or rest}",
            known=known,
            usage=table.usage,
            as_of=min(table.as_of, self._as_of(source_table.provider, entry, source_table.as_of)),
            source=self._source(source_table.provider, entry, table.source),
        )
        return Resolved(
            facts=facts,
            spellings=(asked,),
            price_source=table.price_source,
            prices={},
            prices_as_of=table.as_of,
            backed=f"{backed.provider}:{rest}" if backed else None,
        )


def _facts(
    entry: ModelTable, *, provider: str, name: str, known: bool, usage: UsageConvention, as_of: date, source: str
) -> ModelFacts:
    values = {name: value for name, value in structs.asdict(entry).items() if name in ModelFacts.__struct_fields__}
    values |= {
        "ttls": tuple(Ttl(ttl, seconds) for ttl, seconds in entry.ttls.items()),
        "writes": tuple(entry.writes.items()),
        "thinking_budgets": tuple(entry.thinking_budgets.items()),
        "marker": entry.marker or None,
        "late_tools": entry.late_tools or None,
    }
    return ModelFacts(provider=provider, name=name, known=known, usage=usage, as_of=as_of, source=source, **values)


@cache
def shipped() -> Facts:
    """The facts as shipped, without overrides."""
    return Facts.load()


_chosen: Facts | None = None


def default() -> Facts:
    """The facts everyone shares who brings none of their own: as shipped, or what `use` put in their place."""
    return _chosen or shipped()


def use(facts: Facts | None) -> None:
    """Make these the shared facts of the process; the command line does so with the configured overrides."""
    global _chosen
    _chosen = facts


@contextmanager
def using(facts: Facts | None) -> Iterator[None]:
    """Share these facts for a while, then again those that were shared before; None changes nothing."""
    before = _chosen
    use(facts or before)
    try:
        yield
    finally:
        use(before)


def model(name: str) -> ModelFacts:
    """What is known of `provider:name`, or of a bare name of a known family."""
    return default().model(name)
