"""The agent runtime, its skills, tools and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.config.sections.marks import MANY, Names, about, count, name, share

Count = Annotated[int, Meta(ge=0, le=MANY)]


class CompactionSettings(Struct, frozen=True):
    """When and how a long history is summarised."""

    trigger_at: Annotated[float, about("Share of the context window in use that triggers compaction.", gt=0, le=1)] = (
        0.85
    )
    limit_tokens: (
        Annotated[
            int,
            count("Tokens in use that trigger compaction earlier; unset: the share alone decides.", least=1),
        ]
        | None
    ) = None
    cooldown_turns: Annotated[
        int, count("Turns between two compactions.", seed="contextEngine.compactionCooldownTurns")
    ] = 5
    anchor_turns: Annotated[
        int,
        count(
            "Turns kept at the head, so that the break comes after them.",
            seed="contextEngine.compactionPrefixAnchorTurns",
        ),
    ] = 2
    reserve_tokens: Annotated[
        int, count("Tokens reserved for the summary.", seed="session.compaction.reserveTokens")
    ] = 16384
    keep_recent_tokens: Annotated[
        int, count("Tokens of the newest messages that stay.", seed="session.compaction.keepRecentTokens")
    ] = 32768


class DelegatesSettings(Struct, frozen=True):
    """Sub-agents."""

    concurrent: Annotated[int, count("Sub-agents of one agent at work at the same time.", least=1)] = 8
    timeout_s: Annotated[float, about("Seconds a sub-agent may take.", gt=0, le=86400)] = 600
    hold_s: Annotated[
        float, about("Longest wait of the others for the first one's first token.", seed="(staggering)", ge=0, le=60)
    ] = 5.0
    depth: Annotated[int, count("How deep sub-agents may start others.", most=8)] = 1


class AgentSettings(Struct, frozen=True):
    """The agent runtime."""

    model: (
        Annotated[
            str,
            about(
                "Model for calls that name none.",
                pattern=r"^[^\s:]+:[^\s]+\Z",
                allowed="a model of the form provider:name",
            ),
        ]
        | None
    ) = None
    fallback: Annotated[Names, about("Models tried in order when the first is not available.")] = ()
    volatile: Annotated[
        Literal["tail", "system"],
        about(
            "Where changing system text goes: a frozen entry at the tail, or after the stable system text.",
            seed="system_prompt_volatile",
            seed_value="system",
        ),
    ] = "tail"
    on_load: Annotated[
        Literal["auto", "refresh", "replay"],
        about(
            "Surroundings of a resumed session: read again if cold, always, or never.",
            seed="ambients on load",
            seed_value="refresh",
        ),
    ] = "auto"
    history_turns: Annotated[
        int,
        count(
            "Most turns of the user's that a request holds; 0: all.", seed="contextEngine.historyTurns", seed_value=15
        ),
    ] = 0
    output_tokens: Annotated[int, count("Longest answer of the model; no more than the model can give.", least=1)] = (
        16384
    )
    effort: (
        Annotated[
            Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"],
            about(
                "How much the model is to think, where it takes levels of that; unset: nothing is sent, and the "
                "provider decides. A change in a conversation loses what is cached of it."
            ),
        ]
        | None
    ) = None
    max_calls: Annotated[int, count("Requests to the model within one turn of the user's.", least=1)] = 100
    retries: Annotated[int, count("How often a request that failed is sent again.")] = 3
    timezone: Annotated[str, name("Time zone of times in the prompt, such as Europe/Berlin.")] = "UTC"
    instructions: Annotated[
        Names, about("Files with a project's instructions; the first that is there counts.", path=False)
    ] = ("AGENTS.md", "CLAUDE.md")
    tree_entries: Annotated[int, count("Entries of the directory tree that a session begins with.")] = 200
    compaction: CompactionSettings = CompactionSettings()
    delegates: DelegatesSettings = DelegatesSettings()


class SkillsSettings(Struct, frozen=True):
    """Where skills are found and how many may be loaded."""

    roots: Annotated[
        Names,
        about(
            "Directories of skills; relative ones belong to the workspace and win over the others, "
            "and at each level the first wins. A workspace's file can name only its own, HOLDFAST_HOME/skills, "
            "~/.agents/skills and ~/.claude/skills.",
            path=True,
        ),
    ] = ("HOLDFAST_HOME/skills", ".holdfast/skills")
    index: Annotated[
        Literal["full", "capped", "off"],
        about("List of skills in the stable prompt: all, up to a cap, none."),
    ] = "capped"
    index_chars: Annotated[int, count("Characters of the list where it is capped.")] = 16000
    max_activations: Annotated[
        int, count("Skills loaded on request per session.", seed="MAX_EXPLICIT_ACTIVATIONS_PER_SESSION")
    ] = 3
    warn_tokens: Annotated[
        int, count("Loaded tokens that draw a warning.", seed="WARN_CUMULATIVE_ACTIVATION_TOKENS")
    ] = 10000
    hard_tokens: Annotated[
        int, count("Loaded tokens that are never passed.", seed="HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS")
    ] = 30000
    strict: Annotated[
        bool,
        about(
            "Leave out a skill whose description has more than 1,024 characters; otherwise it is loaded with a warning "
            "and the index cuts the description."
        ),
    ] = False


class OffloadSettings(Struct, frozen=True):
    """Which tool results go to a file, with head and tail in their place."""

    max_result_chars: (
        Annotated[int, count("One limit for every tool; unset: those below.", seed="maxToolResultChars", least=1)]
        | None
    ) = None
    inline_chars: Annotated[int, count("Longest result kept inline.", seed="(inline limit)")] = 8000
    read_chars: Annotated[int, count("Longest result of read_file kept inline.", seed="(inline limit, read)")] = 15000
    mcp_chars: Annotated[int, count("Longest result of an MCP tool kept inline.", seed="(inline limit, mcp)")] = 15000
    hard_cap_chars: Annotated[
        int, count("Longest result of any tool kept inline, whatever else is set.", seed="(hard cap)")
    ] = 100000
    head_chars: Annotated[int, count("Characters of the beginning that stay.", seed="(preview head)")] = 1500
    tail_chars: Annotated[int, count("Characters of the end that stay.", seed="(preview tail)")] = 500
    format: Annotated[
        Literal["text", "json"],
        about(
            "File of a result: its text as it is, or a JSON document with a string for each line.",
            seed="(saved as a JSON file)",
            seed_value="json",
        ),
    ] = "text"
    per_tool: Annotated[Mapping[str, Count], about("Longest inline result by tool name.")] = {}


class MaskSettings(Struct, frozen=True):
    """Old tool results replaced by placeholders, when cold or when it pays."""

    keep_window: Annotated[
        int, count("Newest tool results kept in full.", seed="contextEngine.observationKeepWindow")
    ] = 25
    trigger_chars: Annotated[
        int,
        count(
            "Characters of tool results at which masking starts.",
            seed="contextEngine.observationTriggerChars",
        ),
    ] = 120000
    release_chars: Annotated[int, count("Characters of tool results at which masking stops.")] = 80000
    protected: Annotated[Names, about("Tools whose results are never masked.")] = ()
    enabled: Annotated[bool, about("Mask old tool results.")] = True


class LifecycleSettings(Struct, frozen=True):
    """Tools that nobody uses."""

    enabled: Annotated[bool, about("Demote tools that stay unused.", seed="toolLifecycle.enabled")] = True
    demote_after_turns: Annotated[
        int, count("Unused turns before a tool is demoted.", seed="toolLifecycle.demotionThreshold", least=1)
    ] = 20


class DeferralSettings(Struct, frozen=True):
    """Tools left out of the request until they are asked for."""

    mode: Annotated[
        Literal["auto", "always", "never"],
        about("Defer what is too much, all but core and pinned tools, or nothing.", seed="deferredTools.mode"),
    ] = "auto"
    never: Annotated[Names, about("Tools that are never deferred.", seed="deferredTools.neverDefer")] = ()
    always: Annotated[Names, about("Tools that are always deferred.", seed="deferredTools.alwaysDefer")] = ()
    budget: Annotated[
        float, share("Share of the context window that definitions may take before `auto` defers.", seed="(budget)")
    ] = 0.1
    carrier: Annotated[
        Literal["auto", "native", "call_tool", "redeclare"],
        about(
            "How a found tool becomes callable: as the provider allows, by the provider's own means, "
            "through call_tool, or by declaring the tools anew."
        ),
    ] = "auto"
    strip: Annotated[
        Literal["at_once", "when_cold"],
        about(
            "Schemas in the results of discover_tools that the request declares elsewhere: left out from the start, "
            "or shortened later, when the lane is cold or it pays. With tool references no schema stands there, and "
            "`when_cold` has no effect.",
            seed="schema stripping",
            seed_value="when_cold",
        ),
    ] = "at_once"


class ConfirmSettings(Struct, frozen=True):
    """Who decides whether a tool may write, execute or use the network."""

    mode: Annotated[
        Literal["ask", "allow", "deny"],
        about("Ask the user, allow every call, or refuse them.", guarded=True),
    ] = "ask"
    allow: Annotated[Names, about("Tools that run without a question.", guarded=True)] = ()
    deny: Annotated[Names, about("Tools that are refused without a question.", guarded=True)] = ()


class CommandSettings(Struct, frozen=True, rename={"pass_": "pass"}):
    """Commands that run_command starts."""

    timeout_s: Annotated[float, about("Seconds a command may take when the call names none.", gt=0, le=86400)] = 120
    max_timeout_s: Annotated[float, about("Longest time a call may ask for.", gt=0, le=86400)] = 600
    max_output_bytes: Annotated[
        int, count("Bytes of output kept of one command; what comes after is counted and dropped.", least=1)
    ] = 50_000_000
    max_background: Annotated[int, count("Background commands of one session at the same time.", least=1)] = 8
    hide: Annotated[
        Names,
        about(
            "Variables that commands do not get, by name or pattern (`CORP_*`), beside the keys of model providers.",
            guarded=True,
        ),
    ] = ()
    pass_: Annotated[
        Names,
        about("Variables that commands get although they hold a key, by name or pattern.", guarded=True),
    ] = ()


class ToolsSettings(Struct, frozen=True):
    """Tool results and definitions."""

    timeout_s: Annotated[float, about("Seconds a tool may take that names no limit of its own.", gt=0, le=86400)] = 300
    guides: Annotated[
        bool, about("Show what there is to know about a tool at the end of its first result in a session.")
    ] = True
    offload: OffloadSettings = OffloadSettings()
    mask: MaskSettings = MaskSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    deferral: DeferralSettings = DeferralSettings()
    confirm: ConfirmSettings = ConfirmSettings()
    command: CommandSettings = CommandSettings()


class MemorySettings(Struct, frozen=True):
    """Long-term memory and how it reaches a prompt."""

    placement: Annotated[
        Literal["deltas", "blocks"],
        about(
            "Context memory as frozen entries near the tail, or as a system block.",
            seed="memory blocks",
            seed_value="blocks",
        ),
    ] = "deltas"
    user_soft: Annotated[int, count("Bytes of USER.md from which on tidying up is asked for.")] = 1536
    user_hard: Annotated[int, count("Bytes of USER.md that are never passed.")] = 3072
    notes_soft: Annotated[int, count("Bytes of MEMORY.md from which on tidying up is asked for.")] = 2048
    notes_hard: Annotated[int, count("Bytes of MEMORY.md that are never passed.")] = 4096
    inject: Annotated[bool, about("Give memory to gateway clients that know nothing of it.", guarded=True)] = False
    inject_tenants: Annotated[
        Names,
        about(
            "Tenants whose clients get memory, whole or by their first 10 characters; with none named, all of them.",
            guarded=True,
        ),
    ] = ()
    inject_as: Annotated[
        Literal["tenant", "local"],
        about(
            "Whose memory clients of the gateway get: that of their own credential, or that of this machine's user, as "
            "`holdfast chat` and `holdfast memory` use it. The latter on loopback only, and to web pages (those of "
            "`gateway.origins`) only for tenants that `inject_tenants` names.",
            guarded=True,
        ),
    ] = "tenant"
    project: Annotated[
        str,
        about(
            "Project whose entries count where nothing else names one; by default the repository of the workspace.",
            guarded=True,
        ),
    ] = ""
    amnesia: Annotated[bool, about("Read memory and write none.")] = False
    retrieve: Annotated[
        Literal["session_start", "every_turn"],
        about("When memories are looked up unasked.", seed="(memory retrieval)", seed_value="every_turn"),
    ] = "session_start"
    retrieve_max: Annotated[int, count("Memories given at once.", seed="(up to five)")] = 5
    delta_max: Annotated[int, count("Deltas that one conversation gets between two resets; later changes wait.")] = 20
    model_dir: Annotated[
        str,
        about(
            "Directory of a MiniLM model (config.json, model.safetensors, tokenizer.json) that search compares "
            "meanings with, beside words; needs holdfast[embeddings].",
            path=True,
            guarded=True,
        ),
    ] = ""
    change_test: Annotated[
        Literal["entries", "sampled"],
        about(
            "What counts as changed: the set of entries, or a sampled comparison of texts.",
            seed_value="sampled",
        ),
    ] = "entries"
    context_floor: Annotated[
        float,
        share("Share of the whole memory budget that context memory always gets.", seed="context budget floor 50%"),
    ] = 0.5
    stable_budget: Annotated[float, share("Share of the usable window for preferences.", seed="stable budget")] = 0.02
    context_budget: Annotated[float, share("Share of the usable window for context memory.", seed="context budget")] = (
        0.05
    )
