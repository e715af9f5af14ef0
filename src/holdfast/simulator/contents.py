"""Gemini's cached contents over the wire: create, get, list, move the end, delete, and what naming one means.

The objects and their rules are in `caches.gemini_contents`; here is how they are spelled and refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from holdfast import facts
from holdfast.caches import CachedContent, CachedContents
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.wire import DIALECTS, Body, PromptReader, Unreadable, WireError, cache_parameters, string_of

from .checks import error_answer, gemini, is_text, unauthorised
from .clock import LATEST
from .messages import HttpRequest, HttpResponse

PAGE = 50
LARGEST_PAGE = 1000
_JSON = ("content-type", "application/json")
_path = re.compile(r"/(v1[0-9a-z]*)/cachedContents(?:/([^/:]+))?/?").fullmatch
_duration = re.compile(r"([0-9]+(?:\.[0-9]{1,9})?)s").fullmatch
_CHANGEABLE = ("ttl", "expireTime", "expire_time")


_Moment = Annotated[datetime, Meta(tz=True)]


class ContentsError(Exception):
    """A call that the provider answers with this error."""

    def __init__(self, error: WireError) -> None:
        super().__init__(error.message)
        self.error = error


class _Named(Struct, frozen=True):
    """An object's names on the wire besides its id."""

    model: str
    display: str
    tools: bytes | None = None


class Contents:
    """All objects of one simulator. The caches of the models read `objects`."""

    def __init__(self, reader: PromptReader) -> None:
        self.objects = CachedContents()
        self._reader = reader
        self._named: dict[str, _Named] = {}

    def answer(self, call: HttpRequest, now: float, *, scope: str) -> HttpResponse | None:
        """The answer to a call about cached contents; None if it is about something else."""
        match = _path(call.path)
        if match is None:
            return None
        try:
            refusal = unauthorised("gemini", call)
            if refusal is not None:
                raise ContentsError(refusal)
            return HttpResponse(200, (_JSON,), msgspec.json.encode(self._do(call, match[2], now, scope)))
        except ContentsError as refused:
            return error_answer("gemini", refused.error, call)

    def missing(self, body: Body, now: float, *, scope: str) -> WireError | None:
        """What is wrong with the object that a request names; None if it is alive, or none is named."""
        name = cache_parameters.read(body).cached_content
        if name is None:
            return None
        content = self.objects.get(scope, name, now)
        if content is None:
            return gemini.GONE
        model = body.model.removeprefix("models/")
        if facts.model(f"gemini:{model}").name != content.model:
            named = self._named[name].model
            text = f"Model used by GenerateContent request (models/{model}) and CachedContent (models/{named})"
            return gemini.invalid(f"{text} has to be the same.")
        return None

    def tokens(self, body: Body, now: float, *, scope: str) -> int:
        """What the object that a request names adds to its prompt."""
        name = cache_parameters.read(body).cached_content
        content = None if name is None else self.objects.get(scope, name, now)
        return 0 if content is None else content.tokens

    def offering(self, body: Body) -> Body:
        """The body with the tools of the object it names: the model may call them."""
        if body.dialect != "gemini":
            return body
        named = self._named.get(cache_parameters.read(body).cached_content or "")
        if named is None or named.tools is None:
            return body
        whole = DIALECTS["gemini"].parse(body.apply(body.set_member("tools", named.tools)), model=body.model)
        return body if isinstance(whole, Unreadable) else whole

    def _do(self, call: HttpRequest, identifier: str | None, now: float, scope: str) -> dict[str, Any]:
        if identifier is None and call.method == "POST":
            return self._create(call, now, scope)
        if identifier is None and call.method == "GET":
            return self._list(call, now, scope)
        name = f"cachedContents/{identifier}"
        content = None if identifier is None else self.objects.get(scope, name, now)
        if identifier is None or call.method not in ("GET", "PATCH", "DELETE"):
            raise ContentsError(WireError(404, "NOT_FOUND", f"{call.method} {call.path} is not served"))
        if content is None:
            raise ContentsError(gemini.GONE)
        if call.method == "PATCH":
            return self._shown(self._patch(call, content, now))
        if call.method == "DELETE":
            self.objects.delete(scope, name, now)
            del self._named[name]
            return {}
        return self._shown(content)

    def _create(self, call: HttpRequest, now: float, scope: str) -> dict[str, Any]:
        body, model, model_facts = _request(call)
        prompt = self._reader.read(body, model_facts, scope=scope).prompt
        if prompt.tokens < model_facts.floor:
            counts = f"total_token_count={prompt.tokens}, min_total_token_count={model_facts.floor}"
            raise ContentsError(gemini.invalid(f"Cached content is too small. {counts}"))
        ttl, expires = _lifetime(body, now)
        content = _ruled(lambda: self.objects.create(model_facts, scope, prompt.blocks, now, ttl=ttl, expires=expires))
        self._named[content.name] = _Named(model, _whole(string_of(body.member("displayName"))), body.member("tools"))
        live = {content.name for content in self.objects.live(now)}
        self._named = {name: named for name, named in self._named.items() if name in live}
        return self._shown(content)

    def _list(self, call: HttpRequest, now: float, scope: str) -> dict[str, Any]:
        size, start = _number(call, "pageSize", PAGE), _number(call, "pageToken", 0)
        size = min(size or PAGE, LARGEST_PAGE)
        contents = self.objects.list(scope, now)
        page = {"cachedContents": [self._shown(each) for each in contents[start : start + size]]}
        if not page["cachedContents"]:
            return {}
        return {**page, "nextPageToken": str(start + size)} if start + size < len(contents) else page

    def _patch(self, call: HttpRequest, content: CachedContent, now: float) -> CachedContent:
        body = _parsed(call)
        mask = [name for name in call.query.get("updateMask", "").split(",") if name]
        fields = mask or [name for name in body.members if name not in ("name", "model")]
        fixed = next((name for name in fields if name.split(".")[-1] not in _CHANGEABLE), None)
        if fixed is not None:
            raise ContentsError(
                gemini.invalid(f"Only ttl and expire_time of a CachedContent can be updated, not {fixed}.")
            )
        ttl, expires = _lifetime(body, now)
        return _ruled(lambda: self.objects.patch(content.scope, content.name, now, ttl=ttl, expires=expires))

    def _shown(self, content: CachedContent) -> dict[str, Any]:
        named = self._named[content.name]
        return {
            "name": content.name,
            "model": f"models/{named.model}",
            "createTime": _written(content.created),
            "updateTime": _written(content.updated),
            "expireTime": _written(content.expires),
            "displayName": named.display,
            "usageMetadata": {"totalTokenCount": content.tokens},
        }


