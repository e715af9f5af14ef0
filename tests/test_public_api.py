"""What programs import: it is there, as typed and as described on its page, whatever else was imported before."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import anthropic
import httpx
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

import holdfast
from holdfast import Call, Engine, HoldfastError, Lane, LoggedRequest, Message, Usage, explain, message_of, replay
from holdfast.config import Settings
from holdfast.config.sections import GatewaySettings, LimitSettings
from holdfast.records import Text
from holdfast.simulator import Simulator, running

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
NAMES = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
NAMED_PACKAGES = {"holdfast", "holdfast.facts", "holdfast.simulator", "holdfast.pytest_plugin"}
STUBS = re.findall(r"```pyi\n(.*?)```", PAGE, re.DOTALL)
COUNTS = {"Count": "int", "tuple[tuple[str, Count], ...]": "tuple[tuple[str, int], ...]"}
"""Types of ours that the page shows by what they hold."""
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LANE = Lane(tenant="me", session="s1", id="s1/main")
BODY = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello. " * 2000}]}
SIGNATURES = {
    "Engine": "settings, *, store, bus, reports, strict, timeout, clock",
    "Engine.prepare": "self, body, *, dialect, lane, model, reset, skip, edits, now",
    "Engine.bypassed": "self, body, *, dialect, lane, model, now",
    "Engine.announce": "self, lane, reason, *, now",
    "Engine.fence": "self, lane, *, now",
    "Engine.end": "self, lane, *, now",
    "Engine.settings": "self, agent",
    "Engine.http_client": "self, *, library, **options",
    "Engine.async_http_client": "self, *, library, **options",
    "Engine.close": "self, *, now",
    "Lane": "*, tenant, session, id, client, agent, parent, subagent, observed, before",
    "Call.first_token": "self, usage, *, now",
    "Call.settle": "self, usage, *, now",
    "Call.abandon": "self, usage, *, output, error, now",
    "message_of": "answer, *, dialect",
    "Usage": "*, input, read, writes, output, cost, price_version",
    "explain": "*logs, since, until, session, model, tier, min_tokens",
    "replay": "*paths, strategies, models, limit, session, options",
    "load_config": "flags",
    "open_store": "url, *, busy_timeout, read_timeout, max_bytes",
}


class TestNames:
    def test_the_page_lists_them_all(self) -> None:
        assert sorted(NAMES) == holdfast.__all__
        assert 18 <= len(NAMES) <= 30

    def test_type_checkers_see_the_same(self) -> None:
        tree = ast.parse(Path(str(holdfast.__file__)).read_text(encoding="utf-8"))
        imported = {
            alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
        } - {None, "__version__"}
        assert imported == NAMES

    def test_each_loads_whatever_was_imported_before(self) -> None:
        """No submodule takes a name's place."""
        code = (
            "import importlib, json, pkgutil, types, holdfast\n"
            "for module in pkgutil.walk_packages(holdfast.__path__, 'holdfast.'):\n"
            "    if not module.name.endswith('__main__'):\n"
            "        importlib.import_module(module.name)\n"
            "modules = [n for n in holdfast.__all__ if isinstance(getattr(holdfast, n), types.ModuleType)]\n"
            "print(json.dumps(modules), callable(holdfast.replay), callable(holdfast.explain))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout == "[] True True\n", done.stderr

    def test_none_is_a_subpackages(self) -> None:
        packages = {path.stem for path in Path(str(holdfast.__file__)).parent.iterdir()}
        assert not packages & NAMES

    def test_they_load_lazily(self) -> None:
        code = "import sys, holdfast; print([n for n in sys.modules if n.startswith('holdfast.')])"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert ast.literal_eval(loaded) == ["holdfast.lazy_exports", "holdfast.version"]
        code = "import sys; from holdfast import Engine; print([n for n in sys.modules])"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        slow = ("httpx", "tiktoken", "aiohttp", "asyncio", "uvicorn", "starlette", "click", "holdfast.memory")
        assert [name for name in slow if name in ast.literal_eval(loaded)] == []

    @pytest.mark.parametrize(("name", "parameters"), list(SIGNATURES.items()))
    def test_signatures(self, name: str, parameters: str) -> None:
        value: Any = holdfast
        for part in name.split("."):
            value = getattr(value, part)
        assert list(_parameters(value)) == parameters.split(", ")

    def test_the_page_has_the_signature_of_each(self) -> None:
        shown = {node.name for block in STUBS for node in ast.parse(block).body if isinstance(node, DEFINITIONS)}
        assert shown == NAMES - {"HoldfastError"}

    @pytest.mark.parametrize("block", STUBS, ids=[re.findall(r"(?:class|def) (\w+)", block)[0] for block in STUBS])
    def test_the_signatures_of_the_page_are_those_of_the_code(self, block: str) -> None:
        for shown in ast.parse(block).body:
            assert isinstance(shown, DEFINITIONS)
            value = getattr(holdfast, shown.name)
            module = inspect.getmodule(inspect.unwrap(value))
            assert module
            if isinstance(shown, ast.ClassDef):
                _same_class(shown, _definition(module, shown.name), vars(module))
            else:
                _same_arguments(shown, _definition(module, shown.name), vars(module))

    def test_every_name_stands_in_an_example_of_the_page(self) -> None:
        imported = {
            alias.name
            for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
            for node in ast.walk(ast.parse(block))
            if isinstance(node, ast.ImportFrom) and node.module == "holdfast"
            for alias in node.names
        }
        assert imported - {"facts"} == NAMES

    def test_an_unknown_name(self) -> None:
        with pytest.raises(AttributeError, match="has no attribute 'Egnine'"):
            holdfast.Egnine  # noqa: B018


def _definition(module: ModuleType, name: str) -> Any:
    """Where the source defines a class or a function; of overloads the last."""
    tree = ast.parse(inspect.getsource(module))
    return [node for node in tree.body if isinstance(node, DEFINITIONS) and node.name == name][-1]


def _same_class(shown: ast.ClassDef, defined: ast.ClassDef, names: dict[str, Any]) -> None:
    """Its fields and methods are as they are defined; the page may leave some out."""
    fields = {ast.unparse(node.target): node for node in defined.body if isinstance(node, ast.AnnAssign)}
    methods = {node.name: node for node in defined.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in shown.body:
        if isinstance(node, ast.AnnAssign):
            field = fields[ast.unparse(node.target)]
            _same_type(node.annotation, field.annotation, names)
            _same_value(node.value, field.value, names)
        else:
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            _same_arguments(node, methods[node.name], names)


def _same_arguments(shown: Any, defined: Any, names: dict[str, Any]) -> None:
    for kind in ("posonlyargs", "args", "kwonlyargs"):
        ours, theirs = getattr(shown.args, kind), getattr(defined.args, kind)
        assert [argument.arg for argument in ours] == [argument.arg for argument in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            _same_type(mine.annotation, other.annotation, names)
    for kind in ("defaults", "kw_defaults"):
        for mine, other in zip(getattr(shown.args, kind), getattr(defined.args, kind), strict=True):
            _same_value(mine, other, names)
    for kind in ("vararg", "kwarg"):
        assert ast.dump(getattr(shown.args, kind) or ast.arg()) == ast.dump(getattr(defined.args, kind) or ast.arg())
    assert [ast.unparse(each) for each in shown.decorator_list] == [
        ast.unparse(each) for each in defined.decorator_list
    ]
    _same_type(shown.returns, defined.returns, names)


def _same_type(shown: ast.expr | None, defined: ast.expr | None, names: dict[str, Any]) -> None:
    """Written alike, or a name of ours written out."""
    mine, other = (ast.unparse(each) if each else "" for each in (shown, defined))
    if mine != other:
        value = eval(other, dict(names))
        expected = eval(mine, {"Literal": Literal, **names})
        assert value == expected or mine == COUNTS.get(other), f"{mine} is not {other}"


def _same_value(shown: ast.expr | None, defined: ast.expr | None, names: dict[str, Any]) -> None:
    """A default written alike, or what a constant of ours stands for."""
    mine, other = (ast.unparse(each) if each else "" for each in (shown, defined))
    assert mine == other or ast.literal_eval(mine) == eval(other, dict(names))


def _parameters(function: Any) -> Iterator[str]:
    keywords = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords = True
            yield f"*{name}"
        elif parameter.kind is parameter.VAR_KEYWORD:
            yield f"**{name}"
        else:
            if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
                keywords = True
                yield "*"
            yield name


def pages() -> Iterator[tuple[str, str]]:
    """Python of README, docs and examples."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if page.name != "architecture.md":
            yield page.name, "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    for example in sorted((ROOT / "examples").rglob("*.py")):
        yield example.name, example.read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "code"), list(pages()))
def test_pages_import_nothing_else(page: str, code: str) -> None:
    modules = re.findall(r"^ *(?:from|import) (holdfast[\w.]*)", code, re.MULTILINE)
    assert set(modules) <= NAMED_PACKAGES


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(clock=iter(range(1_700_000_000, 1_800_000_000)).__next__) as engine:
        yield engine


class TestCall:
    def test_the_sample_of_the_design(self, engine: Engine) -> None:
        call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        call.first_token()
        verdict = call.settle(Usage(writes=(("5m", 4_003),), output=9))
        assert isinstance(call, Call)
        assert json.loads(call.raw)["messages"][0]["content"] != BODY["messages"]  # it has a marker now
        assert call.body == json.loads(call.raw)
        assert call.plan.marks
        assert call.prediction.written > 4_000
        assert (call.verdict, verdict.explained) == (verdict, True)
        assert call.settle(Usage(output=1)) is verdict

    @pytest.mark.parametrize("body", [BODY, json.dumps(BODY), json.dumps(BODY).encode(), dict.fromkeys(BODY) | BODY])
    def test_every_form_of_a_body_is_the_same(self, engine: Engine, body: Any) -> None:
        assert engine.prepare(body, dialect="anthropic", lane=LANE).body == engine.prepare(
            BODY, dialect="anthropic", lane=LANE
        ).body  # fmt: skip

    def test_a_mapping_with_objects_of_an_sdk_is_a_body(self, engine: Engine) -> None:
        class Frozen(Mapping[str, object]):
            def __getitem__(self, name: str) -> object:
                return BODY[name]

            def __iter__(self) -> Iterator[str]:
                return iter(BODY)

            def __len__(self) -> int:
                return len(BODY)

        assert engine.prepare(Frozen(), dialect="anthropic", lane=LANE).body["model"] == BODY["model"]
        answered = anthropic.types.TextBlock(type="text", text="Hi.")
        body = BODY | {"messages": [*BODY["messages"], {"role": "assistant", "content": [answered]}]}  # type: ignore[misc]
        messages = engine.prepare(body, dialect="anthropic", lane=LANE).body["messages"]
        assert messages[1]["content"][0]["text"] == "Hi."  # type: ignore[index]

    def test_what_broke_off_is_booked(self, engine: Engine) -> None:
        cut = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        cut.first_token({"input_tokens": 0, "cache_creation_input_tokens": 4_003, "output_tokens": 1})
        booked = cut.abandon(output=120)
        assert booked.output >= 120
        never_sent = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        assert never_sent.abandon(error="refused") is None
        assert "ended" in repr(never_sent)

    def test_the_clients_own_body_goes(self, engine: Engine) -> None:
        engine.prepare(BODY, dialect="anthropic", lane=LANE).abandon()
        engine.bypassed(BODY, dialect="anthropic", lane=LANE)
        engine.announce(LANE, "compaction")
        assert engine.fence(LANE) == 0
        engine.end(LANE)
        assert engine.store is None

    def test_what_it_learned_outlives_the_program(self, tmp_path: Path) -> None:
        with holdfast.open_store(tmp_path / "h.db") as store:
            with Engine(store=store) as engine:
                engine.prepare(BODY, dialect="anthropic", lane=LANE).settle(Usage(writes=(("5m", 4_003),)))
            store.flush()
            with Engine(holdfast.load_config(), store=store) as engine:
                call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        assert call.prediction.read > 4_000


class TestWrongUse:
    @pytest.mark.parametrize(
        ("body", "given", "said"),
        [
            (5, {}, "got an int; give a request's body as a dict, bytes or text"),
            (None, {}, "got None; give a request's body"),
            (b"{nonsense", {}, "cannot read this body as anthropic"),
            ({"model": "m", "messages": object()}, {}, "cannot be written as JSON"),
            ({}, {}, "names no model; give one with model='…'"),
            (BODY, {"dialect": "antropic"}, "knows no dialect 'antropic'; did you mean anthropic?"),
            (BODY, {"dialect": "openai"}, "did you mean openai_chat or openai_responses?"),
            (BODY, {"dialect": 5}, "(dialect=…) got an int; give one of anthropic, "),
            (BODY, {"lane": "s1"}, "got a str; give a lane, such as Lane("),
            (BODY, {"model": 5}, "(model=…) got an int"),
            (BODY, {"reset": "because"}, "'because' is no reason for a reset"),
            (BODY, {"now": "noon"}, "now=… got a str; give seconds since 1970"),
        ],
    )
    def test_of_prepare(self, engine: Engine, body: Any, given: dict[str, Any], said: str) -> None:
        with pytest.raises(HoldfastError) as problem:
            engine.prepare(body, **({"dialect": "anthropic", "lane": LANE} | given))
        assert said in str(problem.value)

    @pytest.mark.parametrize("usage", [None, 5, {}, {"tokens": 5}, {"usage": 5}, Usage, "many", Message("user", ())])
    def test_of_settle(self, engine: Engine, usage: Any) -> None:
        call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        with pytest.raises(HoldfastError, match=r"give the usage of the answer, such as message\.usage"):
            call.settle(usage)
        assert call.verdict is None

    def test_of_abandon(self, engine: Engine) -> None:
        call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        with pytest.raises(HoldfastError, match="the number of tokens that had come"):
            call.abandon(output="many")  # type: ignore[arg-type]

    def test_a_call_of_another_engine(self, engine: Engine) -> None:
        call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        other = Engine().core
        for end in (other.abandon, other.first_token, partial(other.settle, usage=Usage())):
            with pytest.raises(HoldfastError, match="was prepared by another engine; end it with that one"):
                end(call.prepared, now=0)

    @pytest.mark.parametrize("method", ["http_client", "async_http_client"])
    def test_a_closed_engine(self, engine: Engine, method: str) -> None:
        call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
        engine.close()
        engine.close()
        assert call.settle(Usage(input=5)).usage.input == 5  # what is under way can end
        with pytest.raises(HoldfastError, match="prepare was called on an engine that is closed"):
            engine.prepare(BODY, dialect="anthropic", lane=LANE)
        with pytest.raises(HoldfastError, match=f"{method} was called on an engine that is closed"):
            getattr(engine, method)()

    @pytest.mark.parametrize("answer", [None, 5, {}, {"choices": 5}, "text", Usage()])
    def test_of_message_of(self, answer: Any) -> None:
        with pytest.raises(HoldfastError, match="give an answer of the anthropic, openai or google-genai SDK"):
            message_of(answer)
        with pytest.raises(HoldfastError, match="knows no dialect 'x'"):
            message_of({}, dialect="x")

    @pytest.mark.parametrize(
        ("logs", "given", "said"),
        [
            ((5,), {}, "explain got an int; give logs or directories of them"),
            (({"a": 1},), {}, "explain got a dict"),
            (([5],), {}, "explain got an int"),
            (("nowhere.jsonl",), {}, "nowhere.jsonl"),
            ((), {}, "No logs of known clients were found"),
            (([],), {"tier": "fast"}, "explain knows no tier 'fast'"),
            (([],), {"model": "gpt-nothing"}, "nothing is known of the model 'gpt-nothing'"),
            (([],), {"since": "today"}, "explain(since=…) got a str; give a datetime"),
        ],
    )
    def test_of_explain(
        self, logs: Any, given: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(HoldfastError) as problem:
            explain(*logs, **given)
        assert said in str(problem.value)

    @pytest.mark.parametrize(
        ("paths", "given", "said"),
        [
            ((5,), {}, "replay got an int"),
            ((), {"strategies": "economic"}, "replay(strategies=…) got a str; give a list of names"),
            ((), {"models": [5]}, "replay(models=…) got a list"),
            ((), {}, "No logs of known clients were found"),
        ],
    )
    def test_of_replay(
        self, paths: Any, given: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(HoldfastError) as problem:
            replay(*paths, **given)
        assert said in str(problem.value)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(Simulator()) as address:
        yield address


class TestSdks:
    """The official ones, over loopback HTTP."""

    def test_anthropic(self, engine: Engine, address: str) -> None:
        with anthropic.Anthropic(base_url=address, api_key="k", max_retries=0) as client:
            call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
            answer = client.messages.create(**call.body)  # type: ignore[call-overload]
        self._ended(call, answer, answer.usage)

    @pytest.mark.parametrize(
        ("dialect", "body"),
        [
            ("openai_chat", {"model": "gpt-5.6", "messages": BODY["messages"]}),
            ("openai_responses", {"model": "gpt-5.6", "input": BODY["messages"]}),
        ],
    )
    def test_openai(self, engine: Engine, address: str, dialect: str, body: dict[str, Any]) -> None:
        with openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client:
            call = engine.prepare(body, dialect=dialect, lane=LANE)
            create: Any = client.responses.create if "input" in body else client.chat.completions.create
            answer = create(**call.body)
        self._ended(call, answer, answer.usage)

    def test_google(self, engine: Engine, address: str) -> None:
        contents = [{"role": "user", "parts": [{"text": "Hello. " * 2000}]}]
        with genai.Client(api_key="k", http_options=types.HttpOptions(base_url=address)) as client:
            call = engine.prepare({"contents": contents}, dialect="gemini", model="gemini-2.5-pro", lane=LANE)
            answer = client.models.generate_content(model="gemini-2.5-pro", contents=contents)  # type: ignore[arg-type]
        self._ended(call, answer, answer.usage_metadata)
        snake = answer.usage_metadata.model_dump()
        again = engine.prepare({"contents": contents}, dialect="gemini", model="gemini-2.5-pro", lane=LANE)
        assert again.settle(snake).usage.prompt == call.settle(snake).usage.prompt

    @staticmethod
    def _ended(call: Call, answer: Any, usage: Any) -> None:
        """The usage as an object, the answer as an object and as a dict."""
        verdict = call.settle(usage)
        assert verdict.usage.prompt > 4_000
        assert verdict.explained
        message = message_of(answer)
        assert message.role == "assistant"
        assert isinstance(message.content[0], Text)
        assert message_of(answer.model_dump(mode="json", by_alias=True, exclude_unset=True)) == message

    def test_a_call_of_a_tool_is_read_too(self) -> None:
        block = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": None}}
        answer = anthropic.types.Message.model_validate(
            {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-5-5",
                "content": [block],
                "stop_reason": "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 2},
            }
        )
        (use,) = message_of(answer).content
        assert (use.name, use.input) == ("ls", b'{"path":null}')  # type: ignore[union-attr]

    def test_the_whole_answer_is_usage_enough(self, engine: Engine, address: str) -> None:
        with anthropic.Anthropic(base_url=address, api_key="k", max_retries=0) as client:
            call = engine.prepare(BODY, dialect="anthropic", lane=LANE)
            assert call.settle(client.messages.create(**call.body)).usage.prompt > 4_000  # type: ignore[call-overload]

    def test_http_clients_are_those_of_the_libraries(self, address: str) -> None:
        settings = Settings(gateway=GatewaySettings(limits=LimitSettings(stages_ms=60_000, wait_ms=60_000)))
        with Engine(settings) as engine:
            assert isinstance(engine.async_http_client(), httpx2.AsyncClient)
            assert isinstance(engine.async_http_client(library="httpx"), httpx.AsyncClient)
            assert isinstance(engine.http_client(library="httpx"), httpx.Client)
            with engine.http_client(timeout=30.0) as http:
                assert isinstance(http, httpx2.Client)
                client = anthropic.Anthropic(base_url=address, api_key="k", max_retries=0, http_client=http)
                answer = client.messages.with_raw_response.create(**BODY)  # type: ignore[arg-type]
        assert answer.headers["x-holdfast-plan"].startswith("economic")


class TestLogs:
    def test_what_explain_gives_is_what_the_command_prints(self, tmp_path: Path) -> None:
        log = ROOT / "tests" / "fixtures" / "traces" / "session.json"
        report = explain(log, model="claude-opus-5-5")
        command = [sys.executable, "-m", "holdfast", "explain", str(log), "--model", "claude-opus-5-5", "--json"]
        printed = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=tmp_path).stdout)
        assert printed["totals"]["requests"] == report.totals.requests > 0

    def test_requests_of_ones_own(self) -> None:
        def request(at: float, **usage: Any) -> LoggedRequest:
            return LoggedRequest(session="s", source="x", model="claude-opus-5-5", at=at, usage=Usage(**usage))

        requests = [request(0, writes=(("5m", 40_000),)), request(500, writes=(("5m", 40_100),))]
        assert explain(requests).sessions[0].breaks[0].cause == "ttl_expired_5m"
        assert explain(requests, until=100.0).totals.requests == 1

    def test_replay(self) -> None:
        log = ROOT / "tests" / "fixtures" / "traces" / "session.json"
        report = replay(log, strategies=["rolling"], models=["claude-opus-5-5"])
        assert [result.strategy for result in report.results] == ["rolling"]
