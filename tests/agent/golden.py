"""What every kind of item and entry is sent as. What was sent once is sent so for ever: a text here may be joined by
others and never changed."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from holdfast.agent.window.entries import (
    AttemptFeedback,
    Compacted,
    Continue,
    DetachedProcessExited,
    DetachedProcessStarted,
    Entry,
    Escalation,
    GoalInjection,
    KnowledgeNews,
    MemoryChanged,
    SessionContext,
    SettingToggledItem,
    SubagentStatus,
    SurroundingsChangedItem,
    TaskUpdate,
    Timeline,
    TimelineItem,
    ToolServerGone,
    UserMessage,
    Window,
    to_json,
)
from holdfast.agent.window.renderer import render
from holdfast.records import Image, Message, Text, Thinking, ToolResult, ToolUse
from tests.agent.stories import START, STATIC, assistant_turn, window

AT: dict[str, Any] = {"at": START}
SEQ: dict[str, Any] = {"at": START, "seq": 0}
HERE = "[2026-11-16 10:42:05 UTC]"
IMAGE = Image("image/png", "AAAA")

ITEMS: list[tuple[TimelineItem, list[str]]] = [
    (UserMessage(**SEQ, text="Fix the bug."), ["Fix the bug."]),
    (UserMessage(**SEQ, text="See:", attachments=(IMAGE,)), ["See:", "Image"]),
    (
        DetachedProcessStarted(**SEQ, process="p1", command="npm run dev"),
        [f"{HERE} Background process p1 started: npm run dev"],
    ),
    (
        DetachedProcessStarted(**SEQ, process="p1", command="cat <<E\n" + "x" * 400),
        [f"{HERE} Background process p1 started: cat <<E {'x' * 292}…"],
    ),
    (DetachedProcessExited(**SEQ, process="p1", exit_code=0), [f"{HERE} Background process p1 exited with code 0."]),
    (DetachedProcessExited(**SEQ, process="p1", exit_code=-9), [f"{HERE} Background process p1 exited with code -9."]),
    (
        DetachedProcessExited(**SEQ, process="p1", exit_code=None),
        [f"{HERE} Background process p1 ended without an exit code."],
    ),
    (
        SubagentStatus(**SEQ, delegate="d1", status="started", role="reviewer", text="Read\nit."),
        [f"{HERE} Sub-agent d1 (reviewer) started: Read it."],
    ),
    (SubagentStatus(**SEQ, delegate="d1", status="started"), [f"{HERE} Sub-agent d1 started."]),
    (
        SubagentStatus(**SEQ, delegate="d1", status="completed", role="reviewer", text="All\nwell."),
        [f"{HERE} Sub-agent d1 (reviewer) completed: All\nwell."],
    ),
    (SubagentStatus(**SEQ, delegate="d1", status="failed", text="timeout"), [f"{HERE} Sub-agent d1 failed: timeout"]),
    (SubagentStatus(**SEQ, delegate="d1", status="cancelled"), [f"{HERE} Sub-agent d1 cancelled."]),
    (TaskUpdate(**SEQ, task="tests", status="done"), [f"{HERE} Task tests: done."]),
    (TaskUpdate(**SEQ, task="tests", status="open", text="Two fail."), [f"{HERE} Task tests: open. Two fail."]),
    (Escalation(**SEQ, delegate="d1", question="Which one?"), [f"{HERE} Sub-agent d1 asks: Which one?"]),
    (MemoryChanged(**SEQ, store="USER.md", text="- likes tea"), [f"{HERE} Memory file USER.md says:\n- likes tea"]),
    (
        KnowledgeNews(**SEQ, text="Notes.\n- k1 (gotcha): Ports\n> 81", entries=(("k1", "ab"),)),
        [f"{HERE} Notes.\n- k1 (gotcha): Ports\n> 81"],
    ),
    (ToolServerGone(**SEQ, server="github"), [f"{HERE} Tool server github is gone. Its tools no longer work."]),
    (
        ToolServerGone(**SEQ, server="github", tools=("a", "b")),
        [f"{HERE} Tool server github is gone. These tools no longer work: a, b."],
    ),
    (SettingToggledItem(**SEQ, setting="plan mode", value="on"), [f"{HERE} Setting plan mode is now on."]),
    (SurroundingsChangedItem(**SEQ, text="+ a.py"), [f"{HERE} The surroundings have changed:\n+ a.py"]),
    (Continue(**SEQ), ["(continue)"]),
]
USES = (Thinking("hm", "sealed"), Text("Let me see."), ToolUse("t1", "read_file", b'{"path":"a"}'))
RESULT = Message("user", (ToolResult("t1", (Text("one\n"),), True),))
ENTRIES: list[tuple[Entry, tuple[Message, ...]]] = [
    (SessionContext(**AT, text="A workspace."), (Message("user", (Text("A workspace."),)),)),
    (assistant_turn(*USES, results=(RESULT,)), (Message("assistant", USES), RESULT)),
    (
        Timeline(**AT, items=(UserMessage(**SEQ, text="a"), Continue(**SEQ))),
        (Message("user", (Text("a"), Text("(continue)"))),),
    ),
    (Compacted(**AT, text="Before.", replaced=3), (Message("user", (Text("Before."),)),)),
    (GoalInjection(**AT, text="Ship it."), (Message("user", (Text("The goal of this session is now:\nShip it."),)),)),
    (GoalInjection(**AT, text=""), (Message("user", (Text("The goal of this session was given up."),)),)),
    (AttemptFeedback(**AT, text="It was empty."), (Message("user", (Text("It was empty."),)),)),
]
WHOLE = window(*(entry for entry, _ in ENTRIES), Timeline(**AT, items=tuple(item for item, _ in ITEMS)))


def digest(made: Window = WHOLE, zone: str = "Europe/Berlin") -> str:
    """Of the messages of a window, to the byte."""
    return hashlib.sha256(to_json(render(made, msgspec.structs.replace(STATIC, timezone=zone))).encode()).hexdigest()
