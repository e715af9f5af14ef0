"""The hub with real programs: started, called, changed, killed, stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.config.sections.mcp import McpSettings
from holdfast.errors import HoldfastError
from holdfast.tools.mcp import McpServer
from holdfast.tools.mcp.translation import server_part
from tests.tools.mcp.hubs import Owner, call, hub, plain, until, where

pytest.importorskip("mcp")


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits for its parent to notice has."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except FileNotFoundError:  # there is no /proc here
        return False


def logged(log: Path) -> str:
    return log.read_text() if log.exists() else ""


async def test_what_a_server_answers_becomes_blocks_or_an_error(tmp_path: Path) -> None:
    async with hub(plain(), workspace=tmp_path) as running:
        assert await call(running, "echo", {"text": "héllo"}) == "héllo"
        assert await call(running, "image") == "<image/png>"
        assert await call(running, "structured") == '{"b":1,"a":[2]}'
        assert await call(running, "mixed") == '[resource file:///notes.txt]\nnoted\n{"type":"video"}'
        assert await call(running, "fail", {"text": "no such issue"}) == "! no such issue"
        assert await call(running, "refuse") == "! The MCP server plain did not carry out the call: not like this"
        assert await call(running, "half") == "?!"
        assert await call(running, "echo", {"text": "half \ud83d"}) == "half \ufffd"
        (status,) = running.status()
        assert (status.state, status.version, status.why) == ("connected", "plain 1", "")


async def test_a_server_that_asks_back_is_told_the_workspace_and_refused_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hub(plain("plain", "--log", str(log)), workspace=tmp_path) as running:
        roots = json.loads(await call(running, "ask_roots"))["roots"]
        assert roots == [{"uri": tmp_path.as_uri(), "name": "workspace"}]
        assert "Sampling not supported" in await call(running, "ask_sampling")
        assert "Elicitation not supported" in await call(running, "ask_elicitation")
    assert set(json.loads(logged(log).splitlines()[0])) == {"roots"}  # it was told so before


async def test_a_program_is_started_in_its_place_with_its_own_variables_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    async with hub(plain(cwd=str(tmp_path), env={"MINE": "yes"})) as running:
        found = await where(running)
        assert found["cwd"] == str(tmp_path)
        assert found["env"]["MINE"] == "yes"
        assert found["env"]["PATH"] == os.environ["PATH"]
        assert "SOME_API_KEY" not in found["env"]


@pytest.mark.slow
async def test_a_server_that_fails_or_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("holdfast.tools.mcp.stdio.STOP_S", 0.1)
    settings = McpSettings(reconnect_s=60, start_timeout_s=20)
    servers = [
        plain("good"),
        plain("hangs", "--hang", start_timeout_s=0.3),
        plain("dies", "--die"),
        McpServer(name="missing", command="no-such-program-anywhere"),
        McpServer(name="nowhere", command=sys.executable, cwd="/no/such/directory"),
        McpServer(name="chats", command="sh", args=("-c", "echo; echo Welcome!; echo {; sleep 9"), start_timeout_s=1),
        plain("blocked", blocked="It is switched off."),
    ]
    async with hub(*servers, settings=settings) as running:
        found = {status.server: status for status in running.status()}
        assert {name: status.state for name, status in found.items()} == {
            "good": "connected",
            "hangs": "waiting",
            "dies": "waiting",
            "missing": "waiting",
            "nowhere": "waiting",
            "chats": "waiting",
            "blocked": "blocked",
        }
        assert found["dies"].why == "It was not reached: it ended with exit code 1; it last said: no licence found."
        assert found["hangs"].why == "It was not reached: it did not answer within 0.3 s."
        assert (
            "no-such-program-anywhere cannot be started (there is no such program on the PATH)" in found["missing"].why
        )
        assert "cannot be started (there is no directory /no/such/directory)" in found["nowhere"].why
        assert (
            "; on its standard output, which is for messages of the protocol, it wrote: Welcome!." in found["chats"].why
        )
        assert found["blocked"].why == "It is switched off."
        assert await call(running, "echo", {"text": "x"}, "good") == "x"


async def test_a_server_that_never_comes_is_given_up() -> None:
    async with hub(plain("dies", "--die"), settings=McpSettings(reconnect_s=0.01, reconnect_tries=2)) as running:
        await until(lambda: running.status()[0].state == "failed")
        assert running.status()[0].why.endswith("it last said: no licence found. It is not tried again.")


async def test_a_list_is_read_page_by_page_and_has_an_end() -> None:
    async with hub(plain("plain", "one", "two"), plain("odd", "--slow-page"), plain("none", "--no-tools")) as running:
        names = [tool.name for tool in running.tools()]
        assert names == sorted(names)
        assert {"mcp__plain__one", "mcp__plain__echo", "mcp__plain__two"} <= set(names)
        found = {status.server: status for status in running.status()}
        assert len(found["odd"].tools) == len(found["plain"].tools) - 2
        assert (found["none"].state, found["none"].tools) == ("connected", ())


async def test_bad_tools_are_left_out_with_a_warning_and_the_good_ones_work() -> None:
    async with hub(plain("plain", "--bad-tools", "--noise")) as running:
        (status,) = running.status()
        assert [tool.description for tool in running.tools()] == ["", "", ""]
        assert [name.removeprefix("mcp__plain__")[:6] for name in status.tools] == ["either", "good", "no_sch"]
        warnings = "\n".join(status.warnings)
        for part in ("the tool list is", "the tool nonsense is", "a tool without a name", "another has this name"):
            assert part in warnings


async def test_two_servers_cannot_have_one_tool() -> None:
    async with hub(plain("a.b"), plain(server_part("a.b"))) as running:
        names = [tool.name for tool in running.tools()]
        assert len(names) == len(set(names)) == 20
        assert any("another server has one of this name" in text for s in running.status() for text in s.warnings)


async def test_a_result_that_is_too_large_is_an_error_and_the_next_call_works() -> None:
    async with hub(plain(), settings=McpSettings(max_message_bytes=100_000)) as running:
        assert len(await call(running, "large", {"text": "90000"})) == 90_000
        said = await call(running, "large", {"text": "3000000"})
        assert said == ("! The MCP server plain did not carry out the call: the answer is larger than 100000 bytes")
        assert "not a message of the protocol" in await call(running, "garbage")
        assert await call(running, "echo", {"text": "still here"}) == "still here"


async def test_a_call_that_takes_too_long_is_ended_and_the_server_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hub(plain("plain", "--log", str(log), timeout_s=0.2)) as running:
        said = await call(running, "wait")
        assert said == "! The MCP server plain did not answer within 0.2 s and was told to stop."
        await until(lambda: "notifications/cancelled" in logged(log))
        assert await call(running, "echo", {"text": "x"}) == "x"


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hub(plain("plain", "--log", str(log))) as running:
        waiting = asyncio.create_task(call(running, "wait"))
        await until(lambda: "waiting" in logged(log))
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        await until(lambda: "notifications/cancelled" in logged(log))
        assert await call(running, "echo", {"text": "x"}) == "x"


async def test_a_list_change_adds_what_came_and_removes_what_went() -> None:
    async with hub(plain()) as running:
        owner = Owner(running.tools())
        running.attach(owner)
        first = owner.tools["mcp__plain__echo"]
        await call(running, "add", {"text": "extra"})
        await until(lambda: owner.told)
        assert owner.told == [("add", ("mcp__plain__extra",), "")]
        await call(running, "remove", {"text": "echo"})
        await until(lambda: len(owner.told) == 2)
        assert owner.told[1] == ("remove", ("mcp__plain__echo",), "the MCP server plain no longer offers it")
        await call(running, "change", {"text": "extra"})
        await until(lambda: len(owner.told) == 3)
        assert owner.told[2] == ("add", ("mcp__plain__extra",), "")
        assert owner.tools["mcp__plain__extra"].description == "Does something else."
        assert first.name not in {tool.name for tool in running.tools()}
        running.detach(owner)
        await call(running, "add", {"text": "unheard"})
        await until(lambda: any(tool.name == "mcp__plain__unheard" for tool in running.tools()))
        assert len(owner.told) == 3


@pytest.mark.slow
async def test_a_server_that_announces_changes_without_end_is_not_asked_without_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with hub(plain("plain", "--restless", "--log", str(log))) as running:
        await asyncio.sleep(0.3)
        assert logged(log).count("listed") < 10  # two pages each time
        await call(running, "add", {"text": "extra"})
        await until(lambda: any(tool.name == "mcp__plain__extra" for tool in running.tools()))


@pytest.mark.slow
async def test_a_server_that_is_slow_is_waited_for_as_long_as_one_likes_and_comes_later() -> None:
    running = hub(plain("slow", "--slow"), plain("quick"))
    try:
        await running.start(timeout_s=0.9)
        owner = Owner(running.tools())
        running.attach(owner)
        found = {status.server: status.state for status in running.status()}
        assert found == {"slow": "starting", "quick": "connected"}
        await until(lambda: owner.told)
        assert owner.told[0][0] == "add"
        assert all(name.startswith("mcp__slow__") for name in owner.told[0][1])
    finally:
        await running.close()


async def test_a_killed_server_loses_its_tools_at_once_and_comes_back() -> None:
    async with hub(plain()) as running:
        owner = Owner(running.tools())
        kept = owner.tools["mcp__plain__echo"]
        running.attach(owner)
        before = await where(running)
        os.kill(before["pid"], signal.SIGKILL)
        await until(lambda: owner.told)
        ((what, names, why),) = owner.told
        assert (what, len(names)) == ("remove", 20)
        assert why == "the MCP server plain is not connected (it was ended by SIGKILL)"
        assert owner.tools == {}
        await until(lambda: len(owner.told) == 2)
        assert owner.told[1][:2] == ("add", names)
        assert (await where(running))["pid"] != before["pid"]
        # A tool of the first connection leads to the second.
        output = await kept.run({"text": "again"}, None)  # type: ignore[arg-type]
        assert output.blocks[0].text == "again"  # type: ignore[union-attr]


async def test_calls_in_flight_end_with_their_server() -> None:
    async with hub(plain(), settings=McpSettings(reconnect_s=60)) as running:
        pid = (await where(running))["pid"]
        waiting = [asyncio.create_task(call(running, "wait")) for _ in range(3)]
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        said = await asyncio.gather(*waiting)
        assert set(said) == {
            "! The MCP server plain was lost during the call (it was ended by SIGKILL). "
            "Whether the call took effect is not known."
        }
        assert running.tools() == ()


async def test_what_a_lost_server_last_said_is_in_the_status_and_nowhere_else() -> None:
    async with hub(plain(), settings=McpSettings(reconnect_s=60)) as running:
        owner = Owner(running.tools())
        running.attach(owner)
        assert "was lost during the call (it ended with exit code 3)" in await call(running, "crash", {"text": "3"})
        assert owner.told[0][2] == "the MCP server plain is not connected (it ended with exit code 3)"
        (status,) = running.status()
        assert status.state == "waiting"
        assert status.why == "It was lost: it ended with exit code 3; it last said: going down | the disk is full."


async def test_a_program_that_leaves_a_child_at_its_pipes_is_lost_and_so_is_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.tools.mcp.stdio._LATE_S", 0.1)
    log = tmp_path / "log"
    async with hub(plain("plain", "--log", str(log)), settings=McpSettings(reconnect_s=60)) as running:
        said = await asyncio.wait_for(call(running, "leave_child"), 10)
        assert "was lost during the call (it was ended by SIGKILL)" in said
        assert running.status()[0].state == "waiting"
        child = int(logged(log).rpartition("child ")[2])
        await until(lambda: gone(child))


async def test_a_program_that_closes_its_output_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.mcp.stdio.STOP_S", 0.1)
    monkeypatch.setattr("holdfast.tools.mcp.stdio._LATE_S", 0.1)
    async with hub(plain(), settings=McpSettings(reconnect_s=60)) as running:
        pid = (await where(running))["pid"]
        assert "was lost during the call (the connection was closed)" in await call(running, "close_output")
        assert running.tools() == ()
        await until(lambda: gone(pid))


async def test_close_stops_every_program_also_one_that_does_not_want_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.mcp.stdio.STOP_S", 0.1)
    running = hub(plain(), plain("stubborn", "--stubborn"))
    await running.start()
    pids = [(await where(running, name))["pid"] for name in ("plain", "stubborn")]
    await running.close()
    assert all(gone(pid) for pid in pids)
    assert running.tools() == ()
    assert {status.state for status in running.status()} == {"closed"}
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await running.close()


async def test_a_stop_that_is_cut_short_leaves_no_program_behind() -> None:
    running = hub(plain("plain", "--stubborn"), settings=McpSettings(reconnect_s=60))
    await running.start()
    pid = (await where(running))["pid"]
    closing = asyncio.create_task(running.close())
    await asyncio.sleep(0.1)  # its input is closed, and it does not care
    (running_it,) = (task for task in asyncio.all_tasks() if task.get_name() == "mcp plain")
    running_it.cancel()
    await asyncio.wait_for(closing, 5)
    await until(lambda: gone(pid))
    await asyncio.sleep(0.1)  # until the loop has heard of it


async def test_close_ends_a_start_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.mcp.stdio.STOP_S", 0.1)
    running = hub(plain("hangs", "--hang"))
    starting = asyncio.create_task(running.start())
    await asyncio.sleep(0.2)
    starting.cancel()
    await asyncio.wait({starting})
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert running.status()[0].state == "closed"


def test_a_loop_that_ends_without_close_leaves_no_program_behind() -> None:
    async def main() -> int:
        running = hub(plain())
        await running.start()
        return int((await where(running))["pid"])

    pid = asyncio.run(main())
    deadline = time.monotonic() + 10
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(pid)


async def test_an_owner_that_fails_costs_nobody_anything(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Owner):
        def add(self, tools: object) -> tuple[str, ...]:
            raise RuntimeError("broken")

        def remove(self, names: object, why: str = "") -> tuple[str, ...]:
            raise RuntimeError("broken")

    class Strict(Owner):
        def add(self, tools: object) -> tuple[str, ...]:
            if any(tool.name.endswith("__bad") for tool in tools):  # type: ignore[attr-defined]
                raise HoldfastError("two tools are named bad")
            return super().add(tools)  # type: ignore[arg-type]

    async with hub(plain()) as running:
        strict, sound = Strict(running.tools()), Owner(running.tools())
        for owner in (Broken(), strict, sound):
            running.attach(owner)
        await call(running, "add", {"text": "bad"})
        await until(lambda: len(sound.told) == 1)
        await call(running, "remove", {"text": "echo"})
        await until(lambda: len(sound.told) == 2)
        assert strict.told == [sound.told[1]]
    assert "mcp__plain__bad is not used" in caplog.text


def test_without_servers_to_start_nothing_is_imported() -> None:
    code = (
        "import asyncio, sys\n"
        "from holdfast.tools.mcp import Hub, McpServer\n"
        "hub = Hub({'a': McpServer(name='a', command='x', blocked='It is switched off.')})\n"
        "assert hub.status()[0].why == 'It is switched off.'\n"
        "async def main():\n    async with hub:\n        assert hub.tools() == ()\n"
        "asyncio.run(main())\n"
        "assert 'mcp' not in sys.modules and 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(HoldfastError, match=r"pip install 'holdfast\[mcp\]'"):
        asyncio.run(hub(plain()).start())
