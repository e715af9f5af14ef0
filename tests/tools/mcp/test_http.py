"""The hub with servers at an address on 127.0.0.1: called, changed, stopped, started again, killed."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from holdfast.config.sections.mcp import McpSettings
from holdfast.tools.mcp import Hub, McpServer
from tests.tools.mcp.hubs import QUICK, SERVERS, Owner, call, hub, until

pytest.importorskip("mcp")

from tests.tools.mcp.http_server import Serving
from tests.tools.mcp.servers.official import build

NAMES = ("add", "crash", "echo", "large", "meet", "remove", "wait")


def app() -> Any:
    return build().streamable_http_app()


async def said(running: Hub, name: str, arguments: Mapping[str, Any] = {}) -> str:
    return await call(running, name, arguments, server="far")


def far(serving: Serving, **fields: Any) -> McpServer:
    return McpServer(name="far", url=serving.url, **fields)


async def test_tools_at_an_address_are_called_and_change() -> None:
    with Serving(app) as serving:
        async with hub(far(serving)) as running:
            assert [tool.name for tool in running.tools()] == [f"mcp__far__{name}" for name in NAMES]
            assert {tool.effect for tool in running.tools()} == {"network"}
            owner = Owner(running.tools())
            running.attach(owner)
            assert await said(running, "echo", {"text": "hi"}) == "hi"
            await said(running, "add", {"name": "extra"})
            await until(lambda: owner.told)
            assert owner.told == [("add", ("mcp__far__extra",), "")]
            assert await said(running, "extra", {"text": "x"}) == "extra x"
            await said(running, "remove", {"name": "extra"})
            await until(lambda: len(owner.told) == 2)
            assert owner.told[1][:2] == ("remove", ("mcp__far__extra",))
            assert running.status()[0].version == "official 2"


async def test_a_server_that_stops_is_noticed_at_once_and_found_again() -> None:
    serving = Serving(app)
    serving.start()
    try:
        async with hub(far(serving)) as running:
            owner = Owner(running.tools())
            running.attach(owner)
            await asyncio.to_thread(serving.stop)
            await until(lambda: owner.told)
            assert owner.told[0][:2] == ("remove", tuple(f"mcp__far__{name}" for name in NAMES))
            assert "the MCP server far is not connected" in owner.told[0][2]
            serving.start()
            await until(lambda: len(owner.told) == 2)
            assert owner.told[1] == ("add", owner.told[0][1], "")
            assert await said(running, "echo", {"text": "again"}) == "again"
    finally:
        serving.stop()


@pytest.mark.slow
async def test_a_call_in_flight_ends_with_its_server() -> None:
    serving = Serving(app)
    serving.start()
    async with hub(far(serving), settings=McpSettings(reconnect_s=60)) as running:
        waiting = asyncio.create_task(said(running, "wait"))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(serving.stop)
        answer = await asyncio.wait_for(waiting, 10)
        assert answer.startswith("! The MCP server far ")
        await until(lambda: running.tools() == ())


async def test_a_server_that_forgot_the_session_is_connected_anew() -> None:
    """It was started again so quickly that nothing was refused: it just does not know us."""
    serving = Serving(app)
    serving.start()
    try:
        async with hub(far(serving)) as running:
            owner = Owner(running.tools())
            running.attach(owner)

            def swap() -> None:
                serving.stop()
                serving.start()

            await asyncio.to_thread(swap)
            await until(lambda: [what for what, _, _ in owner.told] == ["remove", "add"])
            assert await said(running, "echo", {"text": "anew"}) == "anew"
    finally:
        serving.stop()


Answer = tuple[int, str, bytes]


def scripted(answers: Callable[[dict[str, Any]], Answer | None], log: list[str]) -> Callable[[], Any]:
    """A server that answers each message with what the script says: status, type, body. None: it does not answer."""

    async def application(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        log.append(f"{scope['method']} {body.decode()}")
        found = answers(json.loads(body)) if scope["method"] == "POST" else (405, "text/plain", b"")
        if found is None:
            await asyncio.sleep(60)
            return
        status, kind, content = found
        headers = [(b"content-type", kind.encode()), *EXTRA]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return lambda: application


EXTRA: list[tuple[bytes, bytes]] = []


def simple(message: dict[str, Any]) -> Answer | None:
    """A small server of one tool, without a stream of its own."""
    if "id" not in message:
        return 202, "text/plain", b""
    size = int(message.get("params", {}).get("arguments", {}).get("size", 1))
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "simple", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "one", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "x" * size}]},
        "ping": {},
    }
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
    return 200, "application/json", json.dumps(answer).encode()


async def test_a_silent_server_is_noticed_by_asking_it() -> None:
    silent = False

    def answers(message: dict[str, Any]) -> Answer | None:
        return (404, "text/plain", b"") if silent else simple(message)

    log: list[str] = []
    with Serving(scripted(answers, log)) as serving:
        async with hub(far(serving), settings=McpSettings(ping_s=0.05, reconnect_s=60)) as running:
            owner = Owner(running.tools())
            running.attach(owner)
            await until(lambda: sum('"ping"' in line for line in log) >= 3)
            assert owner.told == []
            silent = True  # as a gateway whose server is gone
            await until(lambda: owner.told)
            assert "(it answered with status 404)" in owner.told[0][2]
            assert owner.told[0][:2] == ("remove", ("mcp__far__one",))


async def test_a_server_that_does_not_know_the_question_is_not_lost() -> None:
    def answers(message: dict[str, Any]) -> Answer | None:
        return (404, "text/plain", b"") if message["method"] == "ping" else simple(message)

    log: list[str] = []
    with Serving(scripted(answers, log)) as serving:
        async with hub(far(serving), settings=McpSettings(ping_s=0.05)) as running:
            await until(lambda: sum('"ping"' in line for line in log) >= 3)
            assert running.status()[0].state == "connected"


async def test_a_server_that_does_not_answer_when_asked_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.mcp.connection._PING_S", 0.1)

    def answers(message: dict[str, Any]) -> Answer | None:
        return None if message["method"] == "ping" else simple(message)

    with Serving(scripted(answers, [])) as serving:
        async with hub(far(serving), settings=McpSettings(ping_s=0.05, reconnect_s=60)) as running:
            await until(lambda: running.tools() == ())
            assert running.status()[0].why == "It was lost: it did not answer within 0.1 s."


@pytest.mark.slow
async def test_a_result_that_is_too_large_is_an_error_and_the_next_call_works() -> None:
    settings = McpSettings(max_message_bytes=100_000)
    with Serving(scripted(simple, [])) as serving:
        async with hub(far(serving), settings=settings) as running:
            assert "larger than 100000 bytes" in await said(running, "one", {"size": 3_000_000})
            assert len(await said(running, "one", {"size": 90_000})) == 90_000
    with Serving(app) as serving:  # as a stream of events
        async with hub(far(serving), settings=settings) as running:
            assert "exceeded the 100000 byte limit" in await said(running, "large", {"size": 3_000_000})
            assert await said(running, "echo", {"text": "still here"}) == "still here"


async def test_an_answer_that_is_packed_though_nobody_asked_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    with Serving(scripted(simple, log)) as serving:
        async with hub(far(serving)) as running:
            monkeypatch.setitem(globals(), "EXTRA", [(b"content-encoding", b"gzip")])
            assert "it is packed" in await said(running, "one")
            monkeypatch.setitem(globals(), "EXTRA", [])
            assert await said(running, "one") == "x"


async def test_headers_are_sent_and_a_refusal_names_its_status_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def answers(message: dict[str, Any]) -> Answer | None:
        return 401, "text/plain", b"who are you"

    with Serving(scripted(answers, []), path="/mcp?api_key=s3cret") as serving:
        async with hub(
            far(serving, headers={"Authorization": "Bearer s3cret"}), settings=McpSettings(reconnect_s=60)
        ) as running:
            (status,) = running.status()
            assert status.state == "waiting"
            assert "it answered with status 401" in status.why
            assert "s3cret" not in repr(status)
    assert "s3cret" not in caplog.text


@pytest.mark.slow
async def test_a_server_that_never_answers_and_one_that_says_nonsense() -> None:
    def nonsense(message: dict[str, Any]) -> Answer | None:
        return 200, "application/json", b"what?"

    settings = McpSettings(reconnect_s=60, start_timeout_s=0.3)
    with Serving(scripted(lambda message: None, [])) as silent, Serving(scripted(nonsense, [])) as mad:
        servers = [McpServer(name="silent", url=silent.url), McpServer(name="mad", url=mad.url)]
        async with hub(*servers, settings=settings) as running:
            found = {status.server: status.why for status in running.status()}
            assert found["silent"] == "It was not reached: it did not answer within 0.3 s."
            assert found["mad"].startswith("It was not reached: it refused the connection (Failed to parse JSON")


async def test_a_call_that_is_cancelled_is_cancelled_at_the_address() -> None:
    def answers(message: dict[str, Any]) -> Answer | None:
        return None if message["method"] == "tools/call" else simple(message)

    log: list[str] = []
    with Serving(scripted(answers, log)) as serving:
        async with hub(far(serving, timeout_s=0.2)) as running:
            assert "did not answer within 0.2 s and was told to stop" in await said(running, "one")
            await until(lambda: any("notifications/cancelled" in line for line in log))


async def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = McpServer(name="far", url=f"http://me:token@127.0.0.1:{port}/mcp?key=token")
    async with hub(server, settings=McpSettings(reconnect_s=60)) as running:
        why = running.status()[0].why
        assert why.startswith(f"It was not reached: there is no connection to http://127.0.0.1:{port} (")
        assert "ConnectError" not in why
        assert "token" not in why


def without_handshake() -> Any:
    """The official server as one that has left the handshake behind."""
    inner = build().streamable_http_app()

    async def application(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        message = await receive()
        request = json.loads(message["body"])
        if request["method"] == "initialize":
            error = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"}}
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        messages = [message]

        async def again() -> Any:
            return messages.pop() if messages else await receive()

        await inner(scope, again, send)

    return application


async def test_a_server_without_handshake_is_called_changes_and_is_lost() -> None:
    serving = Serving(without_handshake)
    serving.start()
    try:
        async with hub(far(serving)) as running:
            owner = Owner(running.tools())
            running.attach(owner)
            assert await said(running, "echo", {"text": "hi"}) == "hi"
            await asyncio.sleep(0.2)  # until it listens
            await said(running, "add", {"name": "extra"})
            await until(lambda: owner.told)
            assert owner.told == [("add", ("mcp__far__extra",), "")]
            await asyncio.to_thread(serving.stop)
            await until(lambda: len(owner.told) == 2)
            assert owner.told[1][0] == "remove"
            serving.start()
            await until(lambda: len(owner.told) == 3)
    finally:
        serving.stop()


@pytest.mark.slow
def test_a_process_at_an_address_that_is_killed_is_lost_and_found_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def process() -> subprocess.Popen[bytes]:
        started = subprocess.Popen(
            [sys.executable, str(SERVERS / "official.py"), str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2000):
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    return started
            time.sleep(0.01)
        raise AssertionError("the server did not start")

    async def main(one: subprocess.Popen[bytes], processes: list[subprocess.Popen[bytes]]) -> None:
        async with hub(McpServer(name="far", url=f"http://127.0.0.1:{port}/mcp"), settings=QUICK) as running:
            owner = Owner(running.tools())
            running.attach(owner)
            waiting = asyncio.create_task(said(running, "wait"))
            await asyncio.sleep(0.1)
            one.send_signal(signal.SIGKILL)
            one.wait()
            assert (await waiting).startswith("! The MCP server far ")
            await until(lambda: owner.told)
            assert owner.told[0][0] == "remove"
            processes.append(await asyncio.to_thread(process))
            await until(lambda: len(owner.told) == 2)
            assert await said(running, "echo", {"text": "again"}) == "again"

    processes = [process()]
    try:
        asyncio.run(main(processes[0], processes))
    finally:
        for one in processes:
            one.kill()
            one.wait()
