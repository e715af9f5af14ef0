"""A conversation of an agent that has skills: the official SDK with the engine inside, and a simulated provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic

from holdfast import Engine
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.core.padding import Outlook
from holdfast.records import Message, Request, Text, ToolResult, Usage
from holdfast.records.events import Bus, Envelope
from holdfast.simulator import Simulator
from holdfast.simulator.script import Script
from holdfast.simulator.server import running
from holdfast.skills.loader import load_skills
from holdfast.skills.session import SessionSkills, SkillPrompt
from holdfast.store import Break, Session, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.wire import DIALECTS
from tests.support.toolboxes import toolbox

MODEL = "claude-opus-4-6"
WIRE = DIALECTS["anthropic"]
PERSONA = "You help the people of a small company, and say briefly what you did. " * 20
LIMITS = LimitSettings(stages_ms=60_000, wait_ms=60_000)  # a busy machine must not decide what is tested


def reply(request: Request) -> object:
    """The scripted model: it makes the calls that the user's last message names, then says that it is done."""
    last = request.messages[-1].content[-1]
    if not isinstance(last, Text):
        return "Done."
    calls = json.loads(last.text.partition("\n")[0])
    return {"call": [{"tool": tool, "input": given} for tool, given in calls]} if calls else "Nothing to do."


def heard(content: Any) -> Message:
    """What the SDK gave, as the next request carries it."""
    body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "assistant", "content": content}]}
    parsed = WIRE.parse(json.dumps(body).encode())
    return WIRE.decode(parsed).messages[0]


class Conversation:
    """One session of an agent. `sent` are the request bodies as the program made them."""

    def __init__(self, place: Path, root: Path | None, *, settings: SkillsSettings, mode: Any, persona: str) -> None:
        self.bus = Bus()
        self._heard = self.bus.subscribe()
        self._events: list[Envelope] = []
        self.store: SqliteStore = open_store(place / "h.db")
        self.engine = Engine(Settings(gateway=GatewaySettings(limits=LIMITS)), store=self.store, bus=self.bus)
        self.simulator = Simulator(script=Script(name="skills", function=reply))
        store = load_skills(global_dir=root, workspace_dir=None)
        self.skills = SessionSkills(store, settings=settings)
        (place / "work").mkdir(exist_ok=True)
        self.box = toolbox(
            model=f"anthropic:{MODEL}", workspace=place / "work", home=place / "home", bus=self.bus, skills=self.skills
        )
        self.messages: list[Message] = []
        self.composed = SkillPrompt(text="", index="", padding="", preloaded=(), why="")
        self.composed = self.skills.compose(
            persona,
            tools=self.box.definitions(),
            models=[self.box.toolset.facts],
            cache=CacheSettings(padding=mode),
            outlook=Outlook(calls=20),
        )
        self.skills.announce(self.box.journal)
        self.sent: list[dict[str, Any]] = []
        self.client: anthropic.AsyncAnthropic | None = None

    async def ask(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult]:
        """A turn of the user's, to its end: the results of the calls that the model made in it."""
        self.messages.append(Message("user", (Text(json.dumps(calls) + "\n" + "Please go on. " * 40),)))
        found: list[ToolResult] = []
        while True:
            said = await self._send()
            self.messages.append(said)
            ran = await self.box.run(said, turn=f"turn-{len(self.sent)}")
            found += [answer.result for answer in ran.answers]
            self.messages += ran.messages
            if not ran.answers:
                self.box.turn_over()
                return found

    async def _send(self) -> Message:
        body = json.loads(WIRE.encode(self._request()))
        self.sent.append(body)
        answer = await self.client.messages.create(**body)
        return heard(answer.model_dump(mode="json", exclude_unset=True)["content"])

    def _request(self) -> Request:
        return Request(
            model=MODEL,
            tools=self.box.definitions(),
            system_prompt=self.composed.text,
            messages=tuple(self.messages),
            output_limit=500,
        )

    # What came of it

    def used(self) -> list[Usage]:
        """What the provider billed for each request."""
        return [record.usage for record in self.simulator.journal.records() if record.usage is not None]

    def breaks(self) -> list[Break]:
        self.store.write(op.PutSession(Session(tenant="-", id="-", started_at=0))).result(30)  # it comes behind them
        return self.store.breaks()

    def events(self, *kinds: str) -> list[Envelope]:
        """What was told so far, of these kinds."""
        self._events += self._heard.drain()
        return [event for event in self._events if not kinds or event.payload.type in kinds]


@contextmanager
def conversing(
    place: Path,
    root: Path | None,
    *,
    settings: SkillsSettings = SkillsSettings(),  # noqa: B008
    mode: Any = "always",
    persona: str = PERSONA,
) -> Iterator[Conversation]:
    talk = Conversation(place, root, settings=settings, mode=mode, persona=persona)
    try:
        with running(talk.simulator) as address:
            talk.client = anthropic.AsyncAnthropic(
                base_url=address, api_key="k", max_retries=0, http_client=talk.engine.async_http_client()
            )
            yield talk
    finally:
        talk.store.close()
        talk.bus.close()


def text(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, Text))
