"""Settings that are accepted without effect: which, where, and what to do instead.

One table, `RULES`, that every door and command uses: whoever sets a value without effect is told. Defaults are never
reported. A key that is meant for another door, as in one holdfast.toml that serves all of them, is listed by `holdfast
config show` and not reported when a door opens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct, to_builtins

from holdfast.config.document import DEFAULT
from holdfast.config.keys import KEYS
from holdfast.config.resolution import Config
from holdfast.config.sections.settings import Settings
from holdfast.notices import warn_once
from holdfast.wording import listed

Door = Literal["agent", "gateway", "sdk"]
DOORS: tuple[Door, ...] = ("agent", "gateway", "sdk")
NAMES: Mapping[Door, str] = {"agent": "the agent", "gateway": "the gateway", "sdk": "SDK clients"}

_log = logging.getLogger(__name__)
_MOST = 4
"""Keys that one line names."""

_ZONES = tuple(name for name, key in KEYS.items() if key.zones)


class KeyContext(Struct, frozen=True):
    """What decides whether a key acts: all values, the providers of the agent's models (none: not known), and whether
    the agent starts MCP servers."""

    values: Mapping[str, Any]
    providers: frozenset[str] = frozenset()
    mcp: bool = True

    def only(self, provider: str) -> bool:
        return self.providers == {provider}

    def never(self, *providers: str) -> bool:
        return bool(self.providers) and self.providers.isdisjoint(providers)


def _always(_: KeyContext) -> bool:
    return True


class InertRule(Struct, frozen=True, kw_only=True):
    """Keys, by name or pattern, that have no effect in these doors `when` the condition holds. `why` completes "KEY is
    set, but"; `detail` follows the origin of the value. With `elsewhere` they are meant for another door."""

    keys: tuple[str, ...]
    why: str
    doors: tuple[Door, ...] = DOORS
    when: Callable[[KeyContext], bool] = _always
    detail: str = ""
    elsewhere: bool = False
    besides: tuple[str, ...] = ()
    """Keys that match a pattern but have an effect."""

    def fits(self, key: str) -> bool:
        return key not in self.besides and any(fnmatchcase(key, pattern) for pattern in self.keys)


def _is(key: str, *values: Any) -> Callable[[KeyContext], bool]:
    return lambda situation: situation.values[key] in values


def _is_not(key: str, *values: Any) -> Callable[[KeyContext], bool]:
    return lambda situation: situation.values[key] not in values


