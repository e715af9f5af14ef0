"""The simulator in process: what each API reads and writes, on a clock that moves when it is told to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.caches.noise import Noise
from holdfast.errors import HoldfastError
from holdfast.simulator import HttpRequest, Simulator, VirtualClock, load_script
from holdfast.simulator.faults import Fault, Options

LONG = "The quick brown fox jumps over the lazy dog. " * 700  # some 7,000 tokens
MARK = {"type": "ephemeral"}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def simulator(clock: VirtualClock) -> Simulator:
    return Simulator(clock=clock)


def call(path: str, body: Any, *, key: str = "k", **headers: str) -> HttpRequest:
    named = {"x-api-key": key, "anthropic-version": "2023-06-01", "authorization": f"Bearer {key}"}
    named |= {"x-goog-api-key": key, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpRequest("POST", path, named, {}, json.dumps(body).encode())


def claude(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    system = [{"type": "text", "text": LONG, "cache_control": MARK}]
    return {"model": "claude-opus-4-6", "max_tokens": 50, "system": system, "messages": messages, **more}


def said(*texts: str, marked: bool = True) -> list[dict[str, Any]]:
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    if marked:
        messages[-1]["content"] = [{"type": "text", "text": texts[-1], "cache_control": MARK}]
    return messages


def post(simulator: Simulator, path: str, body: Any, **more: str) -> dict[str, Any]:
    answer = simulator.answer(call(path, body, **more))
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


class TestEveryApiReadsWhatItWrote:
    def test_anthropic(self, simulator, clock):
        first = post(simulator, "/v1/messages", claude(said("hi")))["usage"]
        clock.advance(60)
        second = post(simulator, "/v1/messages", claude(said("hi", "hi", "more")))["usage"]
        assert first["cache_read_input_tokens"] == 0
        assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"] > 6_000
        assert second["cache_creation_input_tokens"] > 0

    @pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol", "deepseek-chat", "llama:any", "vllm:any"])
    def test_chat(self, simulator, clock, model):
        messages = [{"role": "system", "content": LONG}, *said("hi", marked=False)]
        first = post(simulator, "/v1/chat/completions", {"model": model, "messages": messages})["usage"]
        clock.advance(60)
        more = [*messages, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "and?"}]
        second = post(simulator, "/v1/chat/completions", {"model": model, "messages": more})["usage"]
        assert first["prompt_tokens_details"]["cached_tokens"] == 0
        assert (
            0.95 * first["prompt_tokens"] < second["prompt_tokens_details"]["cached_tokens"] < second["prompt_tokens"]
        )

    def test_responses(self, simulator, clock):
        asked = {"model": "gpt-6.1-sol", "instructions": LONG, "input": "hi"}
        first = post(simulator, "/v1/responses", asked)["usage"]
        clock.advance(60)
        again = post(simulator, "/v1/responses", asked)["usage"]
        assert again["input_tokens_details"]["cached_tokens"] == first["input_tokens"]

    def test_gemini_hits_by_chance_and_the_same_seed_hits_the_same(self, clock):
        def run(seed: int) -> list[int]:
            simulator = Simulator(clock=VirtualClock(), seed=seed)
            asked = {"contents": [{"role": "user", "parts": [{"text": LONG}]}]}
            path = "/v1beta/models/gemini-2.5-pro:generateContent"
            answers = [post(simulator, path, asked)["usageMetadata"] for _ in range(40)]
            return [answer.get("cachedContentTokenCount", 0) for answer in answers]

        hits = run(1)
        assert run(1) == hits
        assert run(2) != hits
        assert 10 < sum(1 for hit in hits if hit) < 39

    def test_a_model_without_a_cache_says_so(self, simulator):
        body = {"model": "gpt-5.5-pro", "messages": [{"role": "system", "content": LONG}, *said("x", marked=False)]}
        for _ in range(2):
            usage = post(simulator, "/v1/chat/completions", body)["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert "no prompt cache" in simulator.requests()[-1]["why"][0]


class TestTime:
    def test_an_entry_expires_with_the_clock(self, simulator, clock):
        post(simulator, "/v1/messages", claude(said("hi")))
        clock.advance(301)
        assert simulator.entries() == []
        assert post(simulator, "/v1/messages", claude(said("hi")))["usage"]["cache_read_input_tokens"] == 0
        assert any("expired 1 s ago" in line for line in simulator.requests()[-1]["why"])

    def test_what_is_written_can_be_read_after_the_first_token(self, simulator):
        one, two = (simulator.begin(call("/v1/messages", claude(said("hi")))) for _ in range(2))
        assert two.record.usage.read == 0
        one.first_token()
        assert simulator.begin(call("/v1/messages", claude(said("hi")))).record.usage.read > 6_000

    def test_a_request_that_is_left_before_its_first_token_writes_nothing(self, simulator):
        exchange = simulator.begin(call("/v1/messages", claude(said("hi"))))
        exchange.abandon()
        exchange.finish()
        assert simulator.journal.prompt == 0
        assert simulator.begin(call("/v1/messages", claude(said("hi")))).record.usage.read == 0
        left = simulator.requests()[0]
        assert (left["state"], left["usage"]) == ("abandoned", None)
        assert left["why"] == ("the client left before the first token: nothing is billed or kept",)

    def test_one_that_is_left_later_has_written(self, simulator):
        exchange = simulator.begin(call("/v1/messages", claude(said("hi"))))
        exchange.first_token()
        exchange.abandon()
        assert simulator.begin(call("/v1/messages", claude(said("hi")))).record.usage.read > 6_000

    def test_the_clock_only_goes_forward(self, clock):
        with pytest.raises(HoldfastError, match="only goes forward"):
            clock.advance(-1)
        assert clock.set(clock.now() + 5) == clock.now()


class TestWhatOpenAIsFieldsAsk:
    def cached(self, simulator: Simulator, body: dict[str, Any]) -> int:
        return post(simulator, "/v1/chat/completions", body)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def body(self, model: str, *, marked: bool = False, **more: Any) -> dict[str, Any]:
        part = {"type": "text", "text": LONG} | ({"prompt_cache_breakpoint": {"mode": "explicit"}} if marked else {})
        return {"model": model, "messages": [{"role": "system", "content": [part]}, *said("hi", marked=False)], **more}

    @pytest.mark.parametrize(("retention", "hit"), [({}, False), ({"prompt_cache_retention": "24h"}, True)])
    def test_retention_keeps_a_prefix_for_a_day(self, simulator, clock, retention, hit):
        self.cached(simulator, self.body("gpt-5.5", **retention))
        clock.advance(23 * 3600)
        assert bool(self.cached(simulator, self.body("gpt-5.5", **retention))) is hit

    @pytest.mark.parametrize(("marked", "hit"), [(False, False), (True, True)])
    def test_explicit_mode_caches_at_breakpoints_only(self, simulator, marked, hit):
        asked = self.body("gpt-6.1-sol", marked=marked, prompt_cache_options={"mode": "explicit"})
        self.cached(simulator, asked)
        assert bool(self.cached(simulator, asked)) is hit

    @pytest.mark.parametrize("model", ["gpt-5.5", "gpt-6.1-sol"])
    def test_a_cache_key_separates(self, simulator, model):
        self.cached(simulator, self.body(model, prompt_cache_key="a"))
        assert self.cached(simulator, self.body(model, prompt_cache_key="b")) == 0
        assert self.cached(simulator, self.body(model, prompt_cache_key="a")) > 0

    @pytest.mark.parametrize(
        "change",
        [
            {"reasoning_effort": "high"},
            {"service_tier": "flex"},
            {"parallel_tool_calls": False},
            {"response_format": {"type": "json_object"}},
            {"verbosity": "low"},
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_from_5_6_on_a_changed_setting_or_tool_loses_even_a_marked_system_text(self, simulator, change):
        self.cached(simulator, self.body("gpt-6.1-sol", marked=True))
        assert self.cached(simulator, self.body("gpt-6.1-sol", marked=True, **change)) == 0
        assert self.cached(simulator, self.body("gpt-6.1-sol", marked=True, temperature=1, user="u")) > 0


class TestDelays:
    def test_a_whole_answer_waits_for_its_last_token(self, clock, tmp_path):
        script = tmp_path / "script.yaml"
        script.write_text("delay: {first_token: 1, per_token: 0.5}\nrules:\n  - say: one two three four\n")
        simulator = Simulator(clock=clock, script=load_script(script))
        whole = simulator.begin(call("/v1/messages", claude(said("hi"))))
        streamed = simulator.begin(call("/v1/messages", claude(said("hi"), stream=True)))
        tokens = whole.record.usage.output
        assert (whole.first_token_delay, whole.chunk_delay) == (1 + 0.5 * tokens, 0)
        assert streamed.first_token_delay == 1
        assert streamed.chunk_delay * len(streamed.answer.chunks) == pytest.approx(0.5 * tokens)


class TestWhoSharesEntries:
    def test_another_key_is_another_workspace(self, simulator):
        post(simulator, "/v1/messages", claude(said("hi")))
        assert post(simulator, "/v1/messages", claude(said("hi")), key="b")["usage"]["cache_read_input_tokens"] == 0

    def test_keys_are_not_kept(self, simulator):
        post(simulator, "/v1/messages", claude(said("hi")), key="sk-very-secret")
        assert "sk-very-secret" not in json.dumps(simulator.requests())

    def test_another_model_is_another_cache(self, simulator):
        post(simulator, "/v1/messages", claude(said("hi")))
        other = claude(said("hi"), model="claude-opus-4-5")
        assert post(simulator, "/v1/messages", other)["usage"]["cache_read_input_tokens"] == 0

    def test_a_path_prefix_leads_to_the_same(self, simulator):
        post(simulator, "/v1/messages", claude(said("hi")))
        usage = post(simulator, "/anthropic/v1/messages", claude(said("hi")))["usage"]
        assert usage["cache_read_input_tokens"] > 6_000


class TestWhatPeopleSee:
    def test_requests_name_paths_not_numbers(self, simulator, clock):
        post(simulator, "/v1/messages", claude(said("hi")), x_claude_code_session_id="s1")
        clock.advance(5)
        post(simulator, "/v1/messages", claude(said("hi", "hi", "more")), x_claude_code_session_id="s1")
        record = simulator.requests(session="s1", limit=1)[0]
        assert record["why"][0].endswith(
            "the 5m entry at messages[0].content[0], written 5 s ago, reached from the marker at "
            "messages[2].content[0] (A4)"
        )
        assert record["usage"]["read"] > 6_000
        assert (record["model"], record["status"], record["state"]) == ("claude-opus-4-6", 200, "complete")

    def test_paths_are_right_where_deferred_tools_are_left_out(self, simulator):
        tools = [{"name": "late", "input_schema": {}, "defer_loading": True}, {"name": "now", "input_schema": {}}]
        for _ in range(2):
            post(simulator, "/v1/messages", claude(said("hi"), tools=tools))
        assert "entry at messages[0].content[0]" in simulator.requests()[-1]["why"][0]

    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"system": [{"type": "text", "text": "12:05. " + LONG, "cache_control": MARK}]}, "system[0]"),
            ({"tools": [{"name": "t", "input_schema": {}}]}, "tools[0]"),
            ({"tool_choice": {"type": "any"}}, "messages[0].content[0]"),
        ],
    )
    def test_a_miss_says_where_the_prompt_departed_from_the_one_before(self, simulator, change, place):
        post(simulator, "/v1/messages", claude(said("hi")))
        post(simulator, "/v1/messages", claude(said("hi"), **change))
        assert f"unlike the request before it from {place} on" in simulator.requests()[-1]["why"][-1]
        post(simulator, "/v1/messages", claude(said("hi", "hi", "more"), **change))
        assert "unlike" not in simulator.requests()[-1]["why"][-1]

    def test_a_model_nobody_knows_is_told(self, simulator):
        post(simulator, "/v1/messages", claude(said("hi"), model="claude-unheard-of"))
        assert simulator.requests()[-1]["why"][-1].startswith("nothing is known about this model; a floor of 4096")

    def test_entries_say_how_long_they_have_left(self, simulator, clock):
        post(simulator, "/v1/messages", claude(said("hi")))
        clock.advance(100)
        assert {(entry["model"], entry["ttl"], entry["expires_in"]) for entry in simulator.entries()} == {
            ("anthropic:claude-opus-4-6", "5m", 200.0)
        }

    def test_only_the_last_requests_are_kept(self, clock):
        simulator = Simulator(clock=clock, keep=3)
        for _ in range(5):
            simulator.answer(call("/v1/messages", claude(said("hi"))))
        assert [record["number"] for record in simulator.requests()] == [3, 4, 5]
        assert simulator.journal.count == 5

    def test_reset_forgets_entries(self, simulator):
        post(simulator, "/v1/messages", claude(said("hi")))
        simulator.reset()
        assert simulator.entries() == []
        assert post(simulator, "/v1/messages", claude(said("hi")))["usage"]["cache_read_input_tokens"] == 0


class TestStorage:
    def test_cached_contents_are_paid_by_the_token_and_hour(self, simulator, clock):
        made = post(
            simulator,
            "/v1beta/cachedContents",
            {
                "model": "models/gemini-2.5-pro",
                "ttl": "7200s",
                "contents": [{"role": "user", "parts": [{"text": LONG}]}],
            },
        )
        tokens = made["usageMetadata"]["totalTokenCount"]
        clock.advance(1_800)
        assert list(simulator.stored().values()) == [pytest.approx(tokens / 2)]
        clock.advance(100_000)
        assert list(simulator.stored().values()) == [pytest.approx(tokens * 2)]


class TestCounting:
    def test_tokens_are_counted_without_touching_the_cache(self, simulator):
        counted = post(simulator, "/v1/messages/count_tokens", claude(said("hi")))
        assert simulator.entries() == []
        usage = post(simulator, "/v1/messages", claude(said("hi")))["usage"]
        assert counted["input_tokens"] == usage["input_tokens"] + usage["cache_creation_input_tokens"]

    def test_gemini_counts_too(self, simulator):
        asked = {"contents": [{"role": "user", "parts": [{"text": LONG}]}]}
        counted = post(simulator, "/v1beta/models/gemini-2.5-pro:countTokens", asked)
        answered = post(simulator, "/v1beta/models/gemini-2.5-pro:generateContent", asked)
        assert counted["totalTokens"] == answered["usageMetadata"]["promptTokenCount"]


class TestPrewarm:
    def test_max_tokens_zero_writes_and_says_nothing(self, simulator):
        warmed = post(simulator, "/v1/messages", claude(said("hi"), max_tokens=0))
        assert warmed["content"] == []
        assert warmed["usage"]["output_tokens"] == 0
        assert post(simulator, "/v1/messages", claude(said("hi")))["usage"]["cache_read_input_tokens"] > 6_000


class TestDiagnostics:
    def ask(self, simulator: Simulator, previous: str | None, **more: Any) -> dict[str, Any]:
        asked = claude(said(*more.pop("texts", ("hi",))), diagnostics={"previous_message_id": previous}, **more)
        return post(simulator, "/v1/messages", asked)

    def test_the_first_turn_opts_in(self, simulator):
        assert self.ask(simulator, None)["diagnostics"] is None

    def test_an_extension_has_none(self, simulator):
        first = self.ask(simulator, None)["id"]
        assert self.ask(simulator, first, texts=("hi", "hi", "more"))["diagnostics"] is None

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"system": "other"}, "system_changed"),
            ({"tools": [{"name": "t", "input_schema": {}}]}, "tools_changed"),
            ({"texts": ("other",)}, "messages_changed"),
            ({"model": "claude-opus-4-5"}, "model_changed"),
            ({"speed": "fast"}, "model_changed"),
            ({"tool_choice": {"type": "auto"}}, "unavailable"),
        ],
    )
    def test_it_names_the_section(self, simulator, change, reason):
        first = self.ask(simulator, None)["id"]
        found = self.ask(simulator, first, **change)["diagnostics"]["cache_miss_reason"]
        assert found["type"] == reason
        assert ("cache_missed_input_tokens" in found) == reason.endswith("_changed")

    def test_nobody_knows_the_other(self, simulator):
        found = self.ask(simulator, "msg_never")["diagnostics"]["cache_miss_reason"]
        assert found == {"type": "previous_message_not_found"}

    def test_requests_that_do_not_opt_in_leave_no_fingerprint(self, simulator):
        plain = post(simulator, "/v1/messages", claude(said("hi")))
        assert "diagnostics" not in plain
        found = self.ask(simulator, plain["id"])["diagnostics"]["cache_miss_reason"]
        assert found == {"type": "previous_message_not_found"}

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"instructions": "other"}, "input_changed"),
            ({"model": "gpt-6-sol"}, "model_changed"),
            ({"prompt_cache_key": "x"}, "prompt_cache_key_changed"),
            ({"reasoning": {"effort": "high"}}, "reasoning_effort_changed"),
            ({"service_tier": "flex"}, "service_tier_changed"),
            ({"tools": [{"type": "function", "name": "t", "parameters": {}}]}, "tools_changed"),
        ],
    )
    def test_openai_names_the_field(self, simulator, change, reason):
        asked = {"model": "gpt-6.1-sol", "instructions": LONG, "input": "hi"}
        first = post(simulator, "/v1/responses", asked)["id"]
        compare = {"prompt_cache_options": {"comparison_response_id": first}}
        assert post(simulator, "/v1/responses", asked | compare)["prompt_cache_diagnostics"] == {"type": "cache_hit"}
        found = post(simulator, "/v1/responses", asked | compare | change)["prompt_cache_diagnostics"]
        assert (found["type"], found["reason"]) == ("cache_miss", reason)

    def test_openai_does_not_find_the_other(self, simulator):
        asked = {"model": "gpt-6.1-sol", "input": "hi", "prompt_cache_options": {"comparison_response_id": "resp_x"}}
        found = post(simulator, "/v1/responses", asked)["prompt_cache_diagnostics"]
        assert found == {"type": "comparison_response_not_found"}


class TestContinuedResponses:
    def test_an_earlier_response_stands_for_what_was_said(self, simulator):
        first = post(simulator, "/v1/responses", {"model": "gpt-6.1-sol", "instructions": LONG, "input": "hi"})
        more = {"model": "gpt-6.1-sol", "instructions": LONG, "input": "and?", "previous_response_id": first["id"]}
        second = post(simulator, "/v1/responses", more)
        assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
        assert second["usage"]["input_tokens_details"]["cached_tokens"] == first["usage"]["input_tokens"]
        third = {**more, "input": [{"role": "user", "content": "so?"}], "previous_response_id": second["id"]}
        assert post(simulator, "/v1/responses", third)["usage"]["input_tokens"] > second["usage"]["input_tokens"]

    @pytest.mark.parametrize("store", [None, False])
    def test_one_that_nobody_keeps_is_refused(self, simulator, store):
        first = post(simulator, "/v1/responses", {"model": "gpt-6.1-sol", "input": "hi", "store": store})
        identity = first["id"] if store is False else "resp_never"
        answer = simulator.answer(
            call("/v1/responses", {"model": "gpt-6.1-sol", "input": "x", "previous_response_id": identity})
        )
        assert answer.status == 400
        assert f"'{identity}' not found" in json.loads(answer.body)["error"]["message"]


class TestWhatGoesWrong:
    def test_a_refused_request_touches_nothing(self, simulator):
        answer = simulator.answer(call("/v1/messages", {"model": "claude-opus-4-6", "messages": []}))
        assert answer.status == 400
        assert simulator.entries() == []
        assert simulator.requests()[0]["state"] == "refused"

    def test_a_status_fault_touches_nothing(self, simulator):
        simulator.faults.add(Fault("status", options=Options(status=529)))
        assert simulator.answer(call("/v1/messages", claude(said("hi")))).status == 529
        assert simulator.entries() == []
        assert simulator.requests()[0]["fault"] == "status 529"
        post(simulator, "/v1/messages", claude(said("hi")))

    def test_wrong_usage_is_told_to_the_client_and_not_to_the_journal(self, simulator):
        simulator.faults.add(Fault("wrong_usage", options=Options(set={"read": 5})))
        told = post(simulator, "/v1/messages", claude(said("hi")))["usage"]
        assert told["cache_read_input_tokens"] == 5
        assert simulator.requests()[0]["usage"]["read"] == 0

    def test_a_script_that_calls_an_unknown_tool_says_where(self, clock, tmp_path):
        script = tmp_path / "script.yaml"
        script.write_text("rules:\n  - call: {tool: missing, input: {}}\n")
        simulator = Simulator(clock=clock, script=load_script(script))
        tools = [{"name": "other", "input_schema": {"type": "object"}}]
        answer = simulator.answer(call("/v1/messages", claude(said("hi"), tools=tools)))
        assert answer.status == 500
        assert ("x-should-retry", "false") in answer.headers
        message = json.loads(answer.body)["error"]["message"]
        assert "script.yaml:2:" in message
        assert "'missing'" in message

    def test_an_unknown_path_is_not_found(self, simulator):
        assert simulator.answer(call("/v1/nothing", {})).status == 404

    @pytest.mark.parametrize(
        "field", [{"prompt_cache_retention": "24h"}, {"prompt_cache_options": {"mode": "explicit"}}]
    )
    def test_another_providers_caching_fields_name_no_cached_content(self, simulator, field):
        asked = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **field}
        assert post(simulator, "/v1beta/models/gemini-2.5-pro:generateContent", asked)["usageMetadata"]

    def test_a_body_that_is_no_json(self, simulator):
        headers = dict(call("/", {}).headers)
        assert simulator.answer(HttpRequest("POST", "/v1/messages", headers, {}, b"{")).status == 400


class TestBilling:
    """`bill` is for those who know the answer: the same usage, no reply."""

    def test_it_reads_and_writes_like_an_answered_request(self, clock):
        answered, billed = Simulator(clock=clock), Simulator(clock=clock)
        for texts in (("hi",), ("hi", "hi", "more"), ("hi", "hi", "more", "more", "x")):
            asked = call("/v1/messages", claude(said(*texts)))
            answered.answer(asked)
            exchange = billed.bill(asked, output=7)
            exchange.first_token()
            exchange.finish()
            clock.advance(30)
        pairs = zip(answered.requests(), billed.requests(), strict=True)
        assert all({**a["usage"], "output": 7} == b["usage"] and a["why"] == b["why"] for a, b in pairs)

    @pytest.mark.parametrize(("path", "body"), [("/v1/models", b"{}"), ("/v1/messages", b"{")])
    def test_what_cannot_be_billed_is_an_error(self, simulator, path, body):
        with pytest.raises(HoldfastError, match="billed"):
            simulator.bill(HttpRequest("POST", path, {}, {}, body))


class TestNoise:
    def run(self, noise: Noise | None) -> list[int]:
        clock = VirtualClock()
        simulator = Simulator(clock=clock, noise=noise)
        for _ in range(30):
            simulator.answer(call("/v1/messages", claude(said("hi"))))
            clock.advance(10)
        return [record["usage"]["read"] for record in simulator.requests()]

    def test_the_same_seed_gives_the_same_misses(self):
        noisy = self.run(Noise(seed=3, eviction=0.3))
        assert noisy == self.run(Noise(seed=3, eviction=0.3))
        assert noisy.count(0) > self.run(None).count(0)

    def test_none_is_none(self):
        assert self.run(Noise()) == self.run(None)
