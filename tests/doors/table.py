"""Every mechanism through every door: for each provider a check that shows it at work, or why it cannot be.

A cell that has neither is empty. `PENDING` are cells whose check is known to fail: they are empty on the page, and the
test fails as soon as one of them passes, so that it leaves the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from tests.doors import checks_agent as agent
from tests.doors import checks_clients as clients
from tests.doors import checks_prefix as prefix
from tests.doors.doors import DOORS, GATEWAY, OURS, SDK, THEIRS, Door, provided
from tests.doors.sessions import PROVIDERS

Check = Callable[[Door, str], None]
"""Plays sessions through a door with a provider, and raises unless the mechanism acted."""

ANTHROPIC, OPENAI, GEMINI = "anthropic", "openai", "gemini"
LIFETIME = "the provider has no lifetimes to choose from"
ANSWERLESS = "only Anthropic takes requests that ask for no answer"
MARKERS = "the provider takes no such markers"
STEADY = (
    "the agent makes no such fault: no clock stands in its system text, and its bytes are final once they were sent; "
    "where `agent.volatile` changes them, that is an announced reset"
)
CLIENTS_OWN = "clients run their own tools and sub-agents, and keep their own history"
CLIENTS_TEXT = "the system text is the client's, and nothing is added to it for its length"
OWN_MARKERS = "the agent has no markers but those of the plan"
OWN_KEY = "the agent's own key stays what it was: the row below"
CLIENTS_KEY = "a client chooses its own: the row above"
OPENAI_ONLY = "a parameter of OpenAI's"
GEMINI_ONLY = "objects of Gemini's"
AGENT_MEMORY = "the agent has memory of its own: the row above"
CLIENTS_MEMORY = "clients get memory by injection: the row below"
IDLE = "nothing of ours runs between the requests of a program; it can call `engine.core.pings` itself"
PREFLIGHT = (
    "the chat says the cost of every turn, and that of another model before it answers; `agent.max_calls` bounds a turn"
)
REPAIRED = "what a client changes in its system text is the business of the repairs below"
CLIENTS_EFFORT = "the client chooses it"


class Row(Struct, frozen=True):
    """A mechanism. `cells` are by door and provider: a check, or why it is not applicable."""

    name: str
    setting: str
    seen: str
    cells: Mapping[tuple[str, str], Check | str]


class Part(Struct, frozen=True):
    """The same for several cells."""

    what: Check | str
    doors: tuple[Door, ...] = DOORS
    providers: tuple[str, ...] = PROVIDERS


def row(name: str, setting: str, seen: str, *parts: Part) -> Row:
    cells = {(door.name, provider): part.what for part in parts for door in part.doors for provider in part.providers}
    return Row(name, setting, seen, cells)


def ours(check: Check, why: str = CLIENTS_OWN) -> tuple[Part, ...]:
    """What the agent alone does."""
    return Part(check, OURS), Part(why, THEIRS)


def theirs(check: Check, why: str = STEADY) -> tuple[Part, ...]:
    """What is done for clients alone."""
    return Part(check, THEIRS), Part(why, OURS)


def of_claude(check: Check, why: str = LIFETIME) -> tuple[Part, ...]:
    """What Anthropic's cache alone allows."""
    return Part(check, providers=(ANTHROPIC,)), Part(why, providers=(OPENAI, GEMINI))


