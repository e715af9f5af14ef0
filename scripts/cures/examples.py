"""One example for every name of the library: requests that really break so."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from holdfast.core.skill_texts import HEADING, HINT
from holdfast.records import RESET_REASONS

from .playing import Ask, Example
from .talking import HOUSE, MODEL, TOOLS, conversation, from_third, grown, source, talk, text, tool

HOUR = 3_600.0
_IDS = (
    "0b91a2c4-3f00-4b7e-9f53-1d6a0c2b7e11",
    "7d5c1f20-a1b2-4c3d-8e9f-001122334455",
    "c3a7e5d9-6b18-4f02-a94c-5e7f90ab12cd",
    "f40d82b6-9e31-4a7d-b5c8-23d4e5f60718",
)
_REMINDER = "<system-reminder>\nThe task list is empty. Do not mention this to the user.\n</system-reminder>"
_SKILLS = {"pdf": "Read PDF files.", "zip": "Pack and unpack archives."}


def _edited(turns: int, message: int, content: list[dict[str, Any]]) -> dict[str, Any]:
    """The conversation with another content of one message."""
    said = conversation(turns)
    said[message] = said[message] | {"content": content}
    return talk(turns, messages=said)


def _skills(skills: dict[str, str], preloaded: dict[str, str] | None = None) -> str:
    bodies = preloaded or {}
    lines = [f"- {name}{' [preloaded]' * (name in bodies)}: {told}" for name, told in sorted(skills.items())]
    index = f"{HEADING}\n{HINT}\n\n" + "\n".join(lines)
    inlined = [f"# Skill: {name} (source: workspace)\n\n{body}" for name, body in sorted(bodies.items())]
    return "\n\n".join([HOUSE, index, *inlined, "# Behind the skills\n\nAnswer in English."])


def _skill_list(after: dict[str, str]) -> Example:
    return Example(asks=from_third(lambda n, late: talk(n, system=_skills(after if late else _SKILLS))))


def _calls(turns: int, *, reverse: bool) -> dict[str, Any]:
    said = deepcopy(conversation(turns))
    for message in said if reverse else ():
        for block in message["content"]:
            if block["type"] == "tool_use":
                block["input"] = dict(reversed(block["input"].items()))
    return talk(turns, messages=said)


def _reminded(turns: int) -> dict[str, Any]:
    """Only the newest message has the reminder."""
    said = conversation(turns)
    said[-1] = said[-1] | {"content": [*said[-1]["content"], text(_REMINDER)]}
    return talk(turns, messages=said)


def _thought(turns: int, *, kept: bool) -> dict[str, Any]:
    said = deepcopy(conversation(turns))
    for number, message in enumerate(said):
        if message["role"] == "assistant" and kept:
            thought = {"type": "thinking", "thinking": f"Step {number}: look at the rounding.", "signature": "c2ln"}
            message["content"].insert(0, thought)
    return talk(turns, messages=said, thinking={"type": "adaptive"})


def _pruned(turns: int) -> dict[str, Any]:
    """Results older than two turns are replaced by a placeholder."""
    said = deepcopy(conversation(turns))
    for message in said[: max(0, 4 * (turns - 2))]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                block["content"] = "[old tool result removed]"
    return talk(turns, messages=said)


def _answered(turns: int, words: str) -> dict[str, Any]:
    return _edited(turns, 3, [text(words)])


def _summed_up(turns: int) -> dict[str, Any]:
    told = text("Summary of the session so far: settle_0 to settle_3 round as the rules say. Go on with settle_4.")
    return talk(turns, messages=[{"role": "user", "content": [told]}])


def _files(count: int) -> dict[str, Any]:
    """A turn that attaches so many files, each in a block of its own."""
    said = conversation(2)
    said[-1] = said[-1] | {
        "content": [*said[-1]["content"], *(text(f"File {n}: {source(n)[:400]}") for n in range(count))]
    }
    body = talk(2, messages=said)
    body["system"] = [text(HOUSE)]
    return body


def _chat(questions: int, marked: int) -> dict[str, Any]:
    """OpenAI, explicit mode: one breakpoint, on the message of this number."""
    said: list[dict[str, Any]] = [{"role": "developer", "content": [text(HOUSE)]}]
    for number in range(questions):
        said.append({"role": "user", "content": [text(f"Does this round well?\n{source(number)}")]})
        said.append({"role": "assistant", "content": [text("It does.")]})
    said.pop()
    last = said[marked]["content"][-1]
    said[marked] = said[marked] | {"content": [last | {"prompt_cache_breakpoint": {"mode": "explicit"}}]}
    return {"model": "gpt-6.1-sol", "messages": said, "prompt_cache_options": {"mode": "explicit"}}


def _document(question: str) -> dict[str, Any]:
    """A question about a long document, which is marked."""
    read = text("\n\n".join(source(number) for number in range(6)), "5m")
    body = talk(0, messages=[{"role": "user", "content": [read, text(question)]}])
    body["messages"][0]["content"][-1].pop("cache_control")
    return body


def _head_marked(turns: int, *, tail: bool) -> dict[str, Any]:
    """A model whose floor the system text does not reach by itself."""
    body = talk(turns, system=HOUSE[: len(HOUSE) // 2], model="claude-haiku-4-5")
    if not tail:
        body["messages"][-1]["content"][-1].pop("cache_control")
    return body


def _paused(gap: float, ttl: str, first: str = "") -> tuple[Ask, ...]:
    """A pause before every third request."""
    return tuple(
        Ask(body=talk(n, ttl=first if first and n == 1 else ttl), gap=30.0 if n % 3 else gap) for n in range(1, 9)
    )


def _clock(number: int) -> str:
    return f"Current time: 2026-11-02T09:{14 + number}:07Z\n\n{HOUSE}"


FAULTS: dict[str, Example] = {
    "tool_order": Example(asks=grown(lambda n: talk(n, tools=TOOLS[n % 3 :] + TOOLS[: n % 3]))),
    "tool_added": Example(
        asks=from_third(lambda n, late: talk(n, tools=[*TOOLS, tool("web_fetch", "Fetch a page.")] if late else TOOLS))
    ),
    "tool_removed": Example(asks=from_third(lambda n, late: talk(n, tools=[TOOLS[0], TOOLS[2]] if late else TOOLS))),
    "sliding_window": Example(asks=grown(lambda n: talk(n, messages=conversation(n)[-9:]), 6)),
    "compaction": Example(asks=(*grown(talk), Ask(body=_summed_up(5)))),
    "no_marker": Example(asks=from_third(lambda n, late: talk(n, ttl=None if late else "5m"))),
    "marker_beyond_lookback": Example(asks=(*grown(talk, 2), Ask(body=_files(24)))),
    "mixed_ttl": Example(asks=_paused(1_200.0, "1h", first="5m")),
    "skill_added": _skill_list(_SKILLS | {"csv": "Read and write tables."}),
    "skill_removed": _skill_list({"zip": _SKILLS["zip"]}),
    "skill_changed": _skill_list(_SKILLS | {"pdf": "Read PDF files, and fill their forms."}),
    "preloaded_skill_changed": Example(
        asks=from_third(
            lambda n, late: talk(
                n,
                system=_skills(
                    _SKILLS, {"pdf": "Open it page by page." if late else "Open it at once.", "zip": "List first."}
                ),
            )
        )
    ),
    "stripped_thinking": Example(asks=from_third(lambda n, late: _thought(n, kept=not late))),
    "key_order": Example(asks=from_third(lambda n, late: _calls(n, reverse=late))),
    "whitespace": Example(
        asks=from_third(lambda n, late: _answered(n, "It rounds half to even." + ("" if late else "  \n")))
    ),
    "uuid": Example(asks=grown(lambda n: talk(n, system=f"Request id: {_IDS[n - 1]}\n\n{HOUSE}"))),
    "clock": Example(asks=grown(lambda n: talk(n, system=_clock(n)))),
    "date": Example(
        asks=from_third(lambda n, late: talk(n, system=f"Today's date: 2026-11-{'03' if late else '02'}\n\n{HOUSE}"))
    ),
    "memory_in_prefix": Example(
        asks=from_third(
            lambda n, late: talk(
                n, system=f"{HOUSE}\n\n# Memory\n- The user prefers small commits." + "\n- Tests run with -x." * late
            )
        )
    ),
    "git_state": Example(
        asks=from_third(
            lambda n, late: talk(n, system=f"Current branch: {'fix-rounding' if late else 'main'}\n\n{HOUSE}")
        )
    ),
    "usage_meter": Example(asks=grown(lambda n: talk(n, system=f"Context used: {n * 1_913:,} tokens\n\n{HOUSE}"))),
    "counter": Example(asks=grown(lambda n: talk(n, system=f"Turn {n} of 30\n\n{HOUSE}"))),
    "moved_reminder": Example(asks=grown(_reminded)),
    "old_result_replaced": Example(asks=grown(_pruned, 5)),
}

CAUSES: dict[str, Example] = {
    "model_changed": Example(
        asks=from_third(lambda n, late: talk(n, model="claude-sonnet-5-5" if late else MODEL)),
    ),
    "tools_changed": Example(
        asks=from_third(
            lambda n, late: talk(
                n, tools=[tool("read_file", "Read a file." if late else "Read a text file."), *TOOLS[1:]]
            )
        )
    ),
    "system_prompt_changed": Example(
        asks=from_third(
            lambda n, late: talk(n, system=f"{'Plan only, change nothing.' if late else 'Change files.'}\n\n{HOUSE}")
        )
    ),
    "parameters_changed": Example(
        asks=from_third(lambda n, late: talk(n, tool_choice={"type": "any" if late else "auto"}))
    ),
    "messages_rewritten": Example(
        asks=from_third(
            lambda n, late: _edited(
                n,
                0,
                [text("Files: src/settle.py" + ", src/rounding.py" * late + "\n\nDoes it round as the rules say?")],
            )
        )
    ),
    "ttl_expired_5m": Example(asks=_paused(900.0, "5m")),
    "ttl_expired_1h": Example(asks=_paused(2 * HOUR, "1h")),
    "lookback_exceeded": Example(
        asks=(Ask(body=_chat(3, -1)), Ask(body=_chat(4, -1)), Ask(body=_chat(5, 2))), dialect="openai_chat"
    ),
    "below_minimum": Example(asks=from_third(lambda n, late: _head_marked(n, tail=not late))),
    "parallel_race": Example(
        asks=tuple(Ask(body=_document(f"What does part {n} do?"), gap=1.0, begun=n == 4) for n in range(1, 5))
    ),
    "likely_server_side": Example(asks=(*grown(talk, 3), Ask(body=talk(4), forgotten=True))),
    "unknown": Example(
        asks=(
            *grown(talk, 4),
            Ask(body=_edited(2, 0, [text("Another first question.")]), through="other"),
            Ask(body=_edited(5, 0, [text("Another first question.")])),
        )
    ),
}

RESETS: dict[str, Example] = {
    "memory_blocks": Example(
        asks=(
            *grown(lambda n: talk(n, system=f"{HOUSE}\n\n# Memory\n- small commits"), 2),
            Ask(
                body=talk(3, system=f"{HOUSE}\n\n# Memory\n- small commits\n- no pushes"), reset="memory_block_changed"
            ),
        )
    ),
    "bypass": Example(
        asks=(
            *grown(lambda n: talk(n, system=_clock(n)), 3),
            Ask(body=talk(4, system=_clock(4)), through="past"),
            Ask(body=talk(5, system=_clock(5))),
        ),
        way="repairs",
    ),
}

EXAMPLES = FAULTS | CAUSES | RESETS

_OTHERWISE: dict[str, Example] = {
    "tools": FAULTS["tool_added"],
    "system": CAUSES["system_prompt_changed"],
    "messages": FAULTS["compaction"],
    "model": CAUSES["model_changed"],
    "settings": CAUSES["parameters_changed"],
}


def departures(reason: str) -> dict[str, Example]:
    """Conversations whose prefix changes in each place, with this reason announced for it."""
    found = {}
    for place, example in _OTHERWISE.items():
        number = 4 if place == "messages" else 2
        asks = [replace(ask, reset=reason if n == number else None) for n, ask in enumerate(example.asks)]
        found[place] = replace(example, asks=tuple(asks))
    return found


WANTED = tuple(reason for reason in RESET_REASONS if reason not in ("memory_block_changed", "bypassed", "unmarked"))
"""Resets that go by the name of their reason."""
