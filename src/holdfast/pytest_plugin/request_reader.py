"""A request as a cache sees it, with what is needed to compare it with others and to name a place in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block, Cache, Outcome, Prompt, rules
from holdfast.caches import cache as cache_of
from holdfast.core import DIGEST, Sent, columns, head
from holdfast.engine.identity import AGENTS, ChainReader, client_of, is_side, named, previous_response
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.facts import model as facts_of
from holdfast.wire import DIALECTS, Body, PromptReader, Unreadable, object_of, string_of, text_span

from .bodies import RecordedRequest

_THOUGHTS = ("thinking", "redacted_thinking")
_ANSWERS = ("assistant", "model")


class CheckedRequest(Struct, frozen=True, kw_only=True, dict=True):
    """One request, read. `prompt` is the input of the provider's cache; `view` is the same for comparisons: without the
    thoughts that the provider leaves out by itself. `places` are the view's blocks in the body.

    `outcome` is what the request reads and writes, by markers, if all are sent one after the other. `name` is that of
    the conversation, if the user or a known client gives one; `turns` counts the model's answers in it.
    """

    number: int
    body: Body
    model: str
    facts: ModelFacts
    prompt: Prompt
    view: Prompt
    places: tuple[int, ...]
    settings: Mapping[str, bytes]
    digests: tuple[tuple[str, bytes], ...]
    outcome: Outcome
    turns: int
    name: str | None = None
    side: bool = False
    part: bool = False
    """The provider holds the rest of the prompt: what is lost or kept of it cannot be seen here."""

    @cached_property
    def sent(self) -> Sent:
        blocks = columns(self.view)
        return Sent(
            call=str(self.number),
            at=float(self.number),
            model=self.view.model,
            digests=blocks.digests,
            tokens=blocks.tokens,
            sections=blocks.sections,
            settings=self.digests,
        )

    @cached_property
    def head(self) -> int:
        """The number of blocks before the messages."""
        return head(self.view)

    @cached_property
    def said(self) -> tuple[bytes, ...]:
        """The digests of the messages' blocks."""
        return tuple(block.digest for block in self.view.blocks[self.head :])

    @cached_property
    def sayings(self) -> frozenset[bytes]:
        return frozenset(self.said)

    def content(self, index: int) -> bytes:
        """The canonical text of a block of the view."""
        return DIALECTS[self.body.dialect].content(self.body, self.places[index])

    def words(self, index: int) -> bytes:
        """Return the text of a text block as it is written in the body; other blocks in full."""
        span = text_span(self.body, self.places[index])
        return self.content(index) if span is None else self.body.raw[span[0] + 1 : span[1] - 1]

    def of(self, section: str) -> list[int]:
        """The blocks of a section before the messages."""
        return [index for index in range(self.head) if self.view.blocks[index].section == section]


class RequestReader:
    """Reads requests one after the other, and lets the providers' caches see them."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._reader = PromptReader()
        self._chains = ChainReader()
        self._caches: dict[str, Cache] = {}

    def read(self, one: RecordedRequest, name: str | None) -> CheckedRequest:
        dialect = DIALECTS[one.dialect]
        body = self._reader.parse(dialect, one.body if one.whole is None else one.whole, model=one.model)
        if isinstance(body, Unreadable):
            raise HoldfastError(f"request {one.number} cannot be read as {one.dialect}: {body.reason}.")
        facts = _facts(one.dialect, body.model, self._model)
        reading = self._reader.read(body, facts)
        prompt, settings = reading.prompt, reading.settings
        # Under rules that the user chose all bodies look like one model's: its own name tells a switch.
        called = facts.ref if self._model is None else (body.model or facts.ref)
        view, places = _view(prompt, facts, settings, called)
        client = client_of(one.headers)
        if name is None:
            identity = named(one.headers, body, client)
            if identity is not None and identity.sure:
                name = "/".join(filter(None, (identity.session, identity.agent)))
        return CheckedRequest(
            number=one.number,
            body=body,
            model=body.model or facts.name,
            facts=facts,
            prompt=prompt,
            view=view,
            places=places,
            settings=settings,
            digests=_digests(settings, prompt),
            outcome=self._sent(facts, prompt, one.number),
            turns=len(self._chains.read(view, b"").before),
            name=name,
            side=client in AGENTS and is_side(client, body),  # in a test anybody may ask for a short answer
            part=one.whole is None and _is_part(body),
        )

    def _sent(self, facts: ModelFacts, prompt: Prompt, number: int) -> Outcome:
        """Return what a request reads and writes a second after the previous one; caches that match token by token are
        not simulated, they read any common prefix."""
        if rules(facts).by_token:
            return Outcome(prompt, float(number), 0, prompt.tokens)
        cache = self._caches.setdefault(facts.ref, cache_of(facts))
        outcome = cache.begin(prompt, float(number))
        cache.first_token(outcome, float(number))
        cache.finish(outcome, (), float(number))
        return outcome


def _is_part(body: Body) -> bool:
    """Return whether a body holds only what is new since an earlier answer or since the provider's stored state."""
    if body.dialect == "openai_responses":
        return previous_response(body) is not None or body.member("conversation") not in (None, b"null")
    thread = object_of(body.member("thread") or b"") if body.dialect == "anthropic" else None
    return thread is not None and string_of(thread.get("type")) == "continue"


def _facts(dialect: str, name: str, chosen: str | None) -> ModelFacts:
    if chosen is not None:
        return facts_of(chosen)
    spoken = DIALECTS[dialect]
    if not name:  # a route without a model leads nowhere; the shape is OpenAI's
        return facts_of("openai:" if spoken.provider == "openrouter" else f"{spoken.provider}:")
    return spoken.facts(name)


def _digests(settings: Mapping[str, bytes], prompt: Prompt) -> tuple[tuple[str, bytes], ...]:
    """Return digests of what a prefix depends on besides its blocks; also a cache key, which separates entries."""
    counting = dict(settings)
    if prompt.route:
        counting["prompt_cache_key"] = prompt.route.encode("utf-8", "surrogatepass")
    return tuple((name, sha256(value).digest()[:DIGEST]) for name, value in sorted(counting.items()))


def _view(
    prompt: Prompt, facts: ModelFacts, settings: Mapping[str, bytes], called: str
) -> tuple[Prompt, tuple[int, ...]]:
    """The prompt that is compared. Where the provider drops old thoughts by itself, whether a client still sends them
    makes no difference."""
    origin = prompt.origin or tuple(range(len(prompt.blocks)))
    drops = facts.strips_thinking and "thinking.keep" not in settings
    indexes = [index for index, block in enumerate(prompt.blocks) if not (drops and _is_thought(block))]
    blocks = tuple(prompt.blocks[index] for index in indexes)
    ends, total = [], 0
    for block in blocks:
        total += block.tokens
        ends.append(total)
    view = replace(prompt, model=called, blocks=blocks, ends=tuple(ends), keys=(), marks=(), origin=())
    return view, tuple(origin[index] for index in indexes)


def _is_thought(block: Block) -> bool:
    return block.kind in _THOUGHTS and block.role in _ANSWERS
