"""The recorder: a provider on this machine that keeps what is sent to it, one for each test behind one server.

Every recorder has its own beginning of paths, so that a request which a test has left behind does not come up in the
next one.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts, nearest
from holdfast.simulator import (
    Exchange,
    Fault,
    HttpRequest,
    HttpResponse,
    Record,
    Script,
    Simulator,
    load_script,
    running,
)
from holdfast.simulator.script import document, parser
from holdfast.wire import COUNTING, Body, Dialect, dialect_of

from .bodies import RecordedRequest, dialect_by_body, encoded, without_credentials

if TYPE_CHECKING:
    from .findings import PrefixCheck

KEY = "holdfast-test-key"
"""What clients send as their key while a recorder answers them."""

_SUFFIXES = {
    "anthropic": "",
    "gemini": "",
    "google": "",
    "openai": "/v1",
    "openai_chat": "/v1",
    "openai_responses": "/v1",
}
_OVER = HttpResponse(
    410,
    (("content-type", "application/json"),),
    b'{"type":"error","error":{"type":"gone","message":"The test this recorder belonged to is over."}}',
)


class Recorder:
    """What the clients of one test send. `simulator` answers them; `requests` has what they sent, in its order."""

    def __init__(self, address: str, check: Callable[..., PrefixCheck]) -> None:
        self.simulator = Recording(self._came)
        self.name = token_hex(4)
        self.url = f"{address}/{self.name}"
        self._check = check
        self._requests: list[RecordedRequest] = []
        self._lock = threading.Lock()

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The model calls so far; lists of models and counts of tokens are not among them."""
        with self._lock:
            return tuple(self._requests)

    def __iter__(self) -> Iterator[RecordedRequest]:
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)

    def clear(self) -> None:
        """Discard the recorded requests and the entries of the simulated caches."""
        with self._lock:
            self._requests.clear()
            self.simulator.reset()

    def base_url(self, provider: str) -> str:
        """The address to give an SDK: of `anthropic`, `openai` or `gemini`."""
        if provider not in _SUFFIXES:
            raise HoldfastError(f"there is no provider {provider!r}; {nearest(provider, _SUFFIXES)}.")
        return self.url + _SUFFIXES[provider]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables by which clients find the recorder, over those of `environ`."""
        google = [name for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY") if environ.get(name)] or ["GOOGLE_API_KEY"]
        variables = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", *google), KEY)
        variables |= {name: self.base_url("anthropic") for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL")}
        variables |= {name: self.base_url("openai") for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE")}
        variables["GOOGLE_GEMINI_BASE_URL"] = self.base_url("gemini")
        for name in ("NO_PROXY", "no_proxy"):  # a proxy of the company is no way to this machine
            variables[name] = ",".join(filter(None, (environ.get(name), "127.0.0.1")))
        return variables

    def script(self, script: Script | Sequence[Any] | Mapping[str, Any] | str | Path | Callable[..., Any]) -> None:
        """Set the simulated model's answers: a list of turns (texts, or dicts like `{"call": {"tool": …, "input":
        {…}}}`), a dict with `turns` or `rules`, a function of the request, or the path of a script."""
        self.simulator.script = _script(script)

    def record(self, body: object, dialect: str | None = None, *, model: str = "", path: str = "") -> RecordedRequest:
        """Keep a body that went elsewhere, for tests that answer their clients themselves."""
        raw = encoded(body, len(self._requests) + 1)
        match = dialect_of(path)
        name = dialect or (match[0].name if match is not None else dialect_by_body(raw))
        if name is None:
            raise HoldfastError("the body has none of the members that a model call has; name its dialect.")
        one = RecordedRequest(number=0, body=raw, dialect=name, path=path, model=model or (match[1] if match else ""))
        return self._keep(one)

    def transport(self, inner: Any = None, *, library: str | None = None) -> Any:
        """A transport of httpx2 (or httpx), for synchronous and asynchronous clients: keeps what is sent and lets
        `inner` answer it, or the simulator."""
        module = _library(inner, library)
        return _bound(module)(self, inner, module)

    def http_client(self, inner: Any = None, *, asynchronous: bool = False, library: str | None = None) -> Any:
        """A client for the SDKs' `http_client=`, which needs neither their address nor a socket."""
        module = _library(inner, library)
        kind = module.AsyncClient if asynchronous else module.Client
        return kind(transport=_bound(module)(self, inner, module))

    def assert_stable(self, **options: Any) -> PrefixCheck:
        """Call `assert_prefix_stable` with the recorded requests."""
        __tracebackhide__ = True
        return self._check(self, **options)

    def _came(self, call: HttpRequest, record: Record, whole: bytes | None) -> None:
        """A call that the simulator has looked at."""
        self.keep(call, at=record.at, status=record.status, error=record.error, whole=whole)

    def keep(self, call: HttpRequest, **answer: Any) -> None:
        """A call, if it is one of a model, with what is known of its answer."""
        match = dialect_of(call.path) if call.method == "POST" else None
        if match is not None and not call.path.endswith(COUNTING):
            headers = without_credentials(call.headers.items())
            name, model = match[0].name, match[1]
            one = RecordedRequest(
                number=0, body=call.body, dialect=name, path=call.path, model=model, headers=headers, **answer
            )
            self._keep(one)

    def _keep(self, one: RecordedRequest) -> RecordedRequest:
        with self._lock:
            one = msgspec.structs.replace(one, number=len(self._requests) + 1)
            self._requests.append(one)
        return one


class Recording(Simulator):
    """A simulator that reports every call with its record and the complete body."""

    def __init__(self, came: Callable[[HttpRequest, Record, bytes | None], None]) -> None:
        self._came = came
        self._whole: bytes | None = None
        self._one = threading.RLock()  # clients in this process may call from several threads
        super().__init__()

    def begin(self, call: HttpRequest) -> Exchange:
        with self._one:
            self._whole = None
            exchange = super().begin(call)
            self._came(call, exchange.record, self._whole)
            return exchange

    def _generate(
        self, call: HttpRequest, dialect: Dialect, body: Body, model: ModelFacts, record: Record, fault: Fault | None
    ) -> Exchange:
        self._whole = None if body.raw == call.body else body.raw
        return super()._generate(call, dialect, body, model, record, fault)


class Switchboard(Simulator):
    """What the server sees: every recorder's calls go to its own simulator."""

    def __init__(self) -> None:
        self.recorders: dict[str, Recorder] = {}
        super().__init__(keep=1)

    def begin(self, call: HttpRequest) -> Exchange:
        name, _, rest = call.path.removeprefix("/").partition("/")
        recorder = self.recorders.get(name)
        if recorder is None:
            return Exchange(self.clock, self.journal.open(self.clock.now(), "", ""), _OVER)
        return recorder.simulator.begin(msgspec.structs.replace(call, path=f"/{rest}"))


class RecorderServer:
    """One server of a test session, and the recorders that are at work."""

    def __init__(self, address: str, board: Switchboard, check: Callable[..., PrefixCheck]) -> None:
        self._address, self._board, self._check = address, board, check

    @contextmanager
    def recorder(self) -> Iterator[Recorder]:
        recorder = Recorder(self._address, self._check)
        self._board.recorders[recorder.name] = recorder
        try:
            yield recorder
        finally:
            del self._board.recorders[recorder.name]


@contextmanager
def serving(check: Callable[..., PrefixCheck]) -> Iterator[RecorderServer]:
    """A server on a free port of this machine."""
    board = Switchboard()
    with running(board) as address:
        yield RecorderServer(address, board, check)


def _script(script: Any) -> Script:
    where = "prefix_recorder.script"
    if isinstance(script, Script):
        return script
    if isinstance(script, str | Path):
        return load_script(script)
    if callable(script):
        return Script(name=where, function=script, line=1)
    turns = dict(script) if isinstance(script, Mapping) else {"turns": list(script)}
    return parser.read(document.wrap(turns, 1), where)


_versioned = re.compile(r"/v1(?:beta|alpha)?/.*", re.DOTALL).search


class RecordingTransport:
    """Records requests. Another transport answers, or the recorder's simulator: immediately and completely, a stream
    with all of its events."""

    def __init__(self, recorder: Recorder, inner: Any, library: Any) -> None:
        self._recorder, self._inner, self._library = recorder, inner, library

    def handle_request(self, request: Any) -> Any:
        body = request.read()
        if self._inner is None:
            return self._answer(request, body)
        self._recorder.keep(_call(request, body), at=time.time())
        return self._inner.handle_request(request)

    async def handle_async_request(self, request: Any) -> Any:
        body = await request.aread()
        if self._inner is None:
            return self._answer(request, body)
        self._recorder.keep(_call(request, body), at=time.time())
        return await self._inner.handle_async_request(request)

    def _answer(self, request: Any, body: bytes) -> Any:
        call = _call(request, body)
        answer = self._recorder.simulator.answer(replace(call, path=_of_provider(call.path)))
        content = answer.body if answer.chunks is None else b"".join(answer.chunks)
        return self._library.Response(answer.status, headers=list(answer.headers), content=content)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()


@cache
def _bound(library: Any) -> type[Any]:
    """The transport as one of the library's, of both kinds: it asks for that."""
    return type("RecordingTransport", (RecordingTransport, library.BaseTransport, library.AsyncBaseTransport), {})


def _call(request: Any, body: bytes) -> HttpRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    query = dict(parse_qsl(request.url.query.decode("latin-1")))
    return HttpRequest(request.method, request.url.path, headers, query, body)


def _of_provider(path: str) -> str:
    """A path as the provider knows it: in front of it there may be whatever the SDK's base URL has, such as a proxy's
    part or that of the test's own server."""
    match = _versioned(path)
    return path if match is None else match[0]


def _library(inner: Any, name: str | None) -> Any:
    """The HTTP library of this name, or the one that a transport belongs to."""
    from holdfast.sdk import library_of  # takes most of a second to import, and few tests need it

    if not name:
        packages = [each.__module__.partition(".")[0] for each in type(inner).__mro__]
        name = next((package for package in packages if package in ("httpx2", "httpx")), None)
    return library_of(name)
