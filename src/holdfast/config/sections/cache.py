"""Markers, edits, padding, breaks and what is particular to one provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Struct

from holdfast.config.sections.marks import MANY, about, count, name, share

Strategy = Literal["passthrough", "two-point", "rolling", "zones", "three-block", "economic"]
Retention = Literal["none", "short", "long"]


class BreaksSettings(Struct, frozen=True):
    """When a drop in cache reads counts as a break, and where the reports go."""

    min_drop: Annotated[float, share("A break needs reads to fall by more than this share.", seed="(5%)")] = 0.05
    min_tokens: Annotated[int, count("A break also needs reads to fall by more tokens than this.", seed="(2K)")] = 2000
    dir: Annotated[
        str,
        name("Directory of the break reports, one file per day.", seed="(cache-breaks)", path=True),
    ] = "HOLDFAST_HOME/cache-breaks"
    keep: Annotated[int, count("Break reports kept before the oldest are removed.")] = 1000


class GeminiSettings(Struct, frozen=True):
    """Gemini's explicit cache objects."""

    enabled: Annotated[bool, about("Create cachedContents objects where they pay.", seed="geminiCache.enabled")] = False
    max_active: Annotated[
        int, count("Cache objects alive at once per agent.", seed="geminiCache.maxActiveCaches", least=1)
    ] = 20
    ttl_s: Annotated[int, count("Seconds a cache object lives unless refreshed.", seed="(3600 s)", least=1)] = 3600
    refresh_at: Annotated[
        float,
        about("Share of its life after which an object in use is refreshed.", seed="(50%)", gt=0, lt=1),
    ] = 0.5


class OpenAISettings(Struct, frozen=True):
    """What is asked of OpenAI in every request."""

    cache_key: Annotated[
        bool,
        about("Send a `prompt_cache_key` with the agent's requests: one for all sessions that begin alike."),
    ] = True
    store_completions: Annotated[bool, about("Send `store: true` on Responses calls.", seed="storeCompletions")] = False


class OpenRouterSettings(Struct, frozen=True):
    """Caching through OpenRouter."""

    caching: Annotated[
        Literal["never", "seen"],
        about(
            "Count a route as caching never, or for models known to cache once a read was seen on it.",
            seed="supports_prompt_caching",
            seed_value="never",
        ),
    ] = "seen"


class KeepaliveSettings(Struct, frozen=True):
    """Pings that keep an entry alive through a pause, sent only where the expected return pays for them."""

    enabled: Annotated[bool, about("Allow keep-alive pings.")] = False
    budget_usd: Annotated[float, about("Dollars all pings of one tenant may cost in a day.", ge=0, le=MANY)] = 1.0
    breaker: Annotated[int, count("Pings in a row without a return after which a lane gets no more.", least=1)] = 3


class CacheSettings(Struct, frozen=True):
    """Which markers are placed, what may be edited, and what is reported."""

    strategy: Annotated[Strategy, about("Who plans the markers and their lifetimes.")] = "economic"
    client_markers: Annotated[
        Literal["respect", "improve", "manage"],
        about("The client's own markers: all kept, kept while they pay, or replaced by ours."),
    ] = "improve"
    repair: Annotated[
        Literal["off", "suggest", "values", "on"],
        about("Repairs: none; order only with the rest reported; times, dates, counters and UUIDs too; or all."),
    ] = "suggest"
    edits: Annotated[
        Literal["priced", "never"],
        about("Edits of bytes already sent: when cold or paid back, or never.", seed_value="never"),
    ] = "priced"
    probe_credit_usd: Annotated[
        float,
        about(
            "Dollars that a client without markers may cost more than with automatic caching until its savings pay.",
            ge=0,
            le=MANY,
        ),
    ] = 0.25
    cooldown_turns: Annotated[
        int, count("Turns with short lifetimes after an entry was lost before its time.", zones=True)
    ] = 5
    padding: Annotated[
        Literal["off", "economic", "always"],
        about(
            "Padding of a prefix below the floor: never, where it pays, or to the bounds below.",
            seed_value="always",
        ),
    ] = "economic"
    padding_min: Annotated[
        int, count('Tokens that `padding = "always"` reaches.', seed="MIN_CACHEABLE_PREFIX_TOKENS")
    ] = 4500
    padding_max: Annotated[
        int, count('Tokens that `padding = "always"` never passes.', seed="MAX_CACHEABLE_PREFIX_TOKENS")
    ] = 5500
    padding_text: Annotated[
        str,
        about(
            "File whose text padding uses in place of the built-in working guidance: of the workspace, or "
            "HOLDFAST_HOME/NAME. A workspace's file can name only its own.",
            path=True,
        ),
    ] = ""
    retention: Annotated[
        Retention, about("Lifetime of entries: none, 5 minutes, 1 hour.", seed="cacheRetention", zones=True)
    ] = "long"
    adaptive: Annotated[
        bool,
        about("Start short and lengthen after confirmed reads.", seed="adaptiveCacheRetention", zones=True),
    ] = True
    escalate_after_reads: Annotated[
        int,
        count("Turns with confirmed reads before entries become long.", seed="(3 reads)", zones=True, least=1),
    ] = 3
    escalate_first_write_tokens: Annotated[
        int, count("A first write above this makes entries long from turn 2.", seed="(20K)", zones=True)
    ] = 20000
    unstable_after_turns: Annotated[
        int,
        count("Turns of flat reads after which entries are short again.", seed="(5 turns)", zones=True, least=1),
    ] = 5
    placement: Annotated[
        Literal["single", "multi-zone", "auto"],
        about(
            "Message markers: one, up to three, or by provider, which is one with all that are served.",
            seed="cacheBreakpointStrategy",
            zones=True,
        ),
    ] = "single"
    promote_recent_zone: Annotated[
        bool,
        about(
            "Make the recent zone long where turns come slowly.",
            seed="advancedCacheOptimization.enableRecentZonePromotion",
            zones=True,
        ),
    ] = True
    retention_overrides: Annotated[
        Mapping[str, Retention],
        about(
            "Retention by prefix of the model's name; the longest prefix wins.",
            seed="cacheRetentionOverrides",
        ),
    ] = {}
    breaks: BreaksSettings = BreaksSettings()
    gemini: GeminiSettings = GeminiSettings()
    openai: OpenAISettings = OpenAISettings()
    openrouter: OpenRouterSettings = OpenRouterSettings()
    keepalive: KeepaliveSettings = KeepaliveSettings()
