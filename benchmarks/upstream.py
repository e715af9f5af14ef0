"""What a request costs the HTTP client out, beside the session that aiohttp puts around the same connections.

Both ask a server in another process, taking turns; the figure is processor time of this process. The gateway's way of
asking: 100 kB out, answered at once; then an answer of 200 events.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import uvloop

from benchmarks import Result
from benchmarks.gateway import upstream
from benchmarks.gateway_servers import cores, pinned_here
from holdfast.upstream import HttpClient, parse_address

BODY = b'{"model":"claude-opus-4-6","max_tokens":9,"stream":%b,"messages":[{"role":"user","content":"' + b"x" * 100_000
HEADERS = {
    "content-type": "application/json",
    "accept": "*/*",
    "accept-encoding": "identity",
    "anthropic-version": "2023-06-01",
    "x-api-key": "k",
    "user-agent": "bench",
    "x-stainless-lang": "python",
}
Ask = Callable[[bytes], Awaitable[None]]


def run(*, quick: bool) -> Iterator[Result]:
    with upstream() as provider, pinned_here(cores()[0]):
        for name, streamed, count in (("one answer", b"false", 200), ("200 events", b"true", 4)):
            body = BODY % streamed + b'"}]}'
            times = uvloop.run(_times(f"http://127.0.0.1:{provider.port}", body, count, 5 if quick else 31))
            client, session = (1e6 * statistics.median(each) for each in times)
            beside = f"with a ClientSession {session:.0f} µs; median of blocks that take turns"
            yield Result(f"processor time of a request, {name}", client, "µs", None, "lower", beside)
            yield Result(f"share of a ClientSession's, {name}", client / session, "", 1.0, "lower", "")


async def _times(address: str, body: bytes, count: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of a request for client and session, one for each block."""
    to = parse_address("anthropic", address)
    client = HttpClient(connect_s=10.0, idle_s=60.0)
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    timeout = aiohttp.ClientTimeout(total=None, connect=10.0, sock_connect=10.0, sock_read=60.0)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=15.0, ttl_dns_cache=60)

    async def by_client(body: bytes) -> None:
        response = await client.send(to, "POST", "/v1/messages", headers, body)
        while not response.at_eof():
            await response.read_any()

    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def by_session(body: bytes) -> None:
            async with session.post(
                f"{address}/v1/messages", data=body, headers=HEADERS, allow_redirects=False
            ) as response:
                while not response.content.at_eof():
                    await response.content.readany()

        try:
            await _block(by_client, body, count)
            await _block(by_session, body, count)
            pairs = [
                (await _block(by_client, body, count), await _block(by_session, body, count)) for _ in range(rounds)
            ]
        finally:
            await client.close()
    return [mine for mine, _ in pairs], [theirs for _, theirs in pairs]


async def _block(ask: Ask, body: bytes, count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        await ask(body)
    return (time.process_time() - began) / count
