"""What the gateway answers itself: whether it runs, single calls, numbers, runs. For people with the admin token.

Every body is a value of `report` as JSON. Nothing here reaches a provider; pages of other origins do not come so far.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast import report
from holdfast.engine.passage import Switch, by_name
from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.version import __version__

from .auth import Admin
from .runs import Runs

T = TypeVar("T")
Page = Callable[[Request], Awaitable[Response]]

MOST = 1_000
_LONGEST_NONCE = 64
_US = 1_000_000
_FLUSH_S = 1.0

WELCOME = """Holdfast {version}: a gateway that keeps prompts byte-stable, so that the provider's cache is hit.

Point a client's base URL here:
  Anthropic   {address}
  OpenAI      {address}/v1
  Gemini      {address}

GET /healthz says whether it runs. With the admin token (HOLDFAST_HOME/admin-token) as Authorization: Bearer:
  GET /calls/ID   /analytics/cache_effectiveness   /analytics/breaks   /analytics/sessions
      /analytics/skills   /runs/ID
"""


class RunStart(msgspec.Struct, frozen=True):
    """The body with which `holdfast run` registers a run."""

    directory: Annotated[str, msgspec.Meta(max_length=4_096)]
    client: Annotated[str, msgspec.Meta(max_length=64)] = ""


class Pages:
    """The answers. `store` is None where everything is in memory only; `refused` is told of who has not the token."""

    def __init__(
        self,
        store: Store | None,
        runs: Runs,
        admin: Admin,
        refused: Callable[[str], None],
        switch: Switch,
        store_health: StoreHealth,
        repair: str,
    ) -> None:
        self._store, self._runs, self._admin, self._refused = store, runs, admin, refused
        self._switch, self._store_health, self._repair = switch, store_health, repair

    def app(self) -> Starlette:
        guarded = {
            "/calls/{id}": self.call,
            "/analytics/cache_effectiveness": self.cache_effectiveness,
            "/analytics/breaks": self.breaks,
            "/analytics/sessions": self.sessions,
            "/analytics/skills": self.skills,
            "/runs/{id}": self.run,
        }
        routes = [Route(path, self._guarded(page), methods=["GET"]) for path, page in guarded.items()]
        routes.append(Route("/runs/{id}", self._guarded(self.begin_run), methods=["PUT"]))
        routes += [Route("/", self.welcome, methods=["GET"]), Route("/healthz", self.health, methods=["GET"])]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _unknown})
        app.router.redirect_slashes = False
        return app

    def _guarded(self, page: Page) -> Page:
        """For those with the token."""

        async def answer(request: Request) -> Response:
            headers = by_name(request.scope["headers"])
            if not self._admin.allows(headers):
                self._refused("admin")
                message = "send the admin token (HOLDFAST_HOME/admin-token) as Authorization: Bearer TOKEN."
                return _problem(401, message, {"www-authenticate": "Bearer"})
            try:
                return await page(request)
            except (report.UnknownIdError, _Missing) as problem:
                return _problem(404, str(problem))
            except _Wrong as problem:
                return _problem(400, str(problem))
            except HoldfastError as problem:
                return _problem(503, str(problem))

        return answer

    async def welcome(self, request: Request) -> Response:
        host = request.headers.get("host", "")
        address = f"http://{''.join(each for each in host if each.isprintable())[:200]}"
        return PlainTextResponse(WELCOME.format(version=__version__, address=address))

    async def health(self, request: Request) -> Response:
        """503 where nothing can be stored, with the reason. Requests pass all the same."""
        reason = await self._store_health.reason()
        health = {
            "status": "ok" if reason is None else "degraded",
            "version": __version__,
            "mode": "off" if self._switch.off else "on",
            "store": "ok" if reason is None else "down",
            "repair": self._repair,
        }
        if reason is not None:
            health["reason"] = reason
        nonce, server = request.query_params.get("nonce", "")[:_LONGEST_NONCE], request.scope.get("server")
        if nonce and server is not None:
            health["proof"] = self._admin.proof(nonce, server[1] or 0)
        return _json(health, 200 if reason is None else 503)

    async def call(self, request: Request) -> Response:
        named = request.path_params["id"]
        return _json(await self._ask(lambda store: report.call(store, named)))

    async def cache_effectiveness(self, request: Request) -> Response:
        start, end = _window(request)
        tenant = request.query_params.get("tenant")
        return _json(
            await self._ask(lambda store: report.cache_effectiveness(store, start=start, end=end, tenant=tenant))
        )

    async def breaks(self, request: Request) -> Response:
        start, end = _window(request)
        limit, tenant, resets = _limit(request), request.query_params.get("tenant"), _yes(request, "resets")
        return _json(
            await self._ask(
                lambda store: report.breaks(store, start=start, end=end, tenant=tenant, resets=resets, limit=limit)
            )
        )

    async def sessions(self, request: Request) -> Response:
        start, end = _window(request)
        limit, tenant = _limit(request), request.query_params.get("tenant")
        return _json(
            await self._ask(lambda store: report.sessions(store, start=start, end=end, tenant=tenant, limit=limit))
        )

    async def skills(self, request: Request) -> Response:
        start, end = _window(request)
        tenant = request.query_params.get("tenant")
        return _json(await self._ask(lambda store: report.skills(store, start=start, end=end, tenant=tenant)))

    async def run(self, request: Request) -> Response:
        summary = self._runs.summary(request.path_params["id"])
        if summary is None:
            raise _Missing("no request of this run has been seen; its address begins with /run/ID.")
        return _json(summary)

    async def begin_run(self, request: Request) -> Response:
        """Register the directory where `holdfast run` starts a client, which decides the project of its memory."""
        try:
            start = msgspec.json.decode(await request.body(), type=RunStart)
        except msgspec.MsgspecError:
            raise _Wrong('send {"directory": "…"} with the directory of the run.') from None
        self._runs.begin(request.path_params["id"], start.directory, start.client)
        return _json({"id": request.path_params["id"], "directory": start.directory})

    async def _ask(self, question: Callable[[Store], T]) -> T:
        """A question to the store, beside the loop: it may take a while."""
        store = self._store
        if store is None:
            raise HoldfastError("nothing is stored: the store could not be opened when the gateway started.")
        return await asyncio.to_thread(_answered, question, store)


def _answered(question: Callable[[Store], T], store: Store) -> T:
    """Flush pending writes first, so that the answer includes everything that has happened."""
    store.flush(_FLUSH_S)
    return question(store)


class _Missing(Exception):
    """404, with a sentence."""


class _Wrong(Exception):
    """400, with a sentence."""


def _window(request: Request) -> tuple[int | None, int | None]:
    """`start` and `end` in microseconds; None leaves that side open."""
    start, end = (_moment(name, request.query_params.get(name)) for name in ("start", "end"))
    if start is not None and end is not None and start > end:
        raise _Wrong("start lies after end; exchange them.")
    return start, end


def _moment(name: str, text: str | None) -> int | None:
    if not text:
        return None
    try:
        seconds = float(text)
        return round(datetime.fromtimestamp(seconds, UTC).timestamp() * _US)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise _Wrong(f"{name} is no time; give seconds since 1970 or ISO 8601, such as 2026-11-01T00:00:00Z.") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * _US)


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "100")
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 1 <= int(text) <= MOST):
        raise _Wrong(f"limit is no number from 1 to {MOST:,}.")
    return int(text)


def _yes(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "1", "false", "0"):
        raise _Wrong(f"{name} is neither true nor false.")
    return text in ("true", "1")


async def _unknown(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    if status == 405:
        return _problem(405, "only GET is answered here, and PUT for /runs/ID.")
    return _problem(404, "there is no such page; GET / lists them.")


def _problem(status: int, message: str, more: Mapping[str, str] = {}) -> Response:
    return _json({"error": {"message": message}}, status, more)


def _json(value: Any, status: int = 200, more: Mapping[str, str] = {}) -> Response:
    """JSON for people: a line for each member."""
    body = msgspec.json.format(msgspec.json.encode(value)) + b"\n"
    return Response(body, status, media_type="application/json", headers={"cache-control": "no-store", **more})


# What `/healthz` says of the store. Looked at when somebody asks, beside the loop and at most every two seconds; all
# pages are read at most once a minute, and for a large store so seldom that it takes no more than a sixtieth of the
# time. Nothing here is done for a request.

LOOK_S = 2.0
WHOLE_S = 60.0
SHARE = 60
"""Reading all pages takes at most this part of the time."""
TIMEOUT_S = 1.0
"""Seconds an answer waits for them; a large store is included the next time."""


class StoreHealth:
    """`trouble` is why there is no store."""

    def __init__(self, store: Store | None, trouble: str = "") -> None:
        self._store = store
        self._reason: str | None = None if store is not None else (trouble or "nothing is stored")
        self._damage: str | None = None
        self._looked = self._next_whole = float("-inf")
        self._lock: asyncio.Lock | None = None
        self._reading: asyncio.Task[None] | None = None

    async def reason(self) -> str | None:
        """Why the store does not do what it should; None where it does."""
        if self._store is None:
            return self._reason
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if time.monotonic() - self._looked >= LOOK_S:
                self._reason = await asyncio.to_thread(_store_problem, self._store, False)
                self._looked = time.monotonic()
            if self._reading is None and time.monotonic() >= self._next_whole and self._reason is None:
                self._reading = asyncio.create_task(self._read_whole(self._store))
        if self._reading is not None and self._reason is None:
            await asyncio.wait((self._reading,), timeout=TIMEOUT_S)
        return self._reason or self._damage

    async def _read_whole(self, store: Store) -> None:
        began = time.monotonic()
        try:
            self._damage = await asyncio.to_thread(_store_problem, store, True)
        finally:
            took = time.monotonic() - began
            self._next_whole = time.monotonic() + max(WHOLE_S, took * SHARE)
            self._reading = None


def _store_problem(store: Store, whole: bool) -> str | None:
    try:
        store.check(whole=whole)
    except HoldfastError as problem:
        return without_directories(str(problem), store.path)
    return None


def without_directories(text: str, path: Path) -> str:
    """Everybody may ask, and where this user's files are is nobody's business."""
    return text.replace(f"{path.parent}/", "")
