"""`holdfast run -- CLIENT…`: a client through the gateway, and what its session cost."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import click
from msgspec.structs import asdict

from holdfast import report as observe
from holdfast.cli import bill, tables
from holdfast.cli.repair_words import repair_option, sentence
from holdfast.cli.setup import use_configured_facts
from holdfast.config import Config, inert, load_config
from holdfast.config.sections import UpstreamSettings
from holdfast.doctor import subscription_policy
from holdfast.engine.passage import kill_switch
from holdfast.errors import HoldfastError
from holdfast.gateway import Gateway, RunSummary, discovery, launch, running
from holdfast.memory import project_of
from holdfast.store import Call, open_existing
from holdfast.upstream import shown_address
from holdfast.wording import counted

NOT_FOUND, NOT_EXECUTABLE, SIGNALLED = 127, 126, 128  # as shells report them
_SETTLING_S = 3.0
_MOST_LINES = 20


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("client", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- CLIENT…")
@repair_option
def command(client: tuple[str, ...], repair: str | None) -> int:
    """Run a client through the gateway and say what its session cost.

    A gateway that runs already (`holdfast serve`) is used, with its settings, if it forwards to the same upstreams;
    otherwise one is started for as long as the client runs. The client finds it by the variables it reads its address
    from (ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL…); Codex and pi are told by an argument. It may
    stand behind npx, env, timeout, `node SCRIPT`, `bash -c` and the like; one that is not known is told in every way.
    Keys and logins stay as they are. An address of your own in one of these variables is where the gateway forwards to.

    The exit code is the client's, 128 and the signal's number if a signal ended it, 127 if there is no such program.

    \b
    Examples:
      holdfast run -- claude
      holdfast run -- claude -p "Fix the tests" --allowedTools Bash,Edit
      holdfast run -- codex exec "Fix the tests"
      holdfast run -- npx opencode run "Fix the tests"
      holdfast run -- aider --model sonnet
      holdfast run -- python my_agent.py
      holdfast run --repair -- python my_agent.py
    """
    program = shutil.which(client[0])
    if program is None and client[0].startswith("-"):
        raise click.UsageError(f"No such option {client[0]!r}; options of the client stand behind its name.")
    if program is None:
        exists = os.path.sep in client[0] and Path(client[0]).exists()
        why = "it cannot be executed; `chmod +x` lets it" if exists else "there is no such program on PATH; install it"
        _say(f"{client[0]}: {why}, or give another command, such as `holdfast run -- python my_agent.py`")
        return NOT_EXECUTABLE if exists else NOT_FOUND
    name = launch.client_name(client)
    outside = f"{kill_switch.VARIABLE} is set" if kill_switch.is_set(os.environ) else launch.outside(client, os.environ)
    if outside:
        _say(f"{outside}; it runs without Holdfast")
        code = _attend(launch.Launch(client, os.environ))
        past = "ran without Holdfast" if kill_switch.is_set(os.environ) else "went past the gateway"
        _say(f"{name} {past}; whatever it spent is not counted.")
        return code
    use_configured_facts()
    config = load_config({"cache.repair": repair})
    if launch.subscribed(client, os.environ):
        _say(f"{subscription_policy(config)}.")
    with _deferred_logs() as lines, tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        code, seen, level = _through(config, client, Path(scratch), repair)
    for line in (*lines, *_bill(config, name, seen, level)):
        _say(line)
    return code


def _through(
    config: Config, client: Sequence[str], scratch: Path, repair: str | None
) -> tuple[int, RunSummary | None, str]:
    """Run the client; its exit code, what the gateway saw of it, and how much that repairs."""
    run = secrets.token_hex(8)
    environ = launch.environment(client, os.environ)
    chosen = launch.chosen(launch.client_name(client), environ, discovery.address(config), asdict(UpstreamSettings()))
    upstreams = {key: value for key, value in chosen.upstreams.items() if _is_free(config, key)}
    for value in upstreams.values():
        _say(f"the gateway forwards to {shown_address(value)}, the address in the environment")
    for variable in chosen.untouched:
        _say(f"the address in {variable} is none that a gateway can forward to; it stays, and calls to it go past us")
    with gateway_for_run(config, upstreams, repair) as gateway:
        gateway.begin(run, str(project_of(Path.cwd())), launch.started(client))
        code = _attend(launch.launch(client, os.environ, f"{gateway.address}/run/{run}", scratch, chosen.untouched))
    return code, gateway.report(run), gateway.level


def _is_free(config: Config, upstream: str) -> bool:
    """Whether the configuration leaves an upstream to the environment."""
    origin = config.origin(f"upstream.{upstream}")
    if origin.kind != "default":
        _say(f"the address in the environment gives way to upstream.{upstream} ({origin})")
    return origin.kind == "default"


class _Used(NamedTuple):
    """The gateway of a run: its address, how it is told where a run begins, what it saw of one, how much it repairs."""

    address: str
    begin: Callable[[str, str, str], None]
    report: Callable[[str], RunSummary | None]
    level: str


@contextlib.contextmanager
def gateway_for_run(config: Config, upstreams: dict[str, str], repair: str | None) -> Iterator[_Used]:
    """The gateway that runs, or one of our own where it has other upstreams or another level of repairs is asked
    for."""
    running_at = None if upstreams or repair else discovery.find(config)
    if running_at is not None:
        yield _Used(
            running_at, partial(discovery.begin_run, config), partial(discovery.run_summary, config), _level_of(config)
        )
        return
    if not upstreams and not repair and discovery.answers(config):
        place = discovery.address(config)
        _say(f"the gateway on {place} is not used: it forwards elsewhere, or is not this installation's")
    own = load_config({**{f"upstream.{name}": value for name, value in upstreams.items()}, "cache.repair": repair})
    if without_effect := inert.warning(own, "gateway"):
        _say(without_effect.rstrip("."))
    gateway = Gateway(own)
    if gateway.store is not None and gateway.retention.is_news(gateway.store):
        _say(gateway.retention.sentence(gateway.store, time.time()))
        gateway.retention.announced(gateway.store, time.time())
    with running(own, gateway=gateway) as address:
        yield _Used(address, gateway.runs.begin, gateway.runs.summary, own.settings.cache.repair)


def _level_of(config: Config) -> str:
    """Return the repair level of the running gateway; print a note if it differs from the configuration."""
    place, configured = discovery.address(config), config.settings.cache.repair
    level = discovery.repair_level(place) or configured
    if level != configured:
        _say(
            f'the gateway on {place} keeps cache.repair = "{level}", with which it was started; "{configured}" holds '
            "when it is started again"
        )
    return level


def _attend(ready: launch.Launch) -> int:
    """Start the client on this terminal and wait for it. Signals are its business: it may end, or ask, or go on."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []  # came while the client was being started

    def forward(number: int, frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        elif not (number in terminal and _in_foreground()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    terminal = _signals("SIGINT", "SIGQUIT")  # these a terminal sends to the client by itself
    before = {number: signal.signal(number, forward) for number in (*terminal, *_signals("SIGTERM", "SIGHUP"))}
    try:
        process = subprocess.Popen(ready.command, env=dict(ready.environment))
        for number in early:
            forward(number, None)
        code = process.wait()
    except OSError as error:
        raise HoldfastError(f"{ready.command[0]} cannot be started ({error.strerror}); check the command.") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else SIGNALLED - code


def _signals(*names: str) -> list[signal.Signals]:
    """Those that this system has and that are not ignored here: the client is to ignore them too."""
    signals = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]


def _in_foreground() -> bool:
    """Whether the terminal sends its signals to this process, and so to the client."""
    try:
        with Path(os.ctermid()).open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, AttributeError):
        return False


