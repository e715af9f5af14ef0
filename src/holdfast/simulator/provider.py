"""A provider in one object: a call comes in, checks, faults and the cache decide, the scripted model answers.

No sockets and no waiting: an `Exchange` returns what to send and how long to wait, and its caller reports the first
token and the end. `answer` does all of it at once for callers in the same process.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from hashlib import sha256
from itertools import accumulate
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.caches import Block, Cache, Noise, Noisy, Outcome, Prompt, chain, rules
from holdfast.caches import cache as cache_of
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.lru import LRU
from holdfast.records import Block as Part
from holdfast.records import Message, Request, Text, ToolUse, Usage
from holdfast.wire import COUNTING, DIALECTS, Body, Dialect, PromptReader, Unreadable, WireError, dialect_of

from . import checks, models_list, replies
from .clock import Clock, SystemClock
from .contents import Contents
from .earlier_requests import Fingerprints, MessageThreads, StoredResponses
from .faults import Fault, Faults
from .journal import Journal, Record
from .messages import HttpRequest, HttpResponse, Reply, ReplyEnvelope, ToolCall, Words
from .model import respond_to, settings
from .script import ECHO, Script
from .script.offers import whole

JSON = ("content-type", "application/json")
PREFIXES = ("/anthropic", "/openai", "/gemini")
SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")
_MOST_MODELS = 1_000
_LONGEST = 1_000  # characters of a client's words in the list of requests
_block = re.compile(r"\bblock (\d+)")
_served = re.compile(
    r"/v1/(?:messages|messages/count_tokens|responses)|(?:/api)?/v1/chat/completions|"
    r"/v1(?:beta|alpha)?/models/[^/:]+:(?:generateContent|streamGenerateContent|countTokens)"
).fullmatch
"""The paths of calls, as the providers spell them; they refuse every other spelling."""


class Exchange:
    """One call in progress: what to send, how long to wait, and the updates of the cache."""

    def __init__(self, clock: Clock, record: Record, answer: HttpResponse, fault: Fault | None = None) -> None:
        self.answer = answer
        self.fault = fault
        self.first_token_delay = 0.0
        self.chunk_delay = 0.0
        self.sent = 0
        """Bytes of the answer sent so far."""
        self.record = record
        self._clock = clock
        self._cache: Cache | None = None
        self._outcome: Outcome | None = None
        self._output: tuple[Block, ...] = ()
        self._journal: Journal | None = None
        record.status = answer.status
        if answer.status >= 400:
            record.state = "refused"

    def reads(self, cache: Cache, outcome: Outcome, output: tuple[Block, ...], journal: Journal) -> None:
        """Set the cache, the lookup's outcome and the output to store."""
        self._cache, self._outcome, self._output, self._journal = cache, outcome, output, journal

    def first_token(self, at: float | None = None) -> None:
        """The answer begins: what it wrote can be read from now on, or from a given moment."""
        if self.record.first_token_at is None and self.record.state == "open":
            self.record.first_token_at = self._clock.now() if at is None else at
            if self._cache is not None and self._outcome is not None:
                self._cache.first_token(self._outcome, self.record.first_token_at)

    def finish(self) -> None:
        self.first_token()
        if self.record.state == "open":
            self.record.state = "complete"
            if self._cache is not None and self._outcome is not None:
                self._cache.finish(self._outcome, self._output, self._clock.now())

    def abandon(self) -> None:
        """The client has disconnected, or the connection broke. Before the first token nothing written is kept; after
        it, the output sent so far is billed."""
        if self.record.state == "open":
            self.record.state = "abandoned"
            if self.sent and self.record.usage is not None and self.answer.chunks is not None:
                ends = list(accumulate(map(len, self.answer.chunks)))
                output = self.record.usage.output * bisect_right(ends, self.sent) // len(ends)
                self.record.usage = replace(self.record.usage, output=output)
            if self._cache is not None and self._outcome is not None and self.record.first_token_at is None:
                self._cache.abandon(self._outcome, self._clock.now())
                if self._journal is not None:
                    self._journal.unsettle(self.record)