RULES: tuple[InertRule, ...] = (
    InertRule(
        keys=_ZONES,
        when=_is_not("cache.strategy", "zones"),
        why='only used with cache.strategy = "zones"',
        detail='; the strategy is "{cache.strategy}"',
    ),
    InertRule(
        keys=("cache.placement",),
        when=lambda situation: (
            situation.values["cache.placement"] == "auto" and situation.values["cache.strategy"] == "zones"
        ),
        why='"auto" is "single" with every provider that is served so far; set "multi-zone" for up to three markers',
    ),
    InertRule(
        keys=("cache.padding",),
        doors=("gateway", "sdk"),
        when=_is_not("cache.padding", "off"),
        why="the prompt of a client is never padded; only the agent pads its own",
    ),
    InertRule(
        keys=("cache.padding_min", "cache.padding_max"),
        when=_is_not("cache.padding", "always"),
        why='only used with cache.padding = "always"',
    ),
    InertRule(
        keys=("cache.padding_min", "cache.padding_max"),
        doors=("gateway", "sdk"),
        when=_is("cache.padding", "always"),
        why="the prompt of a client is never padded; only the agent pads its own",
    ),
    InertRule(
        keys=("cache.padding_text",),
        when=lambda situation: situation.values["cache.padding_text"] and situation.values["cache.padding"] == "off",
        why='only used with cache.padding = "economic" or "always"',
    ),
    InertRule(
        keys=("cache.padding_text",),
        doors=("gateway", "sdk"),
        when=_is_not("cache.padding_text", ""),
        why="the prompt of a client is never padded; only the agent pads its own",
    ),
    InertRule(
        keys=("cache.keepalive.budget_usd", "cache.keepalive.breaker"),
        when=_is("cache.keepalive.enabled", False),
        why="only used with cache.keepalive.enabled = true",
    ),
    InertRule(
        keys=("cache.keepalive.*",),
        doors=("sdk",),
        when=_is("cache.keepalive.enabled", True),
        why="keep-alive pings are sent by the gateway and the agent only",
    ),
    InertRule(
        keys=("cache.keepalive.*",),
        doors=("agent",),
        when=lambda situation: situation.values["cache.keepalive.enabled"] and situation.never("anthropic"),
        why="only Anthropic takes pings, and no model of the agent is one of its; name one in agent.model",
    ),
    InertRule(
        keys=("cache.gemini.max_active", "cache.gemini.ttl_s", "cache.gemini.refresh_at"),
        when=_is("cache.gemini.enabled", False),
        why="only used with cache.gemini.enabled = true",
    ),
    InertRule(
        keys=("cache.gemini.*",),
        doors=("agent",),
        when=lambda situation: situation.values["cache.gemini.enabled"] and situation.never("gemini"),
        why="no model of the agent is one of Gemini's; name one in agent.model",
    ),
    InertRule(
        keys=("cache.openai.store_completions",),
        doors=("agent",),
        when=lambda situation: situation.values["cache.openai.store_completions"] and situation.never("openai"),
        why="no model of the agent is one of OpenAI's; name one in agent.model",
    ),
    InertRule(
        keys=("cache.openai.cache_key",),
        doors=("agent",),
        when=lambda situation: not situation.values["cache.openai.cache_key"] and situation.never("openai"),
        why="no model of the agent is one of OpenAI's; name one in agent.model",
    ),
    InertRule(
        keys=("cache.openrouter.caching",),
        doors=("agent",),
        when=lambda situation: situation.values["cache.openrouter.caching"] != "seen" and situation.never("openrouter"),
        why="no model of the agent is reached through OpenRouter; name one in agent.model",
    ),
    InertRule(
        keys=(*_ZONES, "cache.retention_overrides"),
        doors=("agent",),
        when=lambda situation: situation.values["cache.strategy"] == "zones" and situation.only("gemini"),
        why="Gemini's cache has no markers and no lifetimes to choose; cache.gemini.enabled is its setting",
    ),
    InertRule(
        keys=("cache.repair",),
        doors=("agent",),
        when=lambda situation: (
            situation.values["cache.repair"] != "suggest" and situation.values["agent.volatile"] == "tail"
        ),
        why="for clients of the gateway and of the SDKs only",
        elsewhere=True,
    ),
    InertRule(
        keys=("cache.client_markers",),
        doors=("agent",),
        # With OpenAI's breakpoints "respect" also keeps ours from switching off those that the provider sets itself.
        when=lambda situation: (
            situation.values["cache.client_markers"] == "manage"
            or (situation.values["cache.client_markers"] == "respect" and situation.never("openai", "openrouter"))
        ),
        why="for clients of the gateway and of the SDKs only",
        elsewhere=True,
    ),
    InertRule(
        keys=("memory.inject*",),
        doors=("agent",),
        why="for clients of the gateway and of the SDKs only",
        elsewhere=True,
    ),
    InertRule(
        keys=("mcp.servers",),
        doors=("agent",),
        when=lambda situation: (
            not situation.mcp and any(each.enabled for each in situation.values["mcp.servers"].values())
        ),
        why="open_agent was given mcp=False, which starts no MCP server",
    ),
    InertRule(
        keys=("facts.overrides",),
        doors=("sdk",),
        when=lambda situation: bool(situation.values["facts.overrides"]),
        why="facts are those of the whole process; share yours with use(Facts.load([…])) of holdfast.facts",
    ),
    InertRule(
        keys=("gateway.*",),
        besides=("gateway.limits.connect_s", "gateway.limits.idle_s"),
        doors=("agent",),
        why="for the gateway only",
        elsewhere=True,
    ),
    InertRule(
        keys=("agent.*", "tools.*", "skills.*", "mcp.*", "cache.openai.cache_key", "cache.openrouter.caching"),
        doors=("gateway", "sdk"),
        why="for the agent only",
        elsewhere=True,
    ),
)


class Inert(Struct, frozen=True, kw_only=True):
    """A key that is set but has no effect where its rule applies."""

    key: str
    rule: InertRule

    @property
    def everywhere(self) -> bool:
        return self.rule.doors == DOORS


