"""What the user is told of a compaction."""

from __future__ import annotations

from ..contract import Compaction
from ..costs import dollars


def done(made: Compaction) -> str:
    how = "outlined without the model" if made.elided else "summarized"
    said = [f"Older history was {how}: {made.tokens_before:,} tokens became {made.tokens_after:,}."]
    if made.cost is not None and made.rewrite_cost is not None:
        said.append(f"It cost {dollars(made.cost)}, and the next request costs {dollars(made.rewrite_cost)} more.")
    if made.saved_per_request is not None and made.payback is not None:
        each = dollars(made.saved_per_request)
        said.append(f"Each request is {each} cheaper, so it pays for itself after {made.payback:,} of them.")
    elif made.saved_per_request is not None:
        said.append("It does not pay for itself; it makes room.")
    return " ".join(said)


def in_vain(tokens: int, why: str) -> str:
    advice = "" if why == "user" else " Lower agent.compaction.keep_recent_tokens, or begin a new session."
    return f"The conversation has {tokens:,} tokens; a summary would not make it shorter, so nothing was done.{advice}"


def failed(problem: str) -> str:
    return f"Older history could not be summarized and stays as it is for now: {problem}"


def trimmed(turns: int) -> str:
    """`turns` are those that stay, with the one that begins."""
    left = "this turn" if turns == 1 else f"the last {turns:,} turns"
    return f"Older history is left out: {left} and what follows are sent. The log keeps everything."
