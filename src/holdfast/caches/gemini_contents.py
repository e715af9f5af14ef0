"""Gemini's explicit cache: cached-content objects that requests name.

C1  An object is bound to a model and holds system instruction, tools, tool configuration and contents.
C2  It holds at least the model's floor of tokens.
C3  It lives one hour unless the creator says otherwise; only its end can be changed, by `ttl` or `expire_time`.
C4  Deleted and expired objects are gone: naming one is an error.
C5  Storage is paid by tokens and hours, from creation to the end.

Time comes in as a parameter. Knows nothing of wire shapes or prices.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts

from .prompts import Block

_HOUR = 3_600.0


class CachedContent(Struct, frozen=True):
    name: str
    scope: str
    model: str
    blocks: tuple[Block, ...]
    tokens: int
    created: float
    updated: float
    expires: float

    def token_hours(self, until: float) -> float:
        """Return the token hours stored up to a time (C5)."""
        return self.tokens * max(0.0, min(until, self.expires) - self.created) / _HOUR


class CachedContents:
    """The objects of one provider, by name; nobody sees those of another scope."""

    def __init__(self) -> None:
        self._objects: dict[str, CachedContent] = {}
        self._made = 0
        self._past: dict[str, float] = {}  # token-hours of objects that are gone, by scope

    def create(
        self,
        facts: ModelFacts,
        scope: str,
        blocks: Sequence[Block],
        now: float,
        *,
        ttl: float | None = None,
        expires: float | None = None,
    ) -> CachedContent:
        tokens = sum(block.tokens for block in blocks)
        if tokens < facts.floor:
            raise HoldfastError(
                f"cached content of {tokens} tokens is below the minimum of {facts.floor} for {facts.name}; add to it."
            )
        if ttl is None and expires is None:
            ttl = float(facts.ttl_seconds(facts.default_ttl or "") or 0)
        end = _end(now, ttl, expires)
        self._made += 1
        name = f"cachedContents/{self._made:012d}"
        self._objects[name] = CachedContent(name, scope, facts.name, tuple(blocks), tokens, now, now, end)
        return self._objects[name]

    def get(self, scope: str, name: str, now: float) -> CachedContent | None:
        """The object, or None when it never was, is deleted, has expired or belongs to somebody else (C4)."""
        self._sweep(now)
        content = self._objects.get(name)
        return content if content is not None and content.scope == scope else None

    def list(self, scope: str, now: float) -> tuple[CachedContent, ...]:
        self._sweep(now)
        return tuple(content for content in self._objects.values() if content.scope == scope)

    def patch(
        self, scope: str, name: str, now: float, *, ttl: float | None = None, expires: float | None = None
    ) -> CachedContent:
        """Move the end; nothing else of an object can be changed (C3)."""
        changed = structs.replace(self._known(scope, name, now), updated=now, expires=_end(now, ttl, expires))
        self._objects[name] = changed
        return changed

    def delete(self, scope: str, name: str, now: float) -> None:
        self._drop(self._known(scope, name, now), now)

    def token_hours(self, scope: str, now: float) -> float:
        """Everything a scope has stored so far, in tokens times hours (C5)."""
        self._sweep(now)
        return self._past.get(scope, 0.0) + sum(content.token_hours(now) for content in self.list(scope, now))

    def stored(self, now: float) -> dict[str, float]:
        """Token-hours of every scope that has ever stored anything."""
        self._sweep(now)
        scopes = {*self._past, *(content.scope for content in self._objects.values())}
        return {scope: self.token_hours(scope, now) for scope in sorted(scopes)}

    def live(self, now: float) -> tuple[CachedContent, ...]:
        self._sweep(now)
        return tuple(self._objects.values())

    def _known(self, scope: str, name: str, now: float) -> CachedContent:
        content = self.get(scope, name, now)
        if content is None:
            raise HoldfastError(f"cached content `{name}` does not exist or has expired; create it again.")
        return content

    def _sweep(self, now: float) -> None:
        for gone in [content for content in self._objects.values() if content.expires < now]:
            self._drop(gone, now)

    def _drop(self, gone: CachedContent, now: float) -> None:
        self._past[gone.scope] = self._past.get(gone.scope, 0.0) + gone.token_hours(now)
        del self._objects[gone.name]


def _end(now: float, ttl: float | None, expires: float | None) -> float:
    if (ttl is None) == (expires is None):
        raise HoldfastError("a cached content needs either ttl or expire_time, not both or neither; give one.")
    if expires is None and ttl is not None:
        expires = now + ttl
    if expires is None or expires <= now:
        raise HoldfastError(
            "a cached content cannot end before it begins; give a ttl above zero or a later expire_time."
        )
    return expires
