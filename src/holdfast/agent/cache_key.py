"""The `prompt_cache_key` of an agent's requests to OpenAI.

One key for all sessions that begin alike: those of one tenant and workspace with the same system text and tools, and
their sub-agents, which begin with their parent's. It is made when a session begins and stays with it; sessions that
began without one send none.

Why not one for each session: from GPT-5.6 on the key is part of an entry's name (rule B7), so that nothing a session
wrote could be read by the next one or by a sub-agent. Up to GPT-5.5 requests are routed by their first tokens and the
key (rule O3), and above about 15 a minute the rest overflow (rule O4). Without a key all workspaces whose prompts begin
with the same persona are one such route; this key makes a route of each and parts nothing that is worth reading.
"""

from __future__ import annotations

from hashlib import sha256

from holdfast.facts import ModelFacts
from holdfast.records import Extra, encode_string

_DIALECTS = ("openai_responses", "openai_chat")
_CHARS = 40


def cache_key(*, tenant: str, workspace: str, system: str, tools: str) -> str:
    """A key for sessions with this head. It tells nothing of what it is made of."""
    digest = sha256()
    for part in (tenant, workspace, system, tools):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:_CHARS]


def key_members(model: ModelFacts, dialect: str, key: str) -> Extra:
    """The member of a request that says it. None for a model that is not known to be OpenAI's: a server that only
    speaks like it may refuse what it does not know."""
    takes = model.known and model.provider == "openai" and dialect in _DIALECTS
    if not key or not takes or len(key) > (model.limits.cache_key_chars or 0):
        return ()
    return (("prompt_cache_key", encode_string(key)),)
