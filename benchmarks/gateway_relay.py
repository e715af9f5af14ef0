"""The relay one would write by hand: Starlette and aiohttp, the gateway's server settings, and nothing else.

It takes the request in, sends it on and streams the answer through. What the gateway costs is measured against it.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import AsyncIterator

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding")
)
NOT_SENT = HOP_BY_HOP | {"host", "content-length", "upgrade"}


def build(upstream: str) -> Starlette:
    sessions: list[aiohttp.ClientSession] = []

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=15)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            sessions.append(session)
            yield

    async def relay(request: Request) -> Response:
        body = await request.body()
        target = upstream + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = [(name, value) for name, value in request.headers.items() if name not in NOT_SENT]
        answer = await sessions[0].request(request.method, target, data=body, headers=headers, allow_redirects=False)
        response = StreamingResponse(
            answer.content.iter_any(), status_code=answer.status, background=BackgroundTask(answer.release)
        )
        response.raw_headers = [
            (name.lower(), value) for name, value in answer.raw_headers if name.lower().decode() not in HOP_BY_HOP
        ]
        return response

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(routes=[Route("/{path:path}", relay, methods=methods)], lifespan=lifespan)


def main(upstream: str) -> int:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    config = uvicorn.Config(
        build(upstream),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        timeout_keep_alive=75,
        server_header=False,
        date_header=False,
    )
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run([listener])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