def _bill(config: Config, name: str, seen: RunSummary | None, level: str) -> Iterator[str]:
    """Yield the lines on the session's cost."""
    if seen is None or not seen.requests:
        yield (
            f"{tables.printable(name)} went past the gateway: no call of it came here, so whatever it spent is not "
            "counted; it may have an address of its own in its settings"
        )
        return
    total, last, repairs = _settled(config, seen, level) if seen.calls else (None, None, None)
    if total is None or not total.calls:
        yield f"{counted(seen.requests, 'request')} came through the gateway, nothing was stored of them"
        return
    if total.prompt_tokens:
        yield f"{total.prompt_tokens:,} prompt tokens, {tables.share(total.hit_rate)} of them read from the cache."
    yield from bill.sentences(total)
    if last is not None and last.error:
        yield f"The last call failed: {last.error}"
    if not total.breaks and total.unanswered < total.calls:
        yield "No breaks."
    if repairs is not None:
        yield sentence(repairs)
    if seen.left_out:
        yield (
            f"All this is of the newest {counted(len(seen.calls), 'call')}; `holdfast bill` has the "
            f"{seen.left_out:,} before them too."
        )
    if len(seen.sessions) == 1:
        yield f"`holdfast show {seen.sessions[0]}` shows the calls."
    else:
        sessions_seen = "sessions" if seen.left_out else counted(len(seen.sessions), "session")
        yield f"`holdfast sessions` lists its {sessions_seen}."


def _settled(
    config: Config, seen: RunSummary, level: str
) -> tuple[observe.Sums | None, Call | None, observe.RepairSavings | None]:
    """The sums of the run's calls, when all of them are written, the last one, and what repairs would have saved."""
    deadline = time.monotonic() + _SETTLING_S
    while True:
        store = open_existing(config.settings.store.url)
        if store is None:
            return None, None, None
        with store:
            calls = [store.call(None, id) for id in seen.calls]
            total = observe.bill(store, calls=frozenset(seen.calls)).total  # after that: a call may end in between
            repairs = observe.repair_savings(store, level, calls=seen.calls)
        if all(call is not None and call.status != "pending" for call in calls) or time.monotonic() > deadline:
            return total, calls[-1], repairs
        time.sleep(0.1)


@contextlib.contextmanager
def _deferred_logs() -> Iterator[deque[str]]:
    """What the library logs, kept until the client has left the terminal."""
    lines: deque[str] = deque(maxlen=_MOST_LINES)

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = record.getMessage()
            if line not in lines:
                lines.append(line)

    root = logging.getLogger()
    before, root.handlers = root.handlers, [Keeper()]
    try:
        yield lines
    finally:
        root.handlers = before


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone with the client
        for line in tables.wrapped(f"holdfast: {text}", tables.width(err=True), indent="  "):
            click.echo(line, err=True)
