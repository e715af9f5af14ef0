"""Texts of our own making for sessions of which only sizes are known: the same words every time, every block exactly as
many tokens as it had.

Words are three letters long and one token each, so that a token is four characters here as in most texts. Faults of
clients and whole request bodies are possible with them where a trace has no texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import shake_256
from itertools import groupby

from holdfast.records import Block, Message, Request, Text, Thinking, ToolDefinition, ToolResult, ToolUse

from .shape_blocks import CALL, RESULT, TOOL, Part

OUTPUT_LIMIT = 8_192

_TEXT = (
    "the and for are but not you all any can had her was one our out day get has him his how man new now old see "
    "two way who boy did its let put say she too use act add age ago aid aim air arm art ask bag bar bat bay bed "
    "beg big bid bin bit bow box bus buy cab cap car cat cry cup cut dad dam den dig dim dip dog dot dry due ear "
    "eat egg ego end era eve eye fan far fed fee few fig fin fit fix fly fog fox fun fur gap gas gel gem got gum "
    "gym ham hat hay hen hip hit hop hot hug hut ice icy ink inn ion ivy jam jar jaw jet job joy key kin kit lab "
    "lad lag lap law lay led leg lid lie lip log lot low map mat max may men met mid mix mob mod mom mud net nod "
    "nor nut oak odd off oil opt ore own pad pan pat pay pen per pet pie pin pit pop pot pub rag ram ran rap rat "
    "raw ray red rib rid rim rip rod rot row rub rug run sad sat sea set sip sir sit six ski sky son spa sub sum "
    "sun tab tag tan tap tar tax tea ten tie tin tip toe ton top tow toy try van vet via wax web wed wet why wig "
    "win wit won yes yet zip abs ace ads aka amp ant apt"
)
WORDS = _TEXT.split(" ")
"""256 of them: one for each value of a byte."""


def requests(parts: Iterable[tuple[Part, ...]], model: str) -> Iterator[Request]:
    """The requests of a lane, with texts."""
    written: dict[Part, Block] = {}
    for request in parts:
        tools, system, said = (_section(request, section) for section in ("tools", "system", "messages"))
        for part in (*system, *said):
            if part not in written:
                written[part] = _written(part)
        yield Request(
            model=model,
            tools=tuple(_tool(part) for part in tools),
            system_prompt=tuple(written[part] for part in system) or None,
            messages=tuple(
                Message("assistant" if role == "assistant" else "user", tuple(written[part] for part in message))
                for (_, role), message in groupby(said, key=lambda part: (part.message, part.role))
            ),
            output_limit=OUTPUT_LIMIT,
        )


def words(name: str, tokens: int) -> str:
    """So many words, told by a name."""
    return " ".join([WORDS[byte] for byte in shake_256(name.encode()).digest(tokens)])


def _section(request: Sequence[Part], section: str) -> list[Part]:
    return [part for part in request if part.section == section]


def _tool(part: Part) -> ToolDefinition:
    return ToolDefinition(f"tool_{part.call}", words(part.name, part.tokens - TOOL))


def _written(part: Part) -> Block:
    if part.kind == "tool_use":
        # two keys, so that a client can put them in another order
        text = words(part.name, part.tokens - CALL)
        tool = int(part.call[-3:]) % 12
        return ToolUse(f"call_{part.call}", f"tool_{tool:03}", b'{"place":"here","text":"%b"}' % text.encode())
    if part.kind == "tool_result":
        return ToolResult(f"call_{part.call}", (Text(words(part.name, part.tokens - RESULT)),))
    if part.kind == "thinking":
        return Thinking(words(part.name, part.tokens), signature="made up")
    return Text(words(part.name, part.tokens))
