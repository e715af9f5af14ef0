"""Checks of the arguments that programs pass to an agent: each error names what to pass instead."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import get_args

import msgspec

from holdfast.errors import ArgumentError, HoldfastError, kind_of, wrong_argument
from holdfast.records import Document, Image
from holdfast.records.events import CATALOGUE, Bus, Event
from holdfast.tools import Cancel, Effect, GuideSection, Tool

from .contract import Equipment, Host, Task, Watch

EFFECTS: tuple[str, ...] = get_args(Effect)

_TOOLS = "a list of tools, such as tools=[find_room], each made with @tool(effect='read') of holdfast"
_GUIDES = "texts by the names of tools, such as guides={'read_file': 'Long files are read in parts.'}"
_SECTIONS = (
    "a list of sections of holdfast.tools, such as "
    "sections=[GuideSection(name='rooms', text='Rooms are on floor 2.', tools=('find_room',))]"
)
_EVENT = "an event, such as session.tell('task.updated', {'task': 'deploy', 'status': 'done'})"
_TASKS = "a list of tasks, such as session.delegate([Task(task='Read the tests.', role='reviewer')])"


def check_place(argument: str, value: object) -> None:
    if not isinstance(value, (str, os.PathLike)):
        raise wrong_argument(argument, value, "a directory as a text or Path, such as open_agent('.')")


def check_flags(flags: object) -> None:
    if flags is None:
        return
    example = "settings by their names, such as flags={'agent.model': 'anthropic:claude-haiku-4-5'}"
    if not isinstance(flags, Mapping):
        raise wrong_argument("open_agent(flags=…)", flags, example)
    for name in flags:
        if not isinstance(name, str):
            raise ArgumentError(f"open_agent(flags=…) has a name that is {kind_of(name)}; give {example}")


def check_switch(argument: str, value: object, means: str) -> None:
    if not isinstance(value, bool):
        raise wrong_argument(argument, value, f"True or False, which says whether {means}")


def check_tools(tools: object) -> tuple[Tool, ...]:
    if isinstance(tools, (str, bytes, Tool)) or not isinstance(tools, Iterable):
        raise wrong_argument("tools=…", tools, _TOOLS)
    checked = tuple(tools)
    for each in checked:
        if not isinstance(each, Tool):
            name = str(getattr(each, "__name__", "…"))
            raise wrong_argument(f"tools=[{name if name.isidentifier() else '…'}]", each, _TOOLS)
        if each.effect not in EFFECTS or not callable(each.run):
            raise ArgumentError(
                f"the tool {each.name} has no function to run, or an effect that is none of {', '.join(EFFECTS)}; "
                "make it with @tool(effect='read') of holdfast.tools"
            )
    return checked


def check_guides(guides: object) -> dict[str, str]:
    if guides is None:
        return {}
    if not isinstance(guides, Mapping):
        raise wrong_argument("guides=…", guides, _GUIDES)
    for name, text in guides.items():
        if not isinstance(name, str):
            raise ArgumentError(f"guides=… has a name that is {kind_of(name)}; give {_GUIDES}")
        if not isinstance(text, str):
            raise wrong_argument(f"guides={{{name!r}: …}}", text, _GUIDES)
    return dict(guides)


def check_sections(sections: object) -> tuple[GuideSection, ...]:
    if isinstance(sections, (str, bytes, GuideSection, Mapping)) or not isinstance(sections, Iterable):
        raise wrong_argument("sections=…", sections, _SECTIONS)
    checked = tuple(sections)
    for each in checked:
        if not isinstance(each, GuideSection):
            raise wrong_argument("sections=[…]", each, _SECTIONS)
        if not isinstance(each.name, str) or not isinstance(each.text, str) or not _are_names(each.tools):
            raise ArgumentError(
                f"a section of sections=[…] has no text as its name or text, or tools that are no tuple of names; "
                f"give {_SECTIONS}"
            )
    return checked


def _are_names(tools: object) -> bool:
    return isinstance(tools, (tuple, list)) and all(isinstance(each, str) for each in tools)


def check_host(host: object, equipment: object) -> None:
    """The parts that an agent stands on, where they are not ours."""
    if not isinstance(host, Host):
        raise wrong_argument("Sessions(host=…)", host, "a Host of holdfast.agent: Host(provider=…, engine=…)")
    if not isinstance(equipment, Equipment):
        raise wrong_argument("Sessions(equipment=…)", equipment, "an Equipment of holdfast.agent: Equipment(tools=[…])")
    provider, confirm, persona = host.provider, host.confirm, equipment.persona
    bus, clock = host.bus, host.clock
    if not callable(getattr(provider, "open", None)):
        raise wrong_argument(
            "provider=…", provider, "a Provider, such as HttpProvider, or leave it out for the configured services"
        )
    if confirm is not None and not callable(confirm):
        raise wrong_argument("confirm=…", confirm, "a function of the question, or leave it out to be refused")
    if persona is not None and not isinstance(persona, str):
        raise wrong_argument("persona=…", persona, "a text, such as persona='You are a librarian.'")
    if bus is not None and not isinstance(bus, Bus):
        raise wrong_argument("bus=…", bus, "a Bus of holdfast.records.events, such as bus=Bus()")
    if not callable(clock):
        raise wrong_argument("clock=…", clock, "a function that gives seconds, such as clock=time.time")


def check_text(argument: str, value: object, example: str) -> None:
    if not isinstance(value, str):
        raise wrong_argument(argument, value, f"a text, such as {example}")


def check_id(argument: str, value: object) -> None:
    check_text(argument, value, f"{argument}(session.id)")
    if not value:
        raise HoldfastError(f"{argument} got an empty id; give one of `sessions.stored()`, or the beginning of one")


def check_model(argument: str, value: object) -> None:
    """A name of a model; whether there is such a one is another question."""
    example = "anthropic:claude-haiku-4-5"
    check_text(
        argument, value, argument.replace("…", f"'{example}'") if "…" in argument else f"{argument}('{example}')"
    )
    assert isinstance(value, str)
    if not value.strip() or value.strip().endswith(":"):
        raise HoldfastError(
            f"{argument} got {value!r}, which names no model; give one as provider:name, such as {example}"
        )


def check_level(argument: str, value: object, levels: Sequence[str]) -> None:
    """A level of thinking as a text; whether the model takes it is another question."""
    if not isinstance(value, str):
        taken = f"one of {', '.join(map(repr, levels))}, or " if levels else ""
        raise wrong_argument(argument, value, f"{taken}'default' for the provider's own")


def check_calls(value: object) -> None:
    example = "a number of requests, 1 or more, such as create(expected_calls=4)"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong_argument("create(expected_calls=…)", value, example)
    if not 1 <= value < math.inf:
        raise HoldfastError(f"create(expected_calls=…) got {value}; give {example}")


def check_said(text: object, attachments: object, watch: object, cancel: object) -> None:
    """What `Session.ask` is given."""
    check_text("session.ask", text, "session.ask('What does this project do?')")
    if isinstance(attachments, (str, bytes)) or not isinstance(attachments, Sequence):
        raise wrong_argument("session.ask(attachments=…)", attachments, _ATTACHMENTS)
    for each in attachments:
        if not isinstance(each, (Image, Document)):
            raise wrong_argument("session.ask(attachments=[…])", each, _ATTACHMENTS)
    check_watched("session.ask", watch, cancel)


_ATTACHMENTS = "images and documents of holdfast.records, such as attachments=[Image(media_type='image/png', data=…)]"


def check_watched(argument: str, watch: object, cancel: object) -> None:
    if watch is not None and not isinstance(watch, Watch):
        raise wrong_argument(f"{argument}(watch=…)", watch, "an object of a class that extends Watch of holdfast.agent")
    if cancel is not None and not isinstance(cancel, Cancel):
        raise wrong_argument(f"{argument}(cancel=…)", cancel, "a Cancel of holdfast.tools, such as cancel=Cancel()")


def check_tasks(tasks: object, watch: object, cancel: object) -> None:
    """What `Session.delegate` is given."""
    if isinstance(tasks, (str, bytes, Task, Mapping)) or not isinstance(tasks, Sequence):
        raise wrong_argument("session.delegate", tasks, _TASKS)
    for each in tasks:
        if not isinstance(each, Task):
            raise wrong_argument("session.delegate([…])", each, _TASKS)
        if not isinstance(each.task, str) or not isinstance(each.role, str):
            raise ArgumentError(f"a task of session.delegate has no text; give {_TASKS}")
    check_watched("session.delegate", watch, cancel)


def checked_event(event: object, fields: object) -> Event:
    """Return an event, or build one from its type and fields."""
    if isinstance(event, Event) and fields is None:
        return event
    if not isinstance(event, str) or not (fields is None or isinstance(fields, Mapping)):
        raise wrong_argument("session.tell", fields if isinstance(event, str) else event, _EVENT)
    if event not in CATALOGUE:
        near = get_close_matches(event, CATALOGUE, n=1)
        hint = f"did you mean {near[0]}?" if near else f"give {_EVENT}"
        raise ArgumentError(f"session.tell knows no event {event!r}; {hint}")
    try:
        return msgspec.convert(dict(fields or {}), CATALOGUE[event])
    except msgspec.ValidationError as error:
        raise ArgumentError(f"session.tell cannot make a {event} of these fields: {error}") from error
