"""A shape trace as blocks that can be written: their author, kind and exact number of tokens.

Sizes come from `lab.rebuild`. A call without a result becomes text, so that every call is answered; a block is at least
as large as its shortest form, at the expense of others of its request. Both ways of replaying start here: prompts are
made of it directly, and `filler_requests` writes texts of exactly these sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256, shake_256
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block, Prompt, Section
from holdfast.caches import prompt as prompt_of
from holdfast.facts import ModelFacts
from holdfast.records import Block as RequestBlock
from holdfast.records import Message, Request, Text, Thinking, ToolDefinition, ToolResult, ToolUse, usage
from holdfast.report.logs import Shape, TraceStep

from .rebuild import OVERHEAD, Head, Rebuilt, head_of, rebuild

CALL, RESULT, TOOL = 29, 27, 17
"""Tokens of a tool call, a result and a tool's definition beside their texts, as filler texts spell them."""

LONGEST = 40_000
"""Tokens of one text: beyond 200,000 characters tokens are sampled and no longer counted."""

TOOLS = 12
TOOL_SHARE = 0.6
"""How much of what sessions share is tools: a trace does not tell them from the system text."""

CHARS = 4
"""Characters to a token where nothing was billed."""

_THINKING = ("thinking", "redacted_thinking")
_LEAST = {"tool_use": CALL + 1, "tool_result": RESULT + 1, "tool": TOOL + 1}


class Part(Struct, frozen=True):
    """A block to be. `name` is what it is known by: the same name and size is the same block. `call` numbers a tool
    call and its result."""

    section: Section
    kind: str
    role: str
    message: int
    name: str
    tokens: int
    call: str = ""


def laid_out(steps: Sequence[TraceStep]) -> Iterator[tuple[Part, ...]]:
    """What each request of a lane holds, from its first block to its last."""
    steps = _billed(steps)
    head = tuple(_head(head_of(steps)))
    messages = _Said()
    for request in rebuild(steps):
        yield (*head, *messages.grown(request))


def prompts(parts: Iterable[tuple[Part, ...]], model: ModelFacts) -> Iterator[Prompt]:
    """The same as a cache of this model sees it, without markers."""
    blocks: dict[Part, Block] = {}
    like = None
    for request in parts:
        for part in request:
            if part not in blocks:
                blocks[part] = _block(part)
        like = prompt_of(model, [blocks[part] for part in request], like=like)
        yield like


def _block(part: Part) -> Block:
    digest = sha256(f"{part.section}|{part.kind}|{part.role}|{part.name}|{part.tokens}|{part.call}".encode()).digest()
    return Block(
        part.section, part.kind, part.role, part.message, digest[:16], part.tokens, markable=part.kind != "thinking"
    )


def _billed(steps: Sequence[TraceStep]) -> Sequence[TraceStep]:
    """The steps with a bill to take sizes from; where one is missing, all are estimated from their characters."""
    if all(step.usage is not None for step in steps):
        return steps
    priced, total = [], 0
    for step in steps:
        assert isinstance(step.content, Shape)
        total = 0 if step.reset is not None else total
        total += sum(block.chars + OVERHEAD for block in step.content.added) // CHARS
        output = 0 if step.usage is None else step.usage.output
        priced.append(replace(step, usage=usage(output=output, writes={"5m": total})))
    return priced


def _head(head: Head) -> Iterator[Part]:
    """Tools, then the system text: what sessions share in one block, and what is this one's in another."""
    shared = head.shared or head.whole
    name = f"head {head.shared} {head.whole}"
    each = int(shared * TOOL_SHARE) // TOOLS
    tools = TOOLS if each >= 2 * _LEAST["tool"] else 0
    for number in range(tools):
        yield Part("tools", "tool", "", -1, f"{name} tool {number}", each, f"{number:03}")
    for text, tokens in (("shared", shared - tools * each), ("own", head.whole - shared)):
        for number, size in enumerate(_pieces(tokens)):
            yield Part("system", "text", "system", -1, f"{name} {text} {number}", size)