def find(
    config: Config,
    *,
    door: Door | None = None,
    agent: str | None = None,
    model: str | None = None,
    mcp: bool = True,
) -> list[Inert]:
    """Return the keys that are set without effect: in this door, or in any of them. `model` is used by the agent
    besides those of the configuration, `mcp` if it starts MCP servers."""
    own_values = config.values(agent)
    values = {name: each.value for name, each in own_values.items()}
    views = (config.base, *config.by_agent.values())
    models = [model, *(each for view in views for each in (view.settings.agent.model, *view.settings.agent.fallback))]
    named = [each for each in models if each]
    complete = all(":" in each for each in named)  # whose a model without its provider is, the sessions find out
    providers = frozenset(each.partition(":")[0] for each in named if complete)
    return _find(values, [name for name, each in own_values.items() if each.origin != DEFAULT], door, providers, mcp)


def warning(config: Config, door: Door, *, agent: str | None = None, model: str | None = None, mcp: bool = True) -> str:
    """The one line for a door that opens; empty where all that is set acts, or is meant for another door. A flag is
    meant for this one."""
    values = config.values(agent)
    inert = find(config, door=door, agent=agent, model=model, mcp=mcp)
    return _line([each for each in inert if not each.rule.elsewhere or values[each.key].origin.kind == "flag"], door)


def warning_of(settings: Settings, door: Door) -> str:
    """Return the same for settings of unknown origin: everything that differs from the default was set."""
    values, defaults = _flat(settings), _flat(Settings())
    changed = [name for name in KEYS if values.get(name) != defaults.get(name)]
    return _line([each for each in _find(values, changed, door, frozenset()) if not each.rule.elsewhere], door)


def warn(line: str) -> None:
    """Log a line, once in this process."""
    warn_once(_log, "%s", line)


def notes(config: Config, agent: str | None = None) -> list[tuple[Inert, str]]:
    """Every key that is set and has no effect somewhere, in a sentence; keys that are another door's, in one for each
    rule."""
    values, grouped = config.values(agent), dict[str, list[Inert]]()
    sentences: list[tuple[Inert, str]] = []
    for each in find(config, agent=agent):
        if each.rule.elsewhere:
            grouped.setdefault(each.rule.why, []).append(each)
            continue
        doors = " and ".join(NAMES[door] for door in each.rule.doors)
        where = "" if each.everywhere else f"without effect in {doors}: "
        detail = each.rule.detail.replace("{cache.strategy}", str(values["cache.strategy"].value))
        sentences.append(
            (each, f"{each.key} is set, but {where}{each.rule.why} (set by {values[each.key].origin}{detail})")
        )
    for why, group in grouped.items():
        sentences.append((group[0], f"{_some(group)} {'is' if len(group) == 1 else 'are'} {why}"))
    return sentences


def _find(
    values: Mapping[str, Any], keys: Iterable[str], door: Door | None, providers: frozenset[str], mcp: bool = True
) -> list[Inert]:
    situation = KeyContext(values, providers, mcp)
    rules = [rule for rule in RULES if (door is None or door in rule.doors) and rule.when(situation)]
    inert: list[Inert] = []
    for key in keys:
        left = set(DOORS if door is None else (door,))
        for rule in rules:
            if rule.fits(key) and not left.isdisjoint(rule.doors):
                inert.append(Inert(key=key, rule=rule))
                left.difference_update(rule.doors)
    return inert


def _line(inert: list[Inert], door: Door) -> str:
    if not inert:
        return ""
    if len(inert) == 1:
        it = "it is " if inert[0].rule.elsewhere else ""
        return f"{inert[0].key} has no effect in {NAMES[door]}: {it}{inert[0].rule.why}."
    return f"{_some(inert)} have no effect in {NAMES[door]}; `holdfast config show` says why."


def _some(inert: list[Inert]) -> str:
    keys = [each.key for each in inert]
    if len(keys) > _MOST:
        return f"{', '.join(keys[: _MOST - 1])} and {len(keys) - _MOST + 1} more"
    return listed(keys)


def _flat(settings: Settings) -> dict[str, Any]:
    values: dict[str, Any] = {}

    def walk(value: Any, path: tuple[str, ...]) -> None:
        name = ".".join(path)
        if name not in KEYS and isinstance(value, dict):
            for each, inner in value.items():
                walk(inner, (*path, each))
        else:
            values[name] = value

    walk(to_builtins(settings), ())
    return values
