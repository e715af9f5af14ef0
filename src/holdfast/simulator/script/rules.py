"""A script as frozen values, what its rules see of a conversation, and which step it takes there.

`line` is where a thing stands in its file, for messages. Everything is counted from the messages. Which rules were
taken before, where a rule may be taken only so often, is found by playing the conversation from its beginning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.records import Block, Message, Request, Text, ToolResult, ToolUse

ANY = "any"
"""In the place of a tool's name: whichever tool is offered."""

StopWord = Literal["end", "limit", "refusal"]


class CallStep(Struct, frozen=True):
    """A tool call. Without `input` one is made that fits the tool's schema."""

    tool: str
    input: dict[str, Any] | None = None
    line: int = 0


class ScriptStep(Struct, frozen=True, kw_only=True):
    """One reply: thoughts, text, calls, in this order. `tokens` is the least length of the whole, made with filler."""

    say: str | None = None
    think: str | None = None
    calls: tuple[CallStep, ...] = ()
    stop: StopWord | None = None
    tokens: int = 0
    first_token: float | None = None
    per_token: float | None = None
    line: int = 0


class When(Struct, frozen=True, kw_only=True):
    """Conditions on the last message; all that are given must hold."""

    contains: str | None = None
    matches: str | None = None
    tool_result: str | None = None
    turn: int | None = None
    role: str | None = None


class ScriptRule(Struct, frozen=True):
    """A step with its condition; `times` limits how often it is taken in one conversation."""

    step: ScriptStep
    when: When = When()
    times: int | None = None


class Script(Struct, frozen=True, kw_only=True):
    """`turns` are played first, by the number of the assistant's turn; then the first rule that holds; then an echo.

    `function` is a Python script's `reply`; a script with one has no turns and no rules.
    """

    name: str
    turns: tuple[ScriptStep, ...] = ()
    rules: tuple[ScriptRule, ...] = ()
    first_token: float = 0.0
    per_token: float = 0.0
    function: Callable[[Request], object] | None = None
    line: int = 0

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools it calls by name, sorted."""
        steps = (*self.turns, *(rule.step for rule in self.rules))
        return tuple(sorted({call.tool for step in steps for call in step.calls} - {ANY}))


SHORTENED = 400
"""Characters of an echo: enough to recognise a message, short enough not to double a conversation every turn."""


class LastToolResult(Struct, frozen=True):
    """A tool's answer in the last message."""

    tool: str
    text: str


class Scene(Struct, frozen=True):
    """The end of a conversation: the last message and the number of the assistant's turn that answers it."""

    role: str
    text: str
    last_text: str
    turn: int
    results: tuple[LastToolResult, ...] = ()


def scene(messages: Sequence[Message]) -> Scene:
    """Return what is new since the assistant's last message; system notes do not hide what they follow."""
    begin = _after_assistant(messages)
    news = [message for message in messages[begin:] if message.role != "system"] or list(messages[begin:])
    if not news:
        news = list(messages[-1:])  # the client began the answer itself, or there is nothing at all
    turn = 1 + sum(message.role == "assistant" for message in messages[:-1])
    last = [news[-1]] if news else []
    while last and _only_results(last[0]) and len(last) < len(news) and _only_results(news[-1 - len(last)]):
        last.insert(0, news[-1 - len(last)])
    results = tuple(
        LastToolResult(_tool_of(block.tool_use_id, messages), _text(block.content))
        for message in news
        for block in message.content
        if isinstance(block, ToolResult)
    )
    texts = [_block_text(block) for message in last for block in message.content]
    texts = [text for text in texts if text]
    role = "user" if not last else "tool" if _only_results(last[-1]) else last[-1].role
    return Scene(role, "\n".join(texts), texts[-1] if texts else "", turn, results)


def last_turn(messages: Sequence[Message]) -> int:
    """Where the assistant's last message stands; zero if it has not spoken."""
    return next((index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "assistant"), 0)


def _after_assistant(messages: Sequence[Message]) -> int:
    begin = last_turn(messages)
    return begin + 1 if messages and messages[begin].role == "assistant" else 0


def _only_results(message: Message) -> bool:
    return bool(message.content) and all(isinstance(block, ToolResult) for block in message.content)


def _block_text(block: Block) -> str:
    if isinstance(block, ToolResult):
        return _text(block.content)
    return block.text if isinstance(block, Text) else ""


def _text(blocks: Sequence[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _tool_of(call: str, messages: Sequence[Message]) -> str:
    """The tool a result answers; the latest call with its id."""
    for message in reversed(messages):
        for block in message.content:
            if isinstance(block, ToolUse) and block.id == call:
                return block.name
    return ""


def choose(script: Script, messages: Sequence[Message]) -> tuple[Scene, ScriptStep]:
    """The step a script takes at the end of these messages: a turn, the first rule that holds, or an echo."""
    now = scene(messages)
    fired: Counter[int] = Counter()
    if any(rule.times is not None for rule in script.rules):
        for index, message in enumerate(messages[:-1]):
            if message.role == "assistant":
                fired.update(_rule(script, scene(messages[:index]), fired))
    if now.turn <= len(script.turns):
        return now, script.turns[now.turn - 1]
    chosen = _rule(script, now, fired)
    return now, script.rules[chosen[0]].step if chosen else ScriptStep(say=shorten(now.last_text))


def _rule(script: Script, at: Scene, fired: Counter[int]) -> tuple[int, ...]:
    """The index of the first rule that holds, alone; nothing where a turn is played or no rule holds."""
    if at.turn <= len(script.turns):
        return ()
    for index, rule in enumerate(script.rules):
        if (rule.times is None or fired[index] < rule.times) and holds(rule.when, at):
            return (index,)
    return ()


def holds(when: When, at: Scene) -> bool:
    """Whether all conditions hold."""
    if when.turn is not None and when.turn != at.turn:
        return False
    if when.role is not None and when.role != at.role:
        return False
    if when.tool_result is not None and not _answered(when.tool_result, at):
        return False
    if when.contains is not None and when.contains not in at.text:
        return False
    return when.matches is None or re.search(when.matches, at.text) is not None


def _answered(tool: str, at: Scene) -> bool:
    return bool(at.results) if tool == ANY else any(result.tool == tool for result in at.results)


def shorten(text: str) -> str:
    """The beginning of a text, cut between words where there are any."""
    text = text.strip()
    if len(text) <= SHORTENED:
        return text
    head = text[:SHORTENED]
    at = max(head.rfind(" "), head.rfind("\n"))
    return head[: at if at > SHORTENED // 2 else SHORTENED].rstrip() + " …"
