"""HTTP clients with the engine inside: Gemini's cached contents, made beside the requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from google import genai
from google.genai import errors

from holdfast.config.sections.cache import CacheSettings, GeminiSettings
from holdfast.sdk.http_clients import BESIDE
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.server import running
from tests.clients import gemini_sdk as gemini
from tests.clients.engine_inside import Inside, opened, used
from tests.clients.sdk_requests import with_http
from tests.clients.sessions import MANUAL, Control


@pytest.fixture
def address(provider: str) -> str:
    return provider


@pytest.fixture
def contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    with opened(tmp_path, CacheSettings(gemini=GeminiSettings(enabled=True))) as inside:
        yield inside


def turns(most: int = 8) -> Iterator[list[dict[str, Any]]]:
    """A conversation that grows."""
    said: list[dict[str, Any]] = []
    for number in range(most):
        said.append({"role": "user", "parts": [{"text": f"count {number}"}]})
        yield list(said)
        said.append({"role": "model", "parts": [{"text": gemini.COUNTED}]})


MODEL = "gemini-2.5-pro"
CONFIG: Any = {"system_instruction": MANUAL}


def beside_tasks() -> set[asyncio.Task[Any]]:
    """The calls that are made beside a request of an asynchronous client."""
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


def beside() -> None:
    """Wait for what is done beside the requests."""
    for thread in threading.enumerate():
        if thread.name == BESIDE:
            thread.join(30)


def made(control: Control) -> int:
    return len([each for each in control.requests() if each["method"] == "POST" and "cachedContents" in each["path"]])


class TestCachedContents:
    def test_they_are_made_beside_and_named(self, address: str, control: Control, contents: Inside) -> None:
        with contents.engine.http_client() as http:
            client = genai.Client(api_key="k", http_options=with_http(address, httpx_client=http))
            reads = []
            for said in turns():
                response = client.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                assert response.text
                reads.append(gemini.used(response).read)
                beside()
            assert made(control) >= 1
            assert all(read > 5000 for read in reads[-3:])
            assert used(contents.rows()) == control.used()
            self.vanishes(client, control, contents)

    def vanishes(self, client: genai.Client, control: Control, contents: Inside) -> None:
        """The objects are gone: the client does not notice."""
        before = len(contents.rows())
        control.reset()
        said = list(turns(9))[-1]
        assert client.models.generate_content(model=MODEL, contents=said, config=CONFIG).text
        statuses = [each["status"] for each in control.requests() if "generateContent" in each["path"]][-2:]
        assert statuses == [403, 200]
        assert contents.ends()[before:] == [("settled", None)]

    @pytest.mark.parametrize("streaming", [False, True])
    def test_a_refusal_of_another_kind_is_the_client_s(
        self, address: str, control: Control, contents: Inside, streaming: bool
    ) -> None:
        with contents.engine.http_client() as http:
            client = genai.Client(api_key="k", http_options=with_http(address, httpx_client=http))
            for said in turns(6):
                client.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                beside()
            control.fault("status", status=429, message="Slow down.")
            ask: Any = client.models.generate_content_stream if streaming else client.models.generate_content
            with pytest.raises(errors.ClientError, match="Slow down"):
                list(ask(model=MODEL, contents=said, config=CONFIG))
        assert contents.ends()[-1] == ("failed", "HTTP 429")

    def test_and_asynchronously(self, address: str, control: Control, contents: Inside) -> None:
        async def run() -> None:
            async with contents.engine.async_http_client() as http:
                client = genai.Client(api_key="k", http_options=with_http(address, httpx_async_client=http))

                async def ask(said: list[dict[str, Any]]) -> str | None:
                    found = await client.aio.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                    await asyncio.gather(*beside_tasks())
                    return found.text

                for said in turns(6):
                    assert await ask(said)
                assert made(control) >= 1
                assert used(contents.rows())[-1].read > 5000
                control.fault("status", status=429, message="Slow down.")
                with pytest.raises(errors.ClientError, match="Slow down"):
                    await ask(said)
                control.reset()
                assert await ask(said)

        asyncio.run(run())
        assert contents.ends()[-2:] == [("failed", "HTTP 429"), ("settled", None)]


class Served(NamedTuple):
    """An SDK with the engine inside, and a provider that listens, on one clock."""

    http: Any
    address: str
    simulator: Simulator
    clock: VirtualClock

    def ask(self, turns: int, system: str = MANUAL, pause: float = 30.0) -> None:
        said = [{"role": "user", "parts": [{"text": f"question 0 of {system[:20]}"}]}]
        for number in range(1, turns):
            said.append({"role": "model", "parts": [{"text": f"answer {number}"}]})
            said.append({"role": "user", "parts": [{"text": f"question {number}"}]})
        client = genai.Client(api_key="k", http_options=with_http(self.address, httpx_client=self.http))
        config: Any = {"system_instruction": system}
        assert client.models.generate_content(model=MODEL, contents=said, config=config).text
        beside()
        self.clock.advance(pause)

    def objects(self) -> list[str]:
        answer = self.simulator.answer(HttpRequest("GET", "/v1beta/cachedContents", {"x-goog-api-key": "k"}))
        return [each["name"] for each in json.loads(answer.body).get("cachedContents", [])]

    def made(self, method: str) -> int:
        paths = [record.path for record in self.simulator.journal.records() if record.method == method]
        return len([path for path in paths if "cachedContents" in path])


@pytest.mark.slow
class TestLifecycle:
    @contextmanager
    def served(self, place: Path, settings: GeminiSettings) -> Iterator[Served]:
        clock = VirtualClock(1_800_000_000.0)
        simulator = Simulator(clock=clock)
        with (
            opened(place, CacheSettings(gemini=settings), clock=clock.now) as inside,
            running(simulator) as address,
            inside.engine.http_client() as http,
        ):
            yield Served(http, address, simulator, clock)

    def test_refreshed_at_half_life(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        with self.served(tmp_path, GeminiSettings(enabled=True)) as door:
            for turns in range(1, 6):
                door.ask(turns)
            (name,) = door.objects()
            for turns in range(6, 22):
                door.ask(turns, pause=260.0)
            assert door.objects() == [name]  # it would have run out
            assert door.made("PATCH") >= 1
            assert door.made("POST") == 1

    def test_deleted_where_a_larger_one_takes_its_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        with self.served(tmp_path, GeminiSettings(enabled=True)) as door:
            turns = 0
            while door.made("POST") < 2:
                turns += 1
                assert turns < 120
                door.ask(turns, pause=20.0)
            door.ask(turns + 1)
            door.ask(turns + 2)
            assert len(door.objects()) == 1
            assert door.made("DELETE") == 1

    def test_at_most_max_active(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        with self.served(tmp_path, GeminiSettings(enabled=True, max_active=2, refresh_at=0.2)) as door:
            for number in range(4):
                for turns in range(1, 5):
                    door.ask(turns, system=f"{number}. {MANUAL}", pause=20.0)
                assert len(door.objects()) == min(number + 1, 2)
                door.clock.advance(900)
            assert door.made("DELETE") == 2

    def test_switched_off_is_the_default(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
        with self.served(tmp_path, GeminiSettings()) as door:
            for turns in range(1, 6):
                door.ask(turns)
            assert door.made("POST") == 0


def refusing(fails: Callable[[], None], raw: list[bytes]) -> Callable[[httpx2.Request], httpx2.Response]:
    """A provider that answers requests, and fails on cached contents."""

    def provider(request: httpx2.Request) -> httpx2.Response:
        raw.append(request.content)
        if request.url.path.endswith("/cachedContents"):
            fails()
        usage = {"promptTokenCount": 6000, "candidatesTokenCount": 1, "totalTokenCount": 6001}
        candidate = {"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}
        return httpx2.Response(200, json={"candidates": [candidate], "usageMetadata": usage})

    return provider


class TestFailingBeside:
    """What is made beside the requests fails: nobody notices, and nothing waits for it."""

    @pytest.mark.parametrize("error", [httpx2.ConnectError("x"), RuntimeError("closed"), OSError("y")])
    def test_in_a_thread(self, contents: Inside, error: Exception) -> None:
        def fails() -> None:
            raise error

        raw: list[bytes] = []
        with contents.engine.http_client(transport=httpx2.MockTransport(refusing(fails, raw))) as http:
            client = genai.Client(api_key="k", http_options=with_http("http://p/prefix", httpx_client=http))
            for said in turns(6):
                assert client.models.generate_content(model=MODEL, contents=said, config=CONFIG).text == "Yes."
                beside()
        assert b"cachedContent" not in raw[-1]
        assert len(raw) == 7  # made once, not tried again yet
        assert set(contents.ends()) == {("settled", None)}

    def test_where_they_are_asked_for(self, contents: Inside) -> None:
        """At the same server, below the same path, with the same credential, and not as events."""
        seen: list[httpx2.Request] = []

        def provider(request: httpx2.Request) -> httpx2.Response:
            seen.append(request)
            return refusing(lambda: None, [])(request)

        with contents.engine.http_client(transport=httpx2.MockTransport(provider)) as http:
            url = f"http://p/prefix/v1beta/models/{MODEL}:streamGenerateContent"
            for said in turns(4):
                body = {"contents": said, "systemInstruction": {"parts": [{"text": MANUAL}]}}
                headers = {"content-encoding": "gzip", "x-holdfast-session": "s"}
                raw = gzip.compress(json.dumps(body).encode())
                http.post(url, params={"alt": "sse", "key": "k"}, content=raw, headers=headers)
                beside()
        creation = next(request for request in seen if "cachedContents" in request.url.path)
        assert creation.url == "http://p/prefix/v1beta/cachedContents?key=k"
        assert "content-encoding" not in creation.headers
        assert "x-holdfast-session" not in creation.headers
        assert json.loads(creation.content)["model"] == f"models/{MODEL}"

    def test_an_engine_that_fails(self, contents: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_args: Any, **_more: Any) -> None:
            raise RuntimeError

        monkeypatch.setattr(contents.engine.core, "chore_done", fails)
        with contents.engine.http_client(transport=httpx2.MockTransport(refusing(lambda: None, []))) as http:
            client = genai.Client(api_key="k", http_options=with_http("http://p", httpx_client=http))
            for said in turns(4):
                assert client.models.generate_content(model=MODEL, contents=said, config=CONFIG).text == "Yes."
                beside()

    def test_a_client_that_is_closed_meanwhile(self, contents: Inside) -> None:
        class Slow(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                if request.url.path.endswith("/cachedContents"):
                    await asyncio.sleep(60)
                return refusing(lambda: None, [])(request)

        brought: list[int] = []
        under_way: list[int] = []
        done = contents.engine.core.chore_done

        def noting(lane: Any, call: Any, status: int, raw: bytes, *, now: float) -> None:
            brought.append(status)
            done(lane, call, status, raw, now=now)

        async def run() -> None:
            contents.engine.core.chore_done = noting  # type: ignore[method-assign]
            async with contents.engine.async_http_client(transport=Slow()) as http:
                client = genai.Client(api_key="k", http_options=with_http("http://p", httpx_async_client=http))
                for said in turns(4):
                    await client.aio.models.generate_content(model=MODEL, contents=said, config=CONFIG)
                    await asyncio.sleep(0)
                under_way.append(len(beside_tasks()))

        asyncio.run(run())
        assert brought == [0] * under_way[0]
        assert brought

    def test_a_loop_of_another_kind(self, contents: Inside) -> None:
        """Nothing here waits, so that it needs no loop; and there is none to make calls beside it."""

        class Quick(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                return refusing(lambda: pytest.fail("made"), [])(request)

        http = contents.engine.async_http_client(transport=Quick())
        url = f"http://p/v1beta/models/{MODEL}:generateContent"
        for said in turns(4):
            body = {"contents": said, "systemInstruction": {"parts": [{"text": MANUAL}]}}
            sending = http.post(url, json=body, headers={"x-goog-api-key": "k"})
            with pytest.raises(StopIteration) as ended:
                sending.send(None)
            assert ended.value.value.status_code == 200
        assert contents.ends() == [("settled", None)] * 4
