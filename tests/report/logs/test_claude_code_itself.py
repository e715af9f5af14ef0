"""What Claude Code writes, read back: every answered request of a simulated provider, once, with what it billed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.report.logs.discovery import LogReader, home_sources
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.programs import Place, Watched, program

pytestmark = pytest.mark.slow

SCRIPT = """
rules:
  - when: {contains: make a note}
    think: A file will do.
    say: I write it down.
    call: {tool: Bash, input: {command: "printf 'buy milk' > note.txt; ls", description: Write the note}}
  - when: {contains: what did I want}
    call:
      - {tool: Read, input: {file_path: "WORK/note.txt"}}
      - {tool: Bash, input: {command: "wc -c note.txt", description: Count}}
  - when: {contains: send somebody}
    call:
      - tool: Agent
        input: {description: Look, prompt: look for the list, subagent_type: general-purpose, run_in_background: false}
      - tool: Agent
        input: {description: Look, prompt: look for the list, subagent_type: general-purpose, run_in_background: false}
  - when: {contains: look for the list}
    call: {tool: Bash, input: {command: "printf 'eggs' > list.txt; ls list.txt", description: Write the list}}
  - when: {tool_result: Agent}
    say: Somebody made a list.
  - when: {matches: list.txt}
    say: There is a list now.
  - when: {matches: 8 note.txt}
    say: You wanted to buy milk.
  - when: {tool_result: Bash}
    say: The note is written.
"""


class Client(NamedTuple):
    """Claude Code installed, in a place of its own, with a simulator to talk to."""

    program: str
    place: Place
    simulator: Watched
    environment: dict[str, str]

    def ask(self, words: str, *more: str) -> None:
        self.place.run([self.program, "-p", words, *more, "--allowedTools", "Bash,Read,Agent"], self.environment)

    def given(self) -> list[LoggedRequest]:
        """The requests that its transcripts tell of, none of them broken."""
        found = home_sources(self.place.home, {})
        assert {source.client for source in found} == {"claude-code"}
        reading = LogReader()
        records = [record for source in found for record in reading.records(source, lambda _: None)]
        assert not [record for record in records if isinstance(record, BrokenSource)]
        return [record for record in records if isinstance(record, LoggedRequest)]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    claude = program("claude", "Claude Code")
    place = Place(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.replace("WORK", str(place.work)), "utf-8")
    simulator = Watched(script=load_script(script))
    with running(simulator) as address:
        environment = place.environment(
            ANTHROPIC_BASE_URL=address,
            ANTHROPIC_API_KEY="sk-ant-dummy",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
        yield Client(claude, place, simulator, environment)


def test_every_request_that_was_answered_comes_back_with_what_was_billed(client: Client) -> None:
    """Several runs that go on, tools in parallel, two sub-agents, a compaction and a fork."""
    simulator = client.simulator
    client.ask("Please make a note.")
    client.ask("And what did I want?", "--continue")
    client.ask("Please send somebody.", "--continue")
    before = len(simulator.requests())
    client.ask("/compact", "--continue")
    summarised = len(simulator.requests())
    client.ask("Please make a note.", "--continue")
    forked = len(simulator.requests())
    client.ask("And what did I want?", "--continue", "--fork-session")
    billed = simulator.requests()
    given = client.given()

    # What summarises for a compaction is not in the transcript; everything else that was answered is, once.
    talked = billed[:before] + billed[summarised:]
    expected = [request for request in talked if request["state"] == "complete"]
    assert sorted(_row(record) for record in given) == sorted(
        (
            request["session"],
            request["model"],
            request["usage"]["input"],
            request["usage"]["read"],
            sum(request["usage"]["written"].values()),
            request["usage"]["output"],
        )
        for request in expected
    )
    session, fork = billed[0]["session"], billed[-1]["session"]
    assert session != fork
    assert len({record.agent for record in given}) == 3
    assert {record.session for record in given if record.agent} == {session}
    main = [record for record in given if record.session == session and not record.agent]
    after = len([request for request in billed[summarised:forked] if request["state"] == "complete"])
    assert [record.reset for record in main] == [None] * (len(main) - after) + ["compaction"] + [None] * (after - 1)
    assert {record.reset for record in given if record not in main} == {None}
    for record in given:
        assert record.at is not None
        assert record.first_token_at is not None
        assert record.at <= record.first_token_at
    for earlier, later in pairwise(main):
        assert earlier.at is not None
        assert later.at is not None
        assert earlier.at < later.at


def test_where_a_request_read_too_little_it_and_the_one_before_come_back_as_they_were_sent(client: Client) -> None:
    """The provider loses its entries; then the user goes back to an earlier answer and says something else."""
    client.ask("Please make a note.")
    noted = _answers(client)[-1]
    if "requestRef" not in noted:
        pytest.skip("this version of Claude Code does not write its requests into the transcript")
    client.simulator.reset()
    client.ask("And what did I want?", "--continue")
    client.ask("Please make a note.", "--resume", noted["sessionId"], "--resume-session-at", noted["uuid"])
    given, sent = client.given(), client.simulator.bodies()
    assert len(given) == len(sent) == 6
    assert [record.body is not None for record in given] == [False, True, True, True, True, False]
    for record, body in list(zip(given, sent, strict=True))[1:5]:
        assert record.body is not None
        built = json.loads(record.body)
        for part in ("model", "max_tokens", "tools"):
            assert built[part] == body[part]
        assert [_blocks(message) for message in built["messages"]] == [_blocks(message) for message in body["messages"]]
        # The line that says who pays comes first and is not recorded.
        assert built["system"] == body["system"][-len(built["system"]) :]


def _blocks(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is blocks: the client writes a single text without a marker as a plain string."""
    content = message["content"]
    return message | {"content": [{"type": "text", "text": content}] if isinstance(content, str) else content}


def _answers(client: Client) -> list[dict[str, Any]]:
    """The assistant lines of the one transcript there is."""
    [source] = home_sources(client.place.home, {})
    lines = [json.loads(line) for line in source.path.read_text("utf-8").splitlines()]
    return [line for line in lines if line["type"] == "assistant"]


def _row(record: LoggedRequest) -> tuple[str, str, int, int, int, int]:
    assert record.usage is not None
    used = record.usage
    return record.session, record.model, used.input, used.read, used.written, used.output
