"""Gemini's prompt cache: implicit without a guarantee, and explicit by named objects.

G1  Implicit: a prompt's longest common prefix with an earlier one may be read, to the token.
G2  A hit has at least the floor: 4,096 tokens on 3.x, 2,048 on 2.5.
G3  There is no guarantee: a hit comes with a probability (KNOB), drawn from the seed and the number of the request.
G4  How long an earlier prompt counts is nowhere stated (KNOB); use refreshes it.
G5  What a request computed can be read once its answer has begun; writing is free and not reported.
G6  Explicit: a request that names a cached content reads all of its tokens, always; its own contents follow them and
    are not cached. Naming one that is gone or belongs to another model is an error. Objects: `gemini_contents`.

Numbers come from `facts`. Knows nothing of bodies or prices.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts

from .gemini_contents import CachedContents
from .noise import chance
from .prompts import Cache, Entry, Outcome, Prompt, Section
from .streams import Room, TokenStream, TokenStreams

AFFECTING: Mapping[str, Section] = {"toolConfig": "tools"}
"""Members of a request whose change loses the prefix from a section on."""


class GeminiCache(Cache):
    """The cache of one model. `contents` may be shared by all models; a named one is given as `Prompt.mode`."""

    def __init__(
        self, facts: ModelFacts, *, seed: int = 0, contents: CachedContents | None = None, room: Room | None = None
    ) -> None:
        self._facts = facts
        self._seed = seed
        self._number = 0
        self._streams = TokenStreams(facts.floor, room=room)
        self._seconds = float(facts.knobs.implicit_seconds or 0)
        self.contents = contents if contents is not None else CachedContents()

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        self._number += 1
        if prompt.mode:
            return self._explicit(prompt, now)
        if self._facts.caching == "explicit":
            return Outcome(prompt, now, 0, prompt.tokens, why=("this model caches only named contents (G6)",))
        return self._implicit(prompt, now)

    def first_token(self, outcome: Outcome, now: float) -> None:
        if not outcome.prompt.mode and self._facts.caching != "explicit":
            tokens = self._streams.room.tokens(outcome.prompt)
            stream = TokenStream(tokens, "", self._seconds, outcome.at, outcome.at + self._seconds, now)
            self._streams.put(b"", stream)

    def entries(self, now: float) -> list[Entry]:
        named = [
            Entry(
                content.name.encode(),
                content.tokens,
                "",
                content.expires - content.created,
                content.created,
                content.expires,
                content.created,
            )
            for content in self.contents.live(now)
            if content.model == self._facts.name
        ]
        return [*named, *self._streams.live(now)]

    def _explicit(self, prompt: Prompt, now: float) -> Outcome:
        held = self.contents.get(prompt.scope, prompt.mode, now)
        if held is None:
            raise HoldfastError(f"cached content `{prompt.mode}` does not exist or has expired; create it again.")
        if held.model != self._facts.name:
            raise HoldfastError(
                f"cached content `{prompt.mode}` is bound to {held.model}, not {self._facts.name}; create one for it."
            )
        why = f"the named content `{held.name}` holds {held.tokens} tokens (G6)"
        return Outcome(prompt, now, held.tokens, prompt.tokens, why=(why,))

    def _implicit(self, prompt: Prompt, now: float) -> Outcome:
        self._streams.sweep(now)
        tokens = self._streams.room.tokens(prompt)
        shared = max((shared for shared, _ in self._streams.match(b"", tokens, now)), default=0)
        chances = self._facts.knobs.implicit_hit_probability or 0.0
        hit, why = 0, "no earlier prompt shares as much as the floor (G2)"
        if shared >= self._facts.floor:
            why = f"{shared} tokens are shared with an earlier prompt, but chance denied it ({chances:.0%} come, G3)"
            if chance(self._seed, self._number) < chances:
                hit, why = shared, f"{shared} tokens are shared with an earlier prompt (G1)"
        if hit:
            self._streams.put(b"", TokenStream(tokens.first(hit), "", self._seconds, now, now + self._seconds, now))
        return Outcome(prompt, now, hit, prompt.tokens - hit, hit=prompt.block_at(hit), why=(why,))