class _Said:
    """The messages of a lane as they grow."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._messages = 0
        self._calls = 0
        self._owed = 0  # tokens that earlier blocks took beyond their size

    def grown(self, request: Rebuilt) -> list[Part]:
        """Return the parts of a request: the earlier ones, unless it was reset, and the new ones."""
        step = request.step
        blocks = [block for block in request.billed if block.markable and block.section == "messages"]
        if request.shrank or step.reset is not None:
            self._parts, self._messages, self._owed = [], 0, 0
        new = [block for block in blocks if block.message == step.number]
        self._add([_plain(block) for block in new], f"{step.lane}/{step.number}")
        if not self._parts:  # a provider refuses a request without messages
            self._add([("user", "text", 1)], f"{step.lane}/{step.number}")
        return self._parts

    def _add(self, new: list[tuple[str, str, int]], name: str) -> None:
        if new and not self._parts:  # and a conversation begins with its user
            begins = next((i for i, (role, _, _) in enumerate(new) if role == "user"), len(new))
            new = [("user", "text", size) for _, _, size in new[:begins]] + new[begins:]
        pieces = [
            (role, kind, piece)
            for role, kind, size in _paired(new)
            for piece in (_pieces(max(1, size)) if kind == "text" else [size])
        ]
        sizes, self._owed = _fitted(pieces, self._owed)
        role_before, open_calls = "", list[str]()
        for index, ((role, kind, _), size) in enumerate(zip(pieces, sizes, strict=True)):
            self._messages += role != role_before
            call = ""
            if kind == "tool_use":
                self._calls += 1
                call = f"{self._calls // 1000:03}_{self._calls % 1000:03}"
                open_calls.append(call)
            elif kind == "tool_result":
                call = open_calls.pop(0)
            role_before = role
            self._parts.append(Part("messages", kind, role, self._messages - 1, f"{name}/{index}", size, call))


def _plain(block: Block) -> tuple[str, str, int]:
    """Role, kind and size, in the few roles and kinds that are written."""
    role = "assistant" if block.role == "assistant" else "user"
    kind = "thinking" if block.kind in _THINKING and role == "assistant" else block.kind
    if kind not in ("thinking", "tool_use", "tool_result"):
        kind = "text"
    return role, kind, block.tokens


def _paired(new: Sequence[tuple[str, str, int]]) -> Iterator[tuple[str, str, int]]:
    """Calls and results that belong together; the others as text. Results come first in their message."""
    runs: list[list[tuple[str, str, int]]] = []
    for item in new:
        if not runs or runs[-1][0][0] != item[0]:
            runs.append([])
        runs[-1].append(item)
    for before, run, after in zip(([], *runs), runs, (*runs[1:], []), strict=False):
        if run[0][0] == "assistant":
            kind, pairs = "tool_use", min(_count(run, "tool_use"), _count(after, "tool_result"))
        else:
            kind, pairs = "tool_result", min(_count(before, "tool_use"), _count(run, "tool_result"))
        blocks = []
        for role, what, size in run:
            pairs -= what == kind
            is_text = what in ("tool_use", "tool_result") and (what != kind or pairs < 0)
            blocks.append((role, "text" if is_text else what, size))
        yield from sorted(blocks, key=lambda item: item[1] != "tool_result") if kind == "tool_result" else blocks


def _count(run: Sequence[tuple[str, str, int]], kind: str) -> int:
    return sum(1 for _, block_kind, _ in run if block_kind == kind)


def _pieces(tokens: int) -> list[int]:
    """Split tokens into as few texts as can be counted."""
    whole, rest = divmod(tokens, LONGEST)
    return [LONGEST] * whole + ([rest] if rest else [])


def _fitted(pieces: Sequence[tuple[str, str, int]], owed: int) -> tuple[list[int], int]:
    """Return sizes that can be written, with the same sum less `owed`, and what is still owed."""
    least = [_LEAST.get(kind, 1) for _, kind, _ in pieces]
    sizes = [max(size, need) for (_, _, size), need in zip(pieces, least, strict=True)]
    owed += sum(sizes) - sum(size for _, _, size in pieces)
    for index in sorted(range(len(sizes)), key=lambda i: least[i] - sizes[i]):
        cut = min(owed, sizes[index] - least[index])
        sizes[index], owed = sizes[index] - cut, owed - cut
    return sizes, owed


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


def filler_requests(parts: Iterable[tuple[Part, ...]], model: str) -> Iterator[Request]:
    """The requests of a lane, with texts."""
    written: dict[Part, RequestBlock] = {}
    for request in parts:
        tools, system, messages = (_section(request, section) for section in ("tools", "system", "messages"))
        for part in (*system, *messages):
            if part not in written:
                written[part] = _written(part)
        yield Request(
            model=model,
            tools=tuple(ToolDefinition(f"tool_{part.call}", words(part.name, part.tokens - TOOL)) for part in tools),
            system_prompt=tuple(written[part] for part in system) or None,
            messages=tuple(
                Message("assistant" if role == "assistant" else "user", tuple(written[part] for part in message))
                for (_, role), message in groupby(messages, key=lambda part: (part.message, part.role))
            ),
            output_limit=OUTPUT_LIMIT,
        )


def words(name: str, tokens: int) -> str:
    """Return `tokens` pseudo-random words, seeded by the name."""
    return " ".join([WORDS[byte] for byte in shake_256(name.encode()).digest(tokens)])


def _section(request: Sequence[Part], section: str) -> list[Part]:
    return [part for part in request if part.section == section]


def _written(part: Part) -> RequestBlock:
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