class Simulator:
    """The providers' APIs around their cache rules, on any clock."""

    def __init__(
        self,
        *,
        script: Script = ECHO,
        clock: Clock | None = None,
        noise: Noise | None = None,
        seed: int = 0,
        keep: int = 1000,
    ) -> None:
        self.script = script
        self.clock: Clock = SystemClock() if clock is None else clock
        self.faults = Faults()
        self.journal = Journal(keep)
        self._noise, self._seed, self._keep = noise, seed, keep
        self.reset()

    def reset(self) -> None:
        """Forget every entry, cached content and earlier response; faults and the journal stay."""
        self._caches: LRU[str, Cache] = LRU(_MOST_MODELS)
        self._reader = PromptReader()
        self._fingerprints = Fingerprints(self._keep)
        self._responses = StoredResponses(self._keep)
        self._threads = MessageThreads(self._keep)
        self._continued: dict[str, MessageThreads | StoredResponses] = {"anthropic": self._threads}
        self._continued["openai_responses"] = self._responses
        self._contents = Contents(self._reader)

    def answer(self, call: HttpRequest) -> HttpResponse:
        """A whole exchange at once; on a virtual clock what it wrote is readable after its first token's delay."""
        exchange = self.begin(call)
        exchange.first_token(self.clock.now() + exchange.first_token_delay)
        exchange.finish()
        return exchange.answer

    def begin(self, call: HttpRequest) -> Exchange:
        """A request starts now. Never raises on what a client sends."""
        call = _without_prefix(call)
        record = self._opened(call)
        target = dialect_of(call.path) if call.method == "POST" and _served(call.path) else None
        if target is None:
            return Exchange(self.clock, record, self._side(call, record))
        dialect, body, model = self._parsed(target, call, record)
        error = self._check(dialect, body, model, call, record)
        fault = self.faults.take(call, model.name, refused=error is not None)
        record.fault = "" if fault is None else fault.label
        if fault is not None and fault.status is not None:
            return self._failed(fault, dialect, call, record)
        if error is not None:
            return self._refused(dialect, error, call, record)
        assert isinstance(body, Body)  # an unreadable body does not pass the checks
        return self._generate(call, dialect, body, model, record, fault)

    def bill(self, call: HttpRequest, output: int = 0) -> Exchange:
        """What a request starting now reads and writes, for callers that know its answer: no checks, faults or reply.

        Its usage is in the exchange's record.
        """
        record = self._opened(call)
        target = dialect_of(call.path)
        if target is None:
            raise HoldfastError(f"{call.path} is not a path of a model; nothing can be billed for it.")
        _, body, model = self._parsed(target, call, record)
        if isinstance(body, Unreadable):
            raise HoldfastError(f"the body for {call.path} cannot be billed: {body.reason}.")
        cache = self._cache(model)
        previous = self._reader.previous(body, model, scope=record.workspace)
        outcome = cache.begin(self._reader.read(body, model, scope=record.workspace).prompt, record.at)
        self._settle(record, outcome, previous, body, output)
        exchange = Exchange(self.clock, record, HttpResponse(200))
        exchange.reads(cache, outcome, (), self.journal)
        return exchange

    def _opened(self, call: HttpRequest) -> Record:
        record = self.journal.open(self.clock.now(), call.method[:_LONGEST], call.path[:_LONGEST])
        record.workspace = workspace(call)
        record.session = next((call.headers[name][:_LONGEST] for name in SESSION_HEADERS if name in call.headers), "")
        return record

    def _parsed(
        self, target: tuple[Dialect, str], call: HttpRequest, record: Record
    ) -> tuple[Dialect, Body | Unreadable, ModelFacts]:
        dialect, model_in_path = target
        body = self._reader.parse(dialect, call.body, model=model_in_path)
        if isinstance(body, Body) and dialect.name in self._continued:
            whole = self._continued[dialect.name].expanded(body)
            if whole is not None:
                body = self._reader.parse(dialect, whole, model=model_in_path)
        model = dialect.facts(body.model if isinstance(body, Body) else "")
        record.dialect, record.model = dialect.name, model.name
        return dialect, body, model

    def _settle(self, record: Record, outcome: Outcome, previous: Prompt | None, body: Body, output: int) -> Usage:
        used = outcome.usage(output)
        self.journal.settle(record, used)
        record.prompt_tokens = used.prompt
        why, parted = outcome.why, chain.parting(previous, outcome.prompt)
        if parted is not None:
            why = (*why, f"unlike the request before it from block {parted} on, or by a setting that counts there")
        record.why = tuple(_with_paths(line, outcome, body) for line in why)
        return used

    def _side(self, call: HttpRequest, record: Record) -> HttpResponse:
        """Models lists and cached contents; anything else is not found."""
        answer = models_list.answer(call) or self._contents.answer(call, record.at, scope=record.workspace)
        if answer is not None:
            return answer
        return checks.not_found(call, _request_id(record))

    def _check(
        self, dialect: Dialect, body: Body | Unreadable, model: ModelFacts, call: HttpRequest, record: Record
    ) -> WireError | None:
        error = checks.check(dialect.name, body, model, call)
        if dialect.name == "anthropic" and isinstance(body, Body) and (error is None or error.status == 400):
            error = self._threads.missing(body) or error  # without what a thread holds the rest looks wrong
        if error is None and isinstance(body, Body):
            error = self._responses.missing(body)
            error = error or self._contents.missing(body, record.at, scope=record.workspace)
        return error

    def _generate(
        self, call: HttpRequest, dialect: Dialect, body: Body, model: ModelFacts, record: Record, fault: Fault | None
    ) -> Exchange:
        previous = self._reader.previous(body, model, scope=record.workspace)
        reading = self._reader.read(body, model, scope=record.workspace)
        reply_settings = settings(dialect.name, body, call)
        counting = call.path.endswith(COUNTING)
        if fault is not None and fault.kind == "sse_error" and (counting or not reply_settings.stream):
            return self._failed(fault, dialect, call, record)
        if counting:
            tokens = reading.prompt.tokens + self._contents.tokens(body, record.at, scope=record.workspace)
            return Exchange(self.clock, record, _counted(dialect, tokens), fault)
        try:
            reply = respond_to(self.script, self._contents.offering(body), reply_settings)
        except HoldfastError as problem:  # the script is wrong, not the client
            refused = self._refused(dialect, WireError(500, "api_error", str(problem)), call, record)
            refused.answer = replace(refused.answer, headers=(*refused.answer.headers, ("x-should-retry", "false")))
            return refused
        cache = self._cache(model)
        outcome = cache.begin(reading.prompt, record.at)
        used = self._settle(record, outcome, previous, body, reply.tokens)
        if not model.known:
            record.why = (*record.why, f"nothing is known about this model; a floor of {model.floor} tokens is assumed")
        record.stream = reply_settings.stream
        response_id = _response_id(dialect.name, record.number)
        envelope = ReplyEnvelope(
            id=response_id,
            model=whole(body.model),
            created=int(record.at),
            usage=used if fault is None else fault.reported(used),
            stream=reply_settings.stream,
            extra=self._fingerprints.compare(body, reading, model, response_id),
            settings=reply_settings,
        )
        self._keep_conversation(body, response_id, reply, envelope)
        exchange = Exchange(self.clock, record, replies.answer(dialect.name, reply, envelope), fault)
        exchange.reads(cache, outcome, sent_back(body, reply, model, self._reader), self.journal)
        exchange.first_token_delay = reply.first_token_delay
        if exchange.answer.chunks is None:  # a whole answer comes when its last token is there
            exchange.first_token_delay += reply.token_delay * reply.tokens
        else:
            exchange.chunk_delay = reply.token_delay * reply.tokens / max(1, len(exchange.answer.chunks))
        return exchange

    def _keep_conversation(self, body: Body, id: str, reply: Reply, envelope: ReplyEnvelope) -> None:
        """What a later request may name instead of sending it."""
        if body.dialect == "openai_responses":
            self._responses.keep(body, id, replies.RENDERERS[body.dialect].body(reply, envelope))
        elif body.member("thread") is not None and body.dialect == "anthropic":
            self._threads.keep(body, id, replies.RENDERERS[body.dialect].body(reply, envelope))

    def _refused(self, dialect: Dialect, error: WireError, call: HttpRequest, record: Record) -> Exchange:
        record.error = error.message[:_LONGEST]
        return Exchange(self.clock, record, checks.error_answer(dialect.name, error, call, _request_id(record)))

    def _failed(self, fault: Fault, dialect: Dialect, call: HttpRequest, record: Record) -> Exchange:
        """The error that a fault answers with, instead of a response."""
        answer = fault.answer(dialect.name, request_id=_request_id(record), now=record.at)
        if checks.as_array(dialect.name, call):
            answer = replace(answer, body=b"[" + answer.body + b"]")
        return Exchange(self.clock, record, answer, fault)

    def _cache(self, model: ModelFacts) -> Cache:
        """The model's cache. Clients may make up names without end: those not used for longest are forgotten."""
        cache = self._caches.get(model.ref)
        if cache is None:
            cache = self._new_cache(model)
            if self._noise is not None:
                cache = Noisy(lambda: self._new_cache(model), self._noise)
            self._caches[model.ref] = cache
        return cache

    def _new_cache(self, model: ModelFacts) -> Cache:
        return cache_of(model, seed=self._seed, contents=self._contents.objects)

    # What people look at

    def entries(self) -> list[dict[str, Any]]:
        """Every live entry, the model it belongs to and how long it has left."""
        now = self.clock.now()
        return [
            {"model": model, **msgspec.to_builtins(entry), "key": _name(entry.key), "expires_in": entry.expires - now}
            for model, cache in self._caches.items()
            for entry in cache.entries(now)
        ]

    def stored(self) -> dict[str, float]:
        """What cached contents have cost in storage so far: token-hours by workspace."""
        return self._contents.objects.stored(self.clock.now())

    def requests(self, *, limit: int = 0, session: str = "") -> list[dict[str, Any]]:
        """The latest requests: what each read and wrote, and why."""
        return [_shown(record) for record in self.journal.records(limit=limit, session=session)]


