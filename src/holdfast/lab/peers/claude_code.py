"""Claude Code: three markers of its own, all with one lifetime.

They stand on the last two blocks of its system text (before these it has a billing line, which no cache sees) and on
the last block of the conversation. With an API key the lifetime is five minutes; `ENABLE_PROMPT_CACHING_1H` asks for
one hour. What it asks beside the conversation, such as a title, has no markers: a replay has no such requests.
Compared with 2.1.325.
"""

from __future__ import annotations

from holdfast.caches import Mark, Prompt

from .peer import Peer, last_block, marks, system_texts


def place(prompt: Prompt) -> tuple[Mark, ...]:
    return marks(prompt, (*system_texts(prompt)[-2:], last_block(prompt)))


PEER = Peer(
    name="claude-code",
    title="Claude Code",
    version="2.1.325",
    place=place,
    summary="Both parts of its system text and the last block, for five minutes as with an API key (it has a switch "
    "for one hour).",
)
