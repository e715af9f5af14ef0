"""`holdfast simulate calibrate`: the cache rules against what providers really billed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from holdfast.cli.setup import use_configured_facts
from holdfast.errors import HoldfastError
from holdfast.lab import NEEDED, RULES, TOLERANCE, Calibration, Rule, calibrate
from holdfast.report.logs import read


@click.command("calibrate")
@click.argument("traces", metavar="TRACE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(RULES),
    help="Switch a rule off, to see that the comparison notices. May be given twice.",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def command(traces: tuple[Path, ...], without: tuple[Rule, ...], as_json: bool) -> None:
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
        raise HoldfastError(f"{_listed(empty)}: no request is left to compare; a lane's first is where it starts from.")
    short = [one.trace for one in calibrations if not one.enough]
    if short:
        raise HoldfastError(
            f"{_listed(short)}: fewer than {NEEDED:.0%} of the requests agree"
            + (f"; the rules were compared without {_listed(without)}." if without else ".")
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _summed(one: Calibration) -> dict[str, object]:
    return {"trace": one.trace, "share": one.share, "enough": one.enough, **msgspec.to_builtins(one)}


def _told(one: Calibration, all_rules: Calibration, without: Sequence[Rule]) -> str:
    share = "" if one.share is None else f" ({one.share:.1%})"
    lines = [f"{one.trace}: {one.agreed} of {one.compared} requests agree within {TOLERANCE:.0%}{share}"]
    for lane, head in one.heads:
        source = f"told by request {head.told_by}" if head.told_by is not None else "taken from the first request"
        lines.append(f"  {lane}: tools and system text end at {head.whole:,} tokens ({source})")
    if without:
        usual = {each.number for each in all_rules.disagreements}
        more = [str(each.number) for each in one.disagreements if each.number not in usual]
        noticed = f"these disagree in addition: {', '.join(more)}" if more else "no other requests disagree"
        lines.append(f"  without {_listed(without)}, {noticed}")
    if one.given:
        numbers = ", ".join(map(str, one.given))
        lines.append(f"  not compared, because what they read is where the rules start from: {numbers}")
    for title, unknowable in (
        ("What no model without the bytes can know:", True),
        ("What the rules did not foresee:", False),
    ):
        listed = [each for each in one.disagreements if each.unknowable is unknowable]
        if listed:
            lines += ["", f"  {title}"]
            lines += [
                f"  {each.number:6}  foreseen {each.predicted:>9,}  read {each.billed:>9,}  {each.why}"
                for each in listed
            ]
    return "\n".join(lines)