def _name(key: bytes) -> str:
    """A digest in hex; a cached content by its own name."""
    return key.decode() if key.startswith(b"cachedContents/") else key.hex()


def workspace(call: HttpRequest) -> str:
    """Return who shares entries: each credential is a workspace, and the part after an `@` in it is an organisation
    that several share. Only a digest is stored."""
    named = ("x-api-key", "x-goog-api-key", "api-key")
    key = next((call.headers[name] for name in named if call.headers.get(name)), "") or call.query.get("key")
    key = key or call.headers.get("authorization", "").removeprefix("Bearer ")
    key = key.rpartition("@")[2] or key
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _without_prefix(call: HttpRequest) -> HttpRequest:
    for prefix in PREFIXES:
        if call.path.startswith(prefix + "/"):
            return replace(call, path=call.path[len(prefix) :])
    return call


def _request_id(record: Record) -> str:
    return f"req_sim{record.number:012d}"


def _counted(dialect: Dialect, tokens: int) -> HttpResponse:
    name = "totalTokens" if dialect.name == "gemini" else "input_tokens"
    return HttpResponse(200, (JSON,), msgspec.json.encode({name: tokens}))


def _response_id(dialect: str, number: int) -> str:
    prefix = {"anthropic": "msg_", "openai_chat": "chatcmpl-", "openai_responses": "resp_"}.get(dialect, "")
    return f"{prefix}sim{number:012d}"


