"""The providers over HTTP: real connections to a simulator, and to servers that behave badly."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from holdfast.agent.contract import OutgoingRequest, Unreachable
from holdfast.agent.providers import KEYS, HttpProvider, not_served
from holdfast.config.sections.server import LimitSettings, UpstreamSettings
from holdfast.errors import HoldfastError
from holdfast.serving import address_of, listen
from holdfast.simulator import Simulator
from holdfast.simulator.faults import Fault, FaultMatch, Options
from holdfast.simulator.journal import Record
from holdfast.simulator.messages import Words
from holdfast.simulator.server import running, server
from holdfast.wire import DIALECTS
from tests.wire.simulator_client import FULL, MODELS, NAMES, TEXT, asking, going_on, read_answer, replying, words

SECRET = "sk-very-secret"


def everywhere(address: str) -> UpstreamSettings:
    return UpstreamSettings(anthropic=address, openai=address, gemini=address, openrouter=address)


def outgoing(dialect: str, request: bytes | None = None, *, session: str = "s1") -> OutgoingRequest:
    raw = DIALECTS[dialect].encode(asking(dialect)) if request is None else request
    return OutgoingRequest(dialect=dialect, model=f"x:{MODELS[dialect]}", raw=raw, session=session)


def with_provider(
    upstream: UpstreamSettings,
    work: Callable[[HttpProvider], Awaitable[None]],
    *,
    keys: dict[str, str] | None = None,
    limits: LimitSettings = LimitSettings(),  # noqa: B008  a frozen value
) -> None:
    async def run() -> None:
        provider = HttpProvider(upstream, keys or {}, limits=limits)
        try:
            await work(provider)
        finally:
            await provider.close()

    asyncio.run(run())


@contextmanager
def telling(simulator: Simulator) -> Iterator[tuple[str, threading.Event, list[Record]]]:
    """A served simulator that tells when a request is over."""
    over, records = threading.Event(), list[Record]()

    def on_request(record: Record) -> None:
        records.append(record)
        over.set()

    listener, instance = listen("127.0.0.1", 0), server(simulator, on_request)
    thread = threading.Thread(target=instance.run, args=([listener],))
    thread.start()
    try:
        yield address_of(listener), over, records
    finally:
        instance.should_exit = True
        thread.join()
        listener.close()


@asynccontextmanager
async def answering_with(raw: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers with these bytes and ends the connection; its address, and the heads that it was sent."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(raw)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as running:
        host, port = running.sockets[0].getsockname()
        yield f"http://{host}:{port}", heads


REFUSED = b"HTTP/1.1 400 Bad Request\r\nX-Odd: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


def sent_to(base: str, dialect: str, keys: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
    """The request line and headers that reach a server on this machine, whose address has this path."""
    seen: list[bytes] = []

    async def run() -> None:
        async with answering_with(REFUSED) as (address, heads):
            provider = HttpProvider(everywhere(address + base), keys or {})
            async with provider.open(outgoing(dialect)) as answering:
                assert answering.status == 400
                assert answering.headers["x-odd"] == "1"
                assert [chunk async for chunk in answering] == [b"{}"]
            await provider.close()
            seen.extend(heads)

    asyncio.run(run())
    first, *lines = seen[0].decode().split("\r\n")
    return first, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines) if name}


@pytest.mark.parametrize("dialect", NAMES)
def test_a_conversation_over_http(dialect: str) -> None:
    simulator = Simulator(script=replying(FULL, (Words("Done."),)))

    async def talk(provider: HttpProvider) -> None:
        first = await read_answer(provider, outgoing(dialect))
        assert first.whole
        assert words(first.message) == [TEXT]
        again = DIALECTS[dialect].encode(going_on(asking(dialect), first))
        second = await read_answer(provider, outgoing(dialect, again))
        assert words(second.message) == ["Done."]

    with running(simulator) as address:
        with_provider(everywhere(address), talk)
    assert [record.state for record in simulator.journal.records()] == ["complete", "complete"]


@pytest.mark.parametrize(
    ("dialect", "line"),
    [
        ("anthropic", "POST {}/v1/messages HTTP/1.1"),
        ("openai_chat", "POST {}/v1/chat/completions HTTP/1.1"),
        ("openai_responses", "POST {}/v1/responses HTTP/1.1"),
        ("gemini", "POST {}/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse HTTP/1.1"),
        ("openrouter", "POST {}/v1/chat/completions HTTP/1.1"),
    ],
)
@pytest.mark.parametrize("base", ["", "/", "/api", "/k/some%20key"])
def test_paths_stand_behind_the_address(dialect: str, line: str, base: str) -> None:
    assert sent_to(base, dialect)[0] == line.format(base.rstrip("/"))


@pytest.mark.parametrize(("dialect", "base"), [("openai_chat", "/v1"), ("gemini", "/v1beta/")])
def test_a_version_that_the_address_has_is_not_doubled(dialect: str, base: str) -> None:
    path = sent_to(base, dialect)[0].split()[1]
    assert path.startswith(base.rstrip("/") + "/")
    assert path.count("/v1") == 1


@pytest.mark.parametrize(
    ("dialect", "variable", "header"),
    [
        ("anthropic", "ANTHROPIC_API_KEY", "x-api-key"),
        ("openai_chat", "OPENAI_API_KEY", "authorization"),
        ("openai_responses", "OPENAI_API_KEY", "authorization"),
        ("gemini", "GEMINI_API_KEY", "x-goog-api-key"),
        ("gemini", "GOOGLE_API_KEY", "x-goog-api-key"),
        ("openrouter", "OPENROUTER_API_KEY", "authorization"),
    ],
)
def test_each_provider_gets_its_own_key(dialect: str, variable: str, header: str) -> None:
    keys = {name: "another" for names in KEYS.values() for name in names} | {variable: SECRET}
    if variable == "GOOGLE_API_KEY":
        keys["GEMINI_API_KEY"] = " "
    headers = sent_to("", dialect, keys)[1]
    assert headers[header].removeprefix("Bearer ") == SECRET
    assert sum(SECRET in value or "another" in value for value in headers.values()) == 1
    assert ("anthropic-version" in headers) == (dialect == "anthropic")


@pytest.mark.parametrize("dialect", NAMES)
def test_this_machine_is_told_the_session_and_needs_no_key(dialect: str) -> None:
    headers = sent_to("", dialect)[1]
    assert headers["x-holdfast-session"] == "s1"
    assert any("holdfast-no-key" in value for value in headers.values())


async def test_others_are_asked_through_the_proxy_and_are_not_told_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    async with answering_with(REFUSED) as (address, heads):
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, address)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        provider = HttpProvider(everywhere("http://provider.example"), {"ANTHROPIC_API_KEY": SECRET})
        async with provider.open(outgoing("anthropic")) as answering:
            assert answering.status == 400
        await provider.close()
        seen.extend(heads)
    assert seen[0].startswith(b"POST http://provider.example/v1/messages HTTP/1.1\r\n")
    assert b"holdfast-session" not in seen[0].lower()


@pytest.mark.parametrize(
    ("dialect", "named"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai_chat", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ],
)
def test_a_key_that_is_missing_is_named(dialect: str, named: str) -> None:
    async def ask(provider: HttpProvider) -> None:
        with pytest.raises(HoldfastError, match=named):
            await read_answer(provider, outgoing(dialect))

    with_provider(UpstreamSettings(), ask)


def test_a_provider_that_is_none_is_not_taken_for_openai() -> None:
    async def ask(provider: HttpProvider) -> None:
        with pytest.raises(HoldfastError, match=r"there is no provider 'x'; .*odels are named .*upstream\.openai"):
            await read_answer(provider, outgoing("openai_chat"))

    with_provider(UpstreamSettings(), ask, keys={"OPENAI_API_KEY": SECRET})


@pytest.mark.parametrize(
    ("model", "address", "served"),
    [
        ("openai:gpt-5.2", "https://api.openai.com", True),
        ("openrouter:vendor/name", "https://api.openai.com", True),
        ("vllm:mine", "http://127.0.0.1:8000", True),
        ("mine:model", "https://models.example/v1", True),
        ("vllm:mine", "https://api.openai.com/v1", False),
        ("antropic:claude-haiku-4-5", "https://api.openai.com", False),
        ("openai:", "https://api.openai.com", False),
    ],
)
def test_models_of_other_names_are_those_of_ones_own_server(model: str, address: str, served: bool) -> None:
    assert (not_served(model, UpstreamSettings(openai=address)) == "") is served


def test_a_key_that_cannot_be_one_is_refused_without_being_told() -> None:
    async def ask(provider: HttpProvider) -> None:
        with pytest.raises(HoldfastError, match="OPENAI_API_KEY holds characters") as caught:
            await read_answer(provider, outgoing("openai_chat"))
        assert SECRET not in str(caught.value)

    with_provider(UpstreamSettings(), ask, keys={"OPENAI_API_KEY": f"{SECRET}\r\nx-evil: 1"})


@pytest.mark.parametrize("text", ["http://user:pw@host", "http://host?x=1", "http://host:99999", "http://"])
def test_an_address_that_is_none_is_told(text: str) -> None:
    with pytest.raises(HoldfastError, match=r"upstream\.anthropic"):
        HttpProvider(UpstreamSettings(anthropic=text), {})


def told(error: BaseException) -> str:
    """All that an error could show anywhere."""
    chain = repr(error) + "".join(traceback.format_exception(error))
    inner = error.__cause__ or error.__context__
    return chain + (told(inner) if inner is not None else "")


def failing(
    upstream: UpstreamSettings,
    *,
    expect: type[Exception] = Unreachable,
    limits: LimitSettings = LimitSettings(),  # noqa: B008
) -> Exception:
    found: list[Exception] = []

    async def ask(provider: HttpProvider) -> None:
        with pytest.raises(expect) as caught:
            await read_answer(provider, outgoing("anthropic"))
        assert SECRET not in repr(provider)
        found.append(caught.value)

    with_provider(upstream, ask, keys={"ANTHROPIC_API_KEY": SECRET}, limits=limits)
    assert SECRET not in told(found[0])
    return found[0]


def test_nobody_listens() -> None:
    listener = listen("127.0.0.1", 0)
    address = address_of(listener)
    listener.close()
    assert "cannot be reached (Connection refused)" in str(failing(everywhere(f"{address}/k/{SECRET}")))


@pytest.mark.parametrize("at", ["early", "mid", "before_last"])
def test_a_connection_that_is_reset(at: str) -> None:
    simulator = Simulator(script=replying(FULL))
    simulator.faults.add(Fault("cut", options=Options(at=at)))  # type: ignore[arg-type]
    with running(simulator) as address:
        assert str(failing(everywhere(address))).endswith("broke off in the middle of its answer.")
    assert simulator.journal.records()[0].state == "abandoned"


def test_a_server_that_falls_silent() -> None:
    simulator = Simulator(script=replying(FULL))
    simulator.faults.add(Fault("stall", options=Options(at="mid")))
    with running(simulator) as address:
        problem = failing(everywhere(address), limits=LimitSettings(idle_s=0.1))
    assert "was silent for 0.1 seconds" in str(problem)


def badly(raw: bytes, expect: type[Exception] = Unreachable) -> str:
    async def run() -> str:
        async with answering_with(raw) as (address, _):
            provider = HttpProvider(everywhere(address), {"ANTHROPIC_API_KEY": SECRET})
            with pytest.raises(expect) as caught:
                await read_answer(provider, outgoing("anthropic"))
            await provider.close()
            assert SECRET not in told(caught.value)
            return str(caught.value)

    return asyncio.run(run())


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0-OpenSSH_9.9\r\n"])
def test_a_server_that_speaks_no_http(raw: bytes) -> None:
    assert badly(raw).endswith("broke the connection before it answered.")


def test_a_body_that_is_shorter_than_announced() -> None:
    assert "broke off" in badly(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")


def test_a_redirect_is_not_followed() -> None:
    raw = b"HTTP/1.1 307 Moved\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    assert "upstream.anthropic" in badly(raw, HoldfastError)


def test_an_error_of_the_provider_is_an_answer() -> None:
    simulator = Simulator(script=replying(FULL))
    simulator.faults.add(Fault("status", match=FaultMatch(), options=Options(status=429, retry_after=7)))

    async def ask(provider: HttpProvider) -> None:
        async with provider.open(outgoing("anthropic")) as answering:
            assert (answering.status, answering.headers["retry-after"]) == (429, "7")
            body = b"".join([chunk async for chunk in answering])
        assert DIALECTS["anthropic"].read_error(429, body).kind == "rate_limit_error"

    with running(simulator) as address:
        with_provider(everywhere(address), ask)


def test_whoever_is_cancelled_leaves_the_connection() -> None:
    simulator = Simulator(script=replying(FULL))
    simulator.faults.add(Fault("stall", options=Options(at="mid", seconds=600)))
    with telling(simulator) as (address, over, records):

        async def ask(provider: HttpProvider) -> None:
            begun = asyncio.Event()

            async def wait() -> None:
                async with provider.open(outgoing("anthropic")) as answering:
                    async for _ in answering:
                        begun.set()

            task = asyncio.create_task(wait())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(over.wait, 20), "the server was not told"
            assert records[0].state == "abandoned"

        with_provider(everywhere(address), ask)


def test_whoever_leaves_early_closes_the_connection_and_the_next_request_has_its_own() -> None:
    simulator = Simulator(script=replying(FULL))

    async def ask(provider: HttpProvider) -> None:
        async with provider.open(outgoing("anthropic")) as answering:
            assert answering.status == 200
        assert (await read_answer(provider, outgoing("anthropic"))).whole

    with running(simulator) as address:
        with_provider(everywhere(address), ask)


def test_many_at_once() -> None:
    simulator = Simulator(script=replying((Words("Hello."),)))

    async def ask(provider: HttpProvider) -> None:
        found = await asyncio.gather(*(read_answer(provider, outgoing(name)) for name in NAMES * 4))
        assert all(words(answer.message) == ["Hello."] for answer in found)

    with running(simulator) as address:
        with_provider(everywhere(address), ask)


def test_closing_twice_and_without_use_is_nothing() -> None:
    async def close(provider: HttpProvider) -> None:
        await provider.close()

    with_provider(UpstreamSettings(), close)