ROWS = (
    row(
        "escalation of lifetimes (1)",
        "`cache.escalate_after_reads`",
        "event `cache.retention_changed`",
        *of_claude(prefix.escalation),
    ),
    row(
        "fast escalation (2)",
        "`cache.escalate_first_write_tokens`",
        "event `cache.retention_changed`",
        *of_claude(prefix.fast_escalation),
    ),
    row(
        "detection of an unstable prefix (3)",
        "`cache.unstable_after_turns`",
        "event `cache.retention_changed`",
        Part(STEADY, OURS, (ANTHROPIC,)),
        Part(prefix.instability, THEIRS, (ANTHROPIC,)),
        Part(LIFETIME, providers=(OPENAI, GEMINI)),
    ),
    row("fence (4)", "`cache.edits`", "event `cache.planned` (edits), `holdfast show CALL`", *ours(agent.fence)),
    row(
        "masking of old results",
        "`tools.mask.enabled`",
        "event `tool.masked`",
        *ours(agent.masking),
    ),
    row(
        "staggered sub-agents (5)",
        "`agent.delegates.hold_s`",
        "event `delegate.started`, the notices of `holdfast chat`",
        *ours(agent.staggering),
    ),
    row(
        "detection of breaks in two steps (6)",
        "`cache.breaks.min_tokens`",
        "events `cache.verdict`, `cache.break`, `holdfast breaks`, `/cache` in a chat",
        Part(prefix.detection),
    ),
    row(
        "break reports (7)",
        "`cache.breaks.dir`, `cache.breaks.keep`",
        "the files in that directory",
        Part(prefix.reports),
    ),
    row("priming of sub-agents (8)", "-", "event `cache.planned` of a sub-agent's lane", *ours(agent.priming)),
    row(
        "short or no writes of sub-agents (9)",
        "`cache.strategy`",
        "event `cache.planned` (markers), `holdfast show CALL`",
        Part(agent.short_writes, OURS, (ANTHROPIC,)),
        Part(clients.short_writes, THEIRS, (ANTHROPIC,)),
        Part(LIFETIME, providers=(OPENAI, GEMINI)),
    ),
    row("lifetimes by zone (10)", "`cache.placement`", "event `cache.planned` (markers)", *of_claude(prefix.placement)),
    row(
        "Anthropic's markers (11)",
        "`cache.strategy`",
        "event `cache.planned` (markers), header `x-holdfast-plan`",
        *of_claude(prefix.markers, MARKERS),
    ),
    row(
        "markers of the client's",
        "`cache.client_markers`",
        "event `cache.planned` (markers), header `x-holdfast-plan`",
        Part(OWN_MARKERS, OURS, (ANTHROPIC,)),
        Part(prefix.client_markers, THEIRS, (ANTHROPIC,)),
        Part(MARKERS, providers=(OPENAI, GEMINI)),
    ),
    row(
        "OpenAI's breakpoints",
        "`cache.strategy`",
        "event `cache.planned` (markers), header `x-holdfast-plan`",
        Part(prefix.breakpoints, providers=(OPENAI,)),
        Part(OPENAI_ONLY, providers=(ANTHROPIC, GEMINI)),
    ),
    row(
        "a client's `prompt_cache_key`",
        "-",
        "event `cache.break` (path), `holdfast breaks`",
        Part(prefix.cache_key, THEIRS, (OPENAI,)),
        Part(OWN_KEY, OURS, (OPENAI,)),
        Part(OPENAI_ONLY, providers=(ANTHROPIC, GEMINI)),
    ),
    row(
        "the agent's `prompt_cache_key`",
        "`cache.openai.cache_key`",
        "the request",
        Part(agent.cache_key, OURS, (OPENAI,)),
        Part(CLIENTS_KEY, THEIRS, (OPENAI,)),
        Part(OPENAI_ONLY, providers=(ANTHROPIC, GEMINI)),
    ),
    row(
        "Gemini's cached contents (12)",
        "`cache.gemini.enabled`",
        "`holdfast show CALL`",
        Part(clients.contents, providers=(GEMINI,)),
        Part(GEMINI_ONLY, providers=(ANTHROPIC, OPENAI)),
    ),
    row(
        "stored completions (13)",
        "`cache.openai.store_completions`",
        "the request",
        Part(prefix.stored_completions, providers=(OPENAI,)),
        Part(OPENAI_ONLY, providers=(ANTHROPIC, GEMINI)),
    ),
    row("offloading (14)", "`tools.offload.inline_chars`", "event `tool.offloaded`", *ours(agent.offloading)),
    row(
        "schema stripping (15)",
        "`tools.deferral.strip`, `tools.deferral.carrier`",
        "event `cache.planned` (edits)",
        *ours(agent.stripping),
    ),
    row(
        "deferral with discovery (16)",
        "`tools.deferral.mode`, `tools.deferral.always`",
        "events `tool.deferred`, `tool.discovered`",
        *ours(agent.deferral),
    ),
    row("carriers of found tools", "`tools.deferral.carrier`", "event `tool.discovered`", *ours(agent.carriers)),
    row(
        "found tools declared anew",
        "`tools.deferral.carrier`",
        "event `cache.reset` (`tools_redeclared`)",
        *ours(agent.redeclaring),
    ),
    row(
        "demotion of unused tools",
        "`tools.lifecycle.demote_after_turns`",
        "event `tool.demoted`",
        *ours(agent.demotion),
    ),
    row("tools of MCP servers", "`mcp.servers`", "the request", *ours(agent.served)),
    row("guides of tools", "`tools.guides`", "event `guide.delivered`", *ours(agent.guides)),
    row("changing system text at the tail", "`agent.volatile`", "event `cache.reset`", *ours(agent.volatile, REPAIRED)),
    row(
        "compaction",
        "`agent.compaction.limit_tokens`",
        "events `compaction.completed`, `cache.reset`",
        *ours(agent.compaction),
    ),
    row("history window", "`agent.history_turns`", "event `cache.reset` (`history_trimmed`)", *ours(agent.history)),
    row("padding", "`cache.padding`", "`/context` in a chat", *ours(agent.padding, CLIENTS_TEXT)),
    row("effort of thinking", "`agent.effort`", "the request", *ours(agent.effort, CLIENTS_EFFORT)),
    row(
        "knowledge in an agent's prompt",
        "`memory.retrieve`, `memory.retrieve_max`",
        "event `memory.surfaced`",
        *ours(agent.surfacing, CLIENTS_MEMORY),
    ),
    row(
        "memory for clients",
        "`memory.inject`",
        "event `memory.surfaced`, header `x-holdfast-memory`",
        Part(clients.injection, THEIRS),
        Part(AGENT_MEMORY, OURS),
    ),
    row(
        "repair of a clock in the system text",
        "`cache.repair`",
        "event `cache.planned` (repairs), header `x-holdfast-repairs`",
        *theirs(clients.clock_repair),
    ),
    row(
        "repair of the order of tools",
        "`cache.repair`",
        "event `cache.planned` (repairs), header `x-holdfast-repairs`",
        *theirs(clients.tool_order),
    ),
    row(
        "repair of the order of keys",
        "`cache.repair`",
        "event `cache.planned` (repairs), header `x-holdfast-repairs`",
        *theirs(clients.key_order),
    ),
    row(
        "pre-flight",
        "`gateway.preflight`, `gateway.preflight_usd`",
        "event `gateway.preflight`, header `x-holdfast-warning`",
        *theirs(clients.preflight, PREFLIGHT),
    ),
    row(
        "keep-alive pings",
        "`cache.keepalive.enabled`",
        "event `cache.ping`",
        Part(clients.pings, (*OURS, GATEWAY), (ANTHROPIC,)),
        Part(IDLE, (SDK,), (ANTHROPIC,)),
        Part(ANSWERLESS, providers=(OPENAI, GEMINI)),
    ),
    row("the bill", "`store.url`", "`holdfast bill`, `holdfast sessions`, `/cost` in a chat", Part(prefix.bill)),
)

Cell = tuple[str, str, str]
"""Row, door, provider."""


PENDING: set[Cell] = set()


def checks() -> list[tuple[Cell, Check]]:
    """Every cell that has a check."""
    return [
        ((each.name, door, provider), what)
        for each in ROWS
        for (door, provider), what in each.cells.items()
        if not isinstance(what, str)
    ]


def door_named(name: str) -> Door:
    return next(door for door in DOORS if door.name == name)


def failing() -> set[Cell]:
    """The cells whose check fails now; all are tried."""
    failed: set[Cell] = set()
    with provided():
        for cell, check in checks():
            try:
                check(door_named(cell[1]), cell[2])
            except Exception:  # noqa: BLE001  whatever goes wrong, nothing was shown
                failed.add(cell)
    return failed