def _with_paths(line: str, outcome: Outcome, body: Body) -> str:
    """The rules speak of blocks by number; people want the path in the body."""

    def path(match: re.Match[str]) -> str:
        index = outcome.prompt.place(int(match[1]))
        return body.blocks[index].path if index < len(body.blocks) else match[0]

    return _block.sub(path, line)


def _shown(record: Record) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(record)
    if record.usage is not None:
        used = record.usage
        members["usage"] = {"input": used.input, "read": used.read, "written": dict(used.writes), "output": used.output}
    return members


def sent_back(body: Body, reply: Reply, model: ModelFacts, reader: PromptReader) -> tuple[Block, ...]:
    """The assistant message a client makes of this reply, as blocks of a prompt."""
    content: list[Part] = [Text(part.text) for part in reply.parts if isinstance(part, Words)]
    content += [ToolUse(part.id, part.name, part.input) for part in reply.parts if isinstance(part, ToolCall)]
    if not content or not rules(model).keeps_output:
        return ()
    dialect = DIALECTS[body.dialect]
    request = Request(model=model.ref, messages=(Message("assistant", tuple(content)),), output_limit=1)
    parsed = dialect.parse(dialect.encode(request), model=body.model)
    assert isinstance(parsed, Body)  # our own encoding
    return reader.read(parsed, model).prompt.blocks
