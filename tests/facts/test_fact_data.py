"""The data itself: every figure of the cache rules, written out once more."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from holdfast import facts
from holdfast.facts import ModelFacts, Ttl

FLOORS = {
    512: "haiku-5-5 sonnet-5-5 opus-5-5 opus-5 fable-5 fable-5-1 mythos-5 mythos-5-1",
    1024: "opus-4-8 sonnet-5 sonnet-4-6 sonnet-4-5 opus-4-1 opus-4 sonnet-4",
    2048: "opus-4-7 haiku-3-5",
    4096: "opus-4-6 opus-4-5 haiku-4-5",
}
CLAUDES = [name for names in FLOORS.values() for name in names.split()]


@pytest.mark.parametrize(("name", "floor"), [(n, floor) for floor, ns in FLOORS.items() for n in ns.split()])
def test_minimum_cacheable_prefix_of_anthropic_models(name: str, floor: int) -> None:
    found = facts.model(f"anthropic:claude-{name}")
    assert found.known
    assert found.floor == floor


def test_the_anthropic_table_has_no_other_models() -> None:
    listed = {model.name for model in facts.default().models("anthropic")}
    assert listed == {f"claude-{name}" for name in CLAUDES}


@pytest.mark.parametrize("name", ["claude-opus-4-9", "claude-opus-6", "claude-3-7-sonnet-20250219", "claude-2"])
def test_a_floor_is_never_inferred_from_a_name(name: str) -> None:
    found = facts.model(name)
    assert not found.known
    assert found.floor == 4096


READS = dict.fromkeys(CLAUDES, "0.1") | {
    "opus-5-5": "0.05",
    "sonnet-5-5": "0.05",
    "fable-5-1": "0.025",
    "mythos-5-1": "0.025",
}


@pytest.mark.parametrize(("name", "read"), READS.items())
def test_anthropic_multipliers(name: str, read: str) -> None:
    found = facts.model(f"anthropic:claude-{name}")
    assert found.read == Decimal(read)
    assert found.writes == (("5m", Decimal("1.25")), ("1h", Decimal(2)))
    assert found.write() == found.write("5m") == found.write("unsplit") == Decimal("1.25")


@pytest.mark.parametrize("name", CLAUDES)
def test_anthropic_rules_shared_by_all_models(name: str) -> None:
    found = facts.model(f"anthropic:claude-{name}")
    assert found.ttls == (Ttl("5m", 300), Ttl("1h", 3600))
    assert found.default_ttl == "5m"
    assert (found.ttl_seconds("5m"), found.ttl_seconds("1h"), found.ttl_seconds("2h")) == (300, 3600, None)
    assert found.lookback == 20
    assert found.max_markers == 4
    assert found.granularity == 1
    assert found.caching == "explicit"
    assert found.marker == "cache_control"
    assert found.automatic_field
    assert found.prewarm
    assert found.diagnostics
    assert found.reports_writes
    assert not found.breakpoints
    assert not found.retention_field
    assert found.usage == "exclusive"
    assert found.as_of == date(2026, 11, 1)
    assert "documentation" in found.source


@pytest.mark.parametrize("name", CLAUDES)
def test_mid_conversation_system_messages(name: str) -> None:
    allowed = [
        "opus-4-8",
        "opus-5",
        "opus-5-5",
        "sonnet-5-5",
        "fable-5",
        "fable-5-1",
        "mythos-5",
        "mythos-5-1",
    ]
    assert facts.model(f"anthropic:claude-{name}").mid_system == (name in allowed)


@pytest.mark.parametrize("name", CLAUDES)
def test_late_tools_by_reference(name: str) -> None:
    """Only where the documentation names the model: it lists neither Sonnet 5, Sonnet 5.5 nor Haiku 5.5."""
    named = [
        "fable-5",
        "fable-5-1",
        "haiku-4-5",
        "mythos-5",
        "mythos-5-1",
        "opus-4-5",
        "opus-4-6",
        "opus-4-7",
        "opus-4-8",
        "opus-5",
        "opus-5-5",
        "sonnet-4-5",
        "sonnet-4-6",
    ]
    expected = "references" if name in named else None
    assert facts.model(f"anthropic:claude-{name}").late_tools == expected
    assert facts.model(f"openrouter:anthropic/claude-{name}").late_tools is None
    assert facts.model(f"bedrock:anthropic.claude-{name}").late_tools is None


def test_late_tools_elsewhere() -> None:
    for found in facts.default().models("openai"):
        assert found.late_tools == ("additional" if found.breakpoints else None)
    assert "late tools" in facts.model("openai:gpt-5.6").source
    for name in ("openai:gpt-9-unheard-of", "openrouter:openai/gpt-5.6", "gemini:gemini-3-pro", "vllm:any"):
        assert facts.model(name).late_tools is None


@pytest.mark.parametrize("name", CLAUDES)
def test_older_models_strip_thinking(name: str) -> None:
    stripping = ["haiku-3-5", "haiku-4-5", "opus-4", "opus-4-1", "sonnet-4", "sonnet-4-5"]
    assert facts.model(f"anthropic:claude-{name}").strips_thinking == (name in stripping)


def test_haiku_5_5_price_cliff_is_noted() -> None:
    cliff = facts.model("claude-haiku-5-5").cliff
    assert (cliff.above, cliff.factor) == (100_000, 5)


KNOBS = [
    ("anthropic:claude-opus-5-5", "ttl_raise", "no"),
    ("anthropic:claude-opus-5-5", "refresh_whole_prefix", True),
    ("anthropic:claude-opus-5-5", "upgrade_5m_by_1h", False),
    ("anthropic:claude-opus-5-5", "collapse_tool_runs", True),
    ("anthropic:claude-opus-5-5", "effort_invalidates", "messages"),
    ("anthropic:claude-opus-5-5", "implicit_hit_probability", None),
    ("bedrock:anthropic.claude-opus-5-5", "collapse_tool_runs", False),
    ("bedrock:anthropic.claude-opus-5-5", "ttl_raise", "no"),
    ("openai:gpt-6.1-sol", "lookup_latest", 50),
    ("openai:gpt-6.1-sol", "ttl_raise", None),
    ("openai:gpt-5.5", "route_tokens", 256),
    ("gemini:gemini-2.5-pro", "implicit_seconds", 300),
    ("deepseek:deepseek-chat", "unit_interval", 4_096),
    ("gemini:gemini-2.5-pro", "implicit_hit_probability", 0.6),
    ("openrouter:anthropic/claude-opus-5.5", "ttl_raise", "no"),
]


@pytest.mark.parametrize(("model", "knob", "value"), KNOBS)
def test_knob_defaults(model: str, knob: str, value: object) -> None:
    assert getattr(facts.model(model).knobs, knob) == value


BREAKPOINTS = [
    "gpt-5.6",
    "gpt-5.6-sol",
    "gpt-5.6-terra",
    "gpt-5.6-luna",
    "gpt-6-sol",
    "gpt-6-astra",
    "gpt-6.1-sol",
    "gpt-6.1-terra",
]
RETENTION = [
    "gpt-5.5",
    "gpt-5.4",
    "gpt-5.3-codex",
    "gpt-5.2",
    "gpt-5.1-codex",
    "gpt-5",
    "gpt-5-mini",
    "gpt-4.1",
    "gpt-4o",
    "o3",
    "o4-mini",
]


@pytest.mark.parametrize("name", BREAKPOINTS)
def test_openai_from_5_6_on(name: str) -> None:
    found = facts.model(f"openai:{name}")
    assert found.breakpoints
    assert not found.retention_field
    assert found.marker == "prompt_cache_breakpoint"
    assert found.floor == 1024
    assert found.granularity == 1
    assert found.ttls == (Ttl("30m", 1800),)
    assert found.default_ttl == "30m"
    assert found.writes == (("30m", Decimal("1.25")),)
    assert found.read == Decimal("0.05" if name in ("gpt-6.1-sol", "gpt-6.1-terra") else "0.1")
    assert found.caching == "mixed"
    assert found.max_markers == 4
    assert found.limits.explicit_markers == 4
    assert found.limits.implicit_extra_markers == 3
    assert found.limits.lookup_first == 2
    assert found.limits.lookup_endings == 20
    assert found.limits.cache_key_chars == 64
    assert found.diagnostics
    assert found.usage == "inclusive"


@pytest.mark.parametrize("name", RETENTION)
def test_openai_before_5_6(name: str) -> None:
    found = facts.model(f"openai:{name}")
    assert found.retention_field
    assert not found.breakpoints
    assert found.marker is None
    assert found.floor == 1024
    assert found.granularity == 128
    assert found.ttls == (Ttl("in_memory", 300), Ttl("24h", 86_400))
    assert found.default_ttl == "in_memory"
    assert {share for _, share in found.writes} == {Decimal(1)}
    assert found.caching == "automatic"
    assert found.max_markers == 0
    assert found.limits.in_memory_max_seconds == 600
    assert found.limits.requests_per_minute == 15
    assert found.limits.explicit_markers is None
    assert found.usage == "inclusive"


def test_an_unknown_openai_model_gets_neither_generations_fields() -> None:
    found = facts.model("openai:gpt-9-nova")
    assert (found.known, found.breakpoints, found.retention_field) == (False, False, False)
    assert found.marker is None


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("gemini-2.5-pro", 2048),
        ("gemini-2.5-flash", 2048),
        ("gemini-3-pro-preview", 4096),
        ("gemini-3.1-pro-preview", 4096),
        ("gemini-3.5-flash", 4096),
        ("gemini-3.9-flash", 4096),
    ],
)
def test_gemini(name: str, floor: int) -> None:
    found = facts.model(f"gemini:{name}")
    assert found.known
    assert found.floor == floor
    assert found.caching == "mixed"
    assert found.marker == "cachedContent"
    assert found.ttls == (Ttl("1h", 3600),)
    assert found.read == Decimal("0.1")
    assert found.write() == Decimal(1)
    assert found.usage == "inclusive"


def test_gemini_before_2_5_has_no_implicit_caching() -> None:
    assert facts.model("gemini-2.0-flash").caching == "explicit"


def test_a_floor_no_source_states_is_marked() -> None:
    found = facts.model("gemini-4-argon")
    assert found.floor == 4096
    assert "floor" in found.conservative


def test_deepseek() -> None:
    found = facts.model("deepseek-v4-pro")
    assert (found.provider, found.caching, found.usage) == ("deepseek", "automatic", "inclusive")
    assert found.ttls == ()
    assert found.default_ttl is None
    assert found.write() == Decimal(1)


def test_bedrock() -> None:
    found = facts.model("bedrock:us.anthropic.claude-haiku-4-5-20251001-v1:0")
    assert found.known
    assert found.ref == "bedrock:anthropic.claude-haiku-4-5"
    assert (found.floor, found.marker, found.usage) == (4096, "cachePoint", "exclusive")
    assert [ttl.name for ttl in found.ttls] == ["5m", "1h"]
    assert not found.diagnostics
    assert not found.mid_system


@pytest.mark.parametrize(("provider", "floor", "granularity"), [("vllm", 16, 16), ("llama", 1, 1), ("sglang", 1, 1)])
def test_self_hosted_servers_have_the_same_rules_for_every_model(provider: str, floor: int, granularity: int) -> None:
    found = facts.model(f"{provider}:meta/Some-Model-8B")
    assert found.known
    assert (found.floor, found.granularity, found.caching) == (floor, granularity, "automatic")
    assert found.usage == "inclusive"
    assert not found.reports_writes
    assert found.usage_note
    assert "context_limit" in found.conservative


def test_vllm_counts_in_blocks_and_leaves_the_last_token() -> None:
    limits = facts.model("vllm:x").limits
    assert (limits.block_tokens, limits.block_tokens_cpu, limits.unread_tail_tokens) == (16, 32, 1)
    assert limits.reserved_blocks == 1


def test_llama_cpp_chooses_slots_by_shares() -> None:
    limits = facts.model("llama:x").limits
    shares = limits.slot_similarity, limits.slot_keep, limits.host_keep
    assert shares == (Decimal("0.1"), Decimal("0.5"), Decimal("0.25"))
    assert limits.unread_tail_tokens == 1


OPENROUTER = [
    # route, floor, marker, TTLs
    ("anthropic/claude-sonnet-4.5", 1024, "cache_control", ["5m", "1h"]),
    ("anthropic/claude-opus-5-5", 512, "cache_control", ["5m", "1h"]),
    ("openai/gpt-6.1-sol", 1024, "cache_control", ["30m"]),
    ("openai/gpt-5.5", 1024, None, ["in_memory", "24h"]),
    ("google/gemini-3.5-flash", 4096, "cache_control", ["5m"]),
    ("deepseek/deepseek-chat", 1024, None, []),
]


@pytest.mark.parametrize(("name", "floor", "marker", "ttls"), OPENROUTER)
def test_openrouter_has_the_model_behind_it_under_its_own_rules(
    name: str, floor: int, marker: str | None, ttls: list[str]
) -> None:
    found = facts.model(f"openrouter:{name}")
    assert found.known
    assert (found.provider, found.usage) == ("openrouter", "inclusive")
    assert (found.floor, found.marker) == (floor, marker)
    assert [ttl.name for ttl in found.ttls] == ttls
    assert found.limits.sticky_seconds == 600
    assert not found.breakpoints
    assert not found.retention_field
    assert not found.diagnostics


def test_openrouter_passes_markers_to_qwen_and_nothing_else_is_known_of_it() -> None:
    found = facts.model("openrouter:qwen/qwen3-max")
    assert (found.known, found.marker, found.floor) == (False, "cache_control", 4096)
    assert "ttls" in found.conservative


def test_openrouter_knows_nothing_of_other_vendors() -> None:
    found = facts.model("openrouter:mistralai/mistral-large")
    assert (found.known, found.caching, found.marker, found.floor) == (False, "none", None, 4096)


def every_model() -> list[ModelFacts]:
    return list(facts.default().models())


@pytest.mark.parametrize("found", every_model(), ids=lambda model: model.ref)
def test_every_row_is_dated_sourced_and_consistent(found: ModelFacts) -> None:
    assert found.as_of <= date(2026, 12, 31)
    assert found.source
    assert found.floor >= 1
    assert Decimal(0) <= found.read <= Decimal(1)
    assert {ttl for ttl, _ in found.writes} <= {ttl.name for ttl in found.ttls}
    assert found.default_ttl in ({ttl.name for ttl in found.ttls} or {None})
    assert 0 < found.output_limit <= found.context_limit
    assert not (found.breakpoints and found.retention_field)
    assert found.capabilities.supports_prompt_caching == (found.caching != "none")
    assert found.capabilities.context_limit == found.context_limit
    assert set(found.conservative) <= set(ModelFacts.__struct_fields__)


CONTEXTS = [
    ("claude-opus-5-5", 1_000_000, 128_000),
    ("claude-haiku-4-5", 200_000, 64_000),
    ("gpt-6.1-sol", 1_050_000, 128_000),
    ("gpt-5", 400_000, 128_000),
    ("gemini-2.5-pro", 1_048_576, 65_536),
]


@pytest.mark.parametrize(("name", "context", "output"), CONTEXTS)
def test_limits(name: str, context: int, output: int) -> None:
    found = facts.model(name)
    assert (found.context_limit, found.output_limit) == (context, output)


def test_flags() -> None:
    assert facts.model("claude-haiku-3-5").capabilities.thinking is False
    assert facts.model("claude-opus-5-5").capabilities.thinking is True
    assert facts.model("o3-mini").flags.images is False
    unknown = facts.model("anthropic:claude-next").flags
    assert (unknown.tools, unknown.system, unknown.streaming) == (True, True, True)
    assert (unknown.thinking, unknown.images, unknown.structured_output) == (False, False, False)
