"""Servers that mean ill cost themselves something, and nobody else: no memory, no time, no program left behind."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.tools.mcp import McpServer, stdio
from tests.tools.mcp.http_server import Serving
from tests.tools.mcp.hubs import QUICK, SERVERS, Owner, call, hub, plain, until


def hostile(*arguments: object, **fields: Any) -> McpServer:
    command = (str(SERVERS / "hostile.py"), *map(str, arguments))
    return McpServer(name="plain", command=sys.executable, args=command, **fields)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_schema_that_takes_for_ever_to_apply_is_left_out() -> None:
    async with asyncio.timeout(20):
        async with hub(hostile("doubling")) as servers:
            (status,) = servers.status()
            assert status.tools == ("mcp__plain__good",)
            assert "refers to itself too often" in status.warnings[0]


async def test_there_are_never_many_warnings() -> None:
    async with hub(hostile("bad")) as servers:
        (status,) = servers.status()
        assert len(status.warnings) == 21
        assert status.warnings[-1] == "there are more warnings like these"


async def test_all_pages_of_a_list_together_are_no_larger_than_a_message() -> None:
    async with hub(hostile("large"), settings=replace(QUICK, max_message_bytes=100_000)) as servers:
        (status,) = servers.status()
        assert len(status.tools) == 6
        assert status.warnings == ("further tools are left out: its list is larger than a message may be",)
        assert all(len(hint) <= 200 for tool in servers.tools() for hint in tool.hints)


@pytest.mark.slow
async def test_questions_of_a_server_that_takes_no_answers_do_not_pile_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hub(hostile("asking", log), workspace=tmp_path):
        await until(lambda: "asked" in log.read_text())
        assert len(asyncio.all_tasks()) < 1_100


@pytest.mark.slow
async def test_a_call_ends_in_time_where_the_server_does_not_read() -> None:
    async with asyncio.timeout(40):
        async with hub(hostile("deaf", timeout_s=0.2)) as servers:
            began = time.monotonic()
            for _ in range(2):  # the first fills the pipe
                assert "did not answer within 0.2 s" in await call(servers, "echo", {"text": "x" * 300_000})
            assert time.monotonic() - began < 15


async def test_a_child_that_does_not_want_to_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "STOP_S", 0.3)
    log = tmp_path / "log"
    async with hub(hostile("parent", log)):
        assert alive(int(log.read_text().split()[0]))
    await until(lambda: not alive(int(log.read_text().split()[0])), 5)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["new", "sulking"])
async def test_a_server_whose_list_is_never_the_same_or_never_there_is_not_asked_without_end(
    how: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with hub(hostile(how, log)) as servers:
        servers.attach(Owner(servers.tools()))
        await asyncio.sleep(1.5)
        assert len(log.read_text().splitlines()) < 16
        assert len(servers.status()[0].warnings) <= 2


async def test_two_who_start_a_hub_start_its_servers_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    servers = hub(plain("plain", "--log", str(log)))
    await asyncio.gather(servers.start(), servers.start())
    assert log.read_text().count("notifications/initialized") == 1
    await servers.close()


async def test_a_hub_that_is_closed_while_it_starts_starts_nothing() -> None:
    servers = hub(plain())
    starting = asyncio.create_task(servers.start())
    await asyncio.sleep(0)
    await servers.close()
    await starting
    assert servers.tools() == ()
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("mcp ")] == []


def test_a_redirect_with_an_endless_body_is_not_read_to_its_end() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = [(b"location", b"/mcp"), (b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 307, "headers": headers})
        while (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b":" * 20_000, "more_body": True})
            await asyncio.sleep(0.01)
            receive = _more

    async def _more() -> dict[str, str]:
        return {"type": "http.request"}

    async def go(url: str) -> None:
        server = McpServer(name="far", url=url, start_timeout_s=8)
        async with hub(server, settings=replace(QUICK, max_message_bytes=50_000)) as servers:
            assert "larger than 50000 bytes" in servers.status()[0].why

    with Serving(lambda: app) as serving:
        asyncio.run(go(serving.url))


@pytest.mark.slow
def test_a_server_that_wants_to_be_listened_to_anew_at_once_has_to_wait() -> None:
    listened: list[float] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        if scope["method"] == "POST":
            asked = json.loads((await receive())["body"])
            result: dict[str, Any] = {"tools": []}
            if asked["method"] == "initialize":
                info = {"name": "far", "version": "1"}
                version = asked["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}).encode()
        elif scope["method"] == "GET":
            listened.append(time.monotonic())
            body = b"retry: 0\ndata:\n\n"
        kind = b"application/json" if scope["method"] == "POST" else b"text/event-stream"
        headers = [(b"content-type", kind), (b"mcp-session-id", b"one")]
        await send({"type": "http.response.start", "status": 200 if body else 202, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def go(url: str) -> None:
        async with hub(McpServer(name="far", url=url)) as servers:
            await until(lambda: listened)
            await asyncio.sleep(1.3)
            assert servers.status()[0].state == "connected"

    with Serving(lambda: app) as serving:
        asyncio.run(go(serving.url))
    assert 2 <= len(listened) <= 4


def test_why_a_server_is_not_used_does_not_repeat_the_path_of_its_address() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"location", b"http://127.0.0.2:9" + scope["path"].encode())]
            await send({"type": "http.response.start", "status": 308, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    async def go(url: str) -> None:
        async with hub(McpServer(name="far", url=url)) as servers:
            assert "Redirect to http://127.0.0.2:9/… not followed" in servers.status()[0].why

    with Serving(lambda: app, path="/s3cr3t/mcp") as serving:
        asyncio.run(go(serving.url))
