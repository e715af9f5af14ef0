"""`holdfast simulate`: a provider on this machine, with the providers' cache rules, a scripted model and faults."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from holdfast.cli.noise import read_noise
from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.lab import NEEDED, RULES, TOLERANCE, Rule, TraceCalibration, calibrate
from holdfast.report.logs import read
from holdfast.simulator import Journal, Record, Simulator, SystemClock, VirtualClock, address_of, listen, serve
from holdfast.simulator.script import ECHO, load_script
from holdfast.wording import listed

PORT = 8089


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--script", metavar="FILE", type=click.Path(path_type=Path), help="What the model says; without it, an echo."
)
@click.option("--delay", metavar="SECONDS", type=click.FloatRange(0, 3_600), help="Time before the first token.")
@click.option(
    "--noise", metavar="NAME=VALUE,…", help="What fleets do to caches, such as eviction=0.02,replicas=3,bounce=0.1."
)
@click.option("--seed", default=0, show_default=True, type=int, help="Of everything that is left to chance.")
@click.option("--virtual-clock", is_flag=True, help="Time stands still until POST /_sim/clock moves it.")
@click.option("--quiet", is_flag=True, help="No line for each request.")
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    script: Path | None,
    delay: float | None,
    noise: str | None,
    seed: int,
    virtual_clock: bool,
    quiet: bool,
) -> None:
    """Run a provider on this machine, with its cache and its faults.

    Speaks Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini. Reports what each request read from
    the cache, wrote to it and why. Any key will do, and nothing leaves the machine.

    \b
    Examples:
      holdfast simulate
      holdfast simulate --port 0 --script session.yaml --delay 0.2
      holdfast simulate --virtual-clock --noise eviction=0.02
    \b
    While it runs:
      curl 'localhost:8089/_sim/requests?limit=5'
      curl localhost:8089/_sim/faults -d '{"kind": "cut", "times": 2}'
    """
    if ctx.invoked_subcommand is not None:
        return
    if delay is not None and math.isnan(delay):
        raise HoldfastError("--delay: nan is no time; give a number of seconds.")
    use_configured_facts()
    chosen = ECHO if script is None else load_script(script)
    simulator = Simulator(
        script=chosen if delay is None else replace(chosen, first_token=delay),
        clock=VirtualClock() if virtual_clock else SystemClock(),
        noise=None if noise is None else read_noise(noise, seed),
        seed=seed,
    )
    host = host.removeprefix("[").removesuffix("]")
    listener = listen(host, port)
    with listener:
        if not _is_loopback(host):
            click.echo(f"holdfast: whoever reaches {host} can use this server and its controls.", err=True)
        introduction = _introduction(address_of(listener), printable(chosen.name))
        serve(simulator, listener, None if quiet else _tell, on_ready=lambda: click.echo(introduction))
    click.echo(summary(simulator.journal))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _introduction(address: str, script: str) -> str:
    return "\n".join(
        [
            f"Simulating providers on {address} (script: {script}). Ctrl-C ends it.",
            "",
            f"  export ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY=sk-ant-dummy",
            f"  export OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=sk-dummy",
            f"  export GOOGLE_GEMINI_BASE_URL={address} GEMINI_API_KEY=dummy",
            "",
            f"  {address}/_sim/requests    what each request read and wrote, and why",
            f"  {address}/_sim/entries     what the caches hold",
            "",
        ]
    )


def _tell(record: Record) -> None:
    try:
        click.echo(printable(line(record)))
    except OSError:
        """Nobody reads any more, or the disk is full; the clients are still served, and the end is told to whoever
        waits for it."""


def line(record: Record) -> str:
    """One request: time, model, what was read, written and paid in full, and why."""
    at = datetime.fromtimestamp(record.at, UTC).astimezone().strftime("%H:%M:%S")
    who = f"{at}  {record.model or f'{record.method} {record.path}':28}"
    notes = [f"fault: {record.fault}"] if record.fault else []
    if record.usage is None:
        return "  ".join([who, str(record.status), *([record.error] if record.error else []), *notes]).rstrip()
    used = record.usage
    written = "+".join(f"{tokens:,} {ttl}" for ttl, tokens in used.writes) or "0"
    notes += [record.state] if record.state == "abandoned" else []
    counts = f"read {used.read:>9,}  written {written:>12}  input {used.input:>9,}"
    return f"{who}  {counts}  {'; '.join([*notes, *record.why])}"


def summary(journal: Journal) -> str:
    """What came of it all, in one line."""
    requests = "1 request" if journal.count == 1 else f"{journal.count:,} requests"
    if not journal.prompt:
        return f"{requests}; no prompt reached the cache."
    share = journal.read / journal.prompt
    return f"{requests}; {share:.1%} of {journal.prompt:,} prompt tokens were read from the cache."


@click.command("calibrate")
@click.argument("traces", metavar="TRACE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(RULES),
    help="Switch a rule off, to see that the comparison notices. May be given twice.",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def calibrate_command(traces: tuple[Path, ...], without: tuple[Rule, ...], as_json: bool) -> None:
    """Compare the cache rules with what a provider billed.

    Rebuilds each session from its shape trace (block kinds and sizes, times, usage), with the markers its client
    places, runs it through the rules and compares the tokens read with the billed ones. Ends with 1 if fewer than 95%
    of the requests agree within 1%.

    \b
    Examples:
      holdfast simulate calibrate session.jsonl
      holdfast simulate calibrate --without ttl session.jsonl
    """
    use_configured_facts()
    read_traces = [trace for path in traces for trace in read(path)]
    calibrations = [calibrate(trace, without=without) for trace in read_traces]
    whole = [calibrate(trace) for trace in read_traces] if without else calibrations
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode([_summed(one) for one in calibrations])))
    else:
        click.echo(
            "\n\n".join(_told(one, all_rules, without) for one, all_rules in zip(calibrations, whole, strict=True))
        )
    empty = [one.trace for one in calibrations if not one.compared]
    if empty:
        raise HoldfastError(f"{listed(empty)}: no request is left to compare; a lane's first is where it starts from.")
    short = [one.trace for one in calibrations if not one.enough]
    if short:
        raise HoldfastError(
            f"{listed(short)}: fewer than {NEEDED:.0%} of the requests agree"
            + (f"; the rules were compared without {listed(without)}." if without else ".")
        )


def _summed(one: TraceCalibration) -> dict[str, object]:
    return {"trace": one.trace, "share": one.share, "enough": one.enough, **msgspec.to_builtins(one)}


def _told(one: TraceCalibration, all_rules: TraceCalibration, without: Sequence[Rule]) -> str:
    share = "" if one.share is None else f" ({one.share:.1%})"
    lines = [f"{one.trace}: {one.agreed} of {one.compared} requests agree within {TOLERANCE:.0%}{share}"]
    for lane, head in one.heads:
        source = f"told by request {head.told_by}" if head.told_by is not None else "taken from the first request"
        lines.append(f"  {lane}: tools and system text end at {head.whole:,} tokens ({source})")
    if without:
        usual = {each.number for each in all_rules.disagreements}
        more = [str(each.number) for each in one.disagreements if each.number not in usual]
        noticed = f"these disagree in addition: {', '.join(more)}" if more else "no other requests disagree"
        lines.append(f"  without {listed(without)}, {noticed}")
    if one.given:
        numbers = ", ".join(map(str, one.given))
        lines.append(f"  not compared, because what they read is where the rules start from: {numbers}")
    for title, unknowable in (
        ("What no model without the bytes can know:", True),
        ("What the rules did not foresee:", False),
    ):
        those = [each for each in one.disagreements if each.unknowable is unknowable]
        if those:
            lines += ["", f"  {title}"]
            lines += [
                f"  {each.number:6}  foreseen {each.predicted:>9,}  read {each.billed:>9,}  {each.why}"
                for each in those
            ]
    return "\n".join(lines)


command.add_command(calibrate_command)
