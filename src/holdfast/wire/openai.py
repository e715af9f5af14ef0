"""What the two OpenAI dialects share: a model's facts, which models take breakpoints, and error bodies."""

from __future__ import annotations

from holdfast.facts import ModelFacts
from holdfast.facts import model as facts_of
from holdfast.records import Capabilities, encode_string

from .body import Body
from .errors import WireError, error_of
from .raw_json import obj, string_of

BREAKPOINT_KEY = "prompt_cache_breakpoint"
BREAKPOINT = b'{"mode":"explicit"}'
SYSTEM_ROLES = ("system", "developer")


def facts_for(model: str) -> ModelFacts:
    """The facts of a model that is called in these dialects: an OpenAI model, unless its name is another provider's."""
    facts = facts_of(model)
    return facts if facts.known or ":" in model else facts_of(f"openai:{model}")


def breakpoint_ttl(model: str) -> str:
    """The one TTL that breakpoints have, whatever a model without them calls its own."""
    facts = facts_for(model)
    return (facts.default_ttl if facts.breakpoints else None) or "30m"


class OpenAIDialect:
    """The part of a dialect that is the same in Chat Completions and in Responses."""

    provider = "openai"

    def facts(self, model: str) -> ModelFacts:
        return facts_for(model)

    def takes_markers(self, model: str) -> bool:
        """Whether this model's route accepts explicit breakpoints; others answer them with an error."""
        return facts_for(model).breakpoints

    def deferred(self, body: Body, index: int) -> bool:
        return False

    def capabilities(self, facts: ModelFacts) -> Capabilities:
        """The provider caches prefixes by itself, and the dialect keeps them byte-stable."""
        return facts.capabilities

    def read_error(self, status: int, raw: bytes) -> WireError:
        return read_error(status, raw)

    def write_error(self, error: WireError) -> bytes:
        """An error body of our own in the provider's form."""
        kind = "invalid_request_error" if 400 <= error.status < 500 else "server_error"
        inner = (
            ("message", encode_string(error.message)),
            ("type", encode_string(kind)),
            ("param", b"null"),
            ("code", encode_string(error.kind)),
        )
        return obj((("error", obj(inner)),))


def read_error(status: int, raw: bytes) -> WireError:
    """Parse an error response; never fails."""
    error, message = error_of(raw)
    return WireError(status, string_of(error.get("code")) or string_of(error.get("type")) or "api_error", message)