def _parsed(call: HttpRequest) -> Body:
    body = DIALECTS["gemini"].parse(call.body)
    if isinstance(body, Unreadable):
        raise ContentsError(gemini.unreadable(body.reason))
    if not is_text(body.raw):
        raise ContentsError(gemini.unreadable("the body is not UTF-8"))
    return body


def _request(call: HttpRequest) -> tuple[Body, str, ModelFacts]:
    """The body of a creation, its model as the client spells it, and what is known of that."""
    body = _parsed(call)
    model = _whole(string_of(body.member("model"))).removeprefix("models/")
    if not model:
        raise ContentsError(gemini.invalid("* CreateCachedContentRequest.model: model is not specified\n"))
    if not gemini.known(model):
        raise ContentsError(gemini.missing_model(model, "v1beta", "createCachedContent"))
    model_facts = facts.model(f"gemini:{model}")
    if model_facts.marker is None:
        raise ContentsError(gemini.missing_model(model, "v1beta", "createCachedContent"))
    return body, model, model_facts


def _lifetime(body: Body, now: float) -> tuple[float | None, float | None]:
    """`ttl` in seconds and `expireTime` as a time; at most one of them."""
    ttl, end = body.member("ttl"), body.member("expireTime") or body.member("expire_time")
    if ttl is not None and end is not None:
        raise ContentsError(gemini.invalid("oneof field 'expiration' is already set. Cannot set 'ttl'"))
    if ttl is not None:
        match = _duration(string_of(ttl) or "")
        if match is None:
            raise ContentsError(
                gemini.invalid("Invalid value at 'ttl': Illegal duration format; duration must end with 's'")
            )
        seconds = float(match[1])
        if now + seconds > LATEST:
            raise ContentsError(gemini.invalid("Invalid value at 'ttl': duration is out of range"))
        return seconds, None
    if end is None:
        return None, None
    try:
        moment = msgspec.json.decode(end, type=_Moment).timestamp()
    except (msgspec.DecodeError, RecursionError) as error:
        text = "Invalid value at 'expire_time': Illegal timestamp format; expected RFC 3339"
        raise ContentsError(gemini.invalid(text)) from error
    if moment > LATEST:
        raise ContentsError(gemini.invalid("Invalid value at 'expire_time': timestamp is out of range"))
    return None, moment


def _ruled(do: Callable[[], CachedContent]) -> CachedContent:
    """Run an operation that the rules may refuse."""
    try:
        return do()
    except HoldfastError as problem:
        raise ContentsError(gemini.invalid(str(problem))) from problem


def _whole(text: str | None) -> str:
    """A text that can be sent; half of a surrogate pair cannot."""
    return (text or "").encode("utf-8", "replace").decode()


def _number(call: HttpRequest, name: str, default: int) -> int:
    text = call.query.get(name, "")
    if text and not (text.isdecimal() and len(text) < 10):
        raise ContentsError(gemini.invalid(f"Invalid value at '{name}' (TYPE_INT32), \"{text}\""))
    return int(text) if text else default


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
