"""`holdfast demo`: what a stable prefix is worth, on a session made on the spot, without a key or a network."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import click

from holdfast import facts
from holdfast.canonical import Message, Request, Text, ToolDefinition, ToolResult, ToolUse, encode_string
from holdfast.cli.setup import use_configured_facts
from holdfast.errors import HoldfastError
from holdfast.facts import Rates, estimate_json
from holdfast.wire import DIALECTS, Body

MODEL = "anthropic:claude-opus-5-5"
PERSONA = "You are a careful engineer. Read before you write, run the tests, and say what you did."
SENTENCES = (
    "The loader reads the file, checks every field and returns the record.",
    "def load(path):\n    with open(path) as file:\n        return parse(file.read())",
    "FAILED tests/test_loader.py::test_empty - ValueError: no records",
    "Rename the argument, keep the old name as an alias and warn once.",
    "for name, value in sorted(settings.items()):\n    print(f'{name} = {value}')",
)


@dataclass
class Bill:
    """What a session would cost: every token fresh, and at best with what each request shares with the one before."""

    tokens: int = 0
    shared: int = 0
    fresh_cost: Decimal = Decimal(0)
    cached_cost: Decimal = Decimal(0)


@click.command()
@click.option("--turns", default=20, show_default=True, type=click.IntRange(2, 100), help="Turns of the session.")
@click.option("--model", default=MODEL, show_default=True, help="The Anthropic model whose prices are used.")
def command(turns: int, model: str) -> None:
    """See what a stable prompt prefix is worth.

    Makes the same coding session twice, as a careful client sends it and with a clock at the head of the system
    prompt, writes the requests as bytes, finds what each shares with the one before, and prices it.

    \b
    Examples:
      holdfast demo
      holdfast demo --turns 60 --model anthropic:claude-haiku-4-5
    """
    use_configured_facts()
    known = facts.model(model)
    rates = facts.rates(known.ref)
    if rates is None or known.provider != "anthropic":
        raise HoldfastError(
            f"no Anthropic prices are known for {model!r}; choose one of `holdfast models --provider anthropic`"
        )
    model = known.ref
    click.echo(f"A coding session of {turns} turns on {model}, one request a turn, each within the cache's lifetime.\n")
    click.echo(
        f"{'':26}{'prompt tokens':>14}{'shared prefix':>15}{'no cache':>12}{'at best':>10}{'':>4}first difference"
    )
    clients: list[tuple[str, Callable[[int], str]]] = [
        ("careful client", lambda turn: PERSONA),
        ("clock at the head", lambda turn: f"It is 09:{turn % 60:02}:17.\n{PERSONA}"),
    ]
    bills = []
    for name, system in clients:
        bill, difference = _price(session(turns, system), rates)
        bills.append(bill)
        share = bill.shared / bill.tokens
        fresh, cached = f"${bill.fresh_cost:.4f}", f"${bill.cached_cost:.4f}"
        row = f"{name:26}{bill.tokens:>14,}{share:>15.1%}{fresh:>12}{cached:>10}"
        click.echo(f"{row}    {difference or 'none: every request extends the last'}")
    worse = bills[1].cached_cost / bills[0].cached_cost
    click.echo(f"\nThe clock alone makes the session {worse:.1f} times as expensive as it has to be.")
    click.echo("Tokens are estimates; shared tokens are priced as reads, the rest as five-minute writes.")


def session(turns: int, system: Callable[[int], str]) -> Iterator[Request]:
    """The requests of a session that grows by a tool call and its result each turn."""
    chance = random.Random(11)

    def prose(sentences: int) -> str:
        return "\n".join(chance.choices(SENTENCES, k=sentences))

    tools = tuple(ToolDefinition(f"tool_{i}", prose(6), b'{"type":"object"}') for i in range(12))
    messages: list[Message] = [Message("user", (Text(prose(2)),))]
    for turn in range(turns):
        yield Request(model=MODEL, tools=tools, system_prompt=system(turn), messages=tuple(messages), output_limit=4096)
        call = ToolUse(f"call_{turn}", "tool_1", b'{"path":' + encode_string(f"src/part_{turn}.py") + b"}")
        messages += [
            Message("assistant", (Text(prose(1)), call)),
            Message("user", (ToolResult(call.id, (Text(prose(chance.randint(5, 40))),)),)),
        ]


def _price(requests: Iterator[Request], rates: Rates) -> tuple[Bill, str | None]:
    """The bill of a session, and where a request first differed from the one before."""
    dialect = DIALECTS["anthropic"]
    bill, difference = Bill(), None
    before: list[bytes] = []
    known: dict[bytes, int] = {}
    for request in requests:
        body = dialect.parse(dialect.encode(request))
        assert isinstance(body, Body)
        contents = [dialect.content(body, i) for i in range(len(body.blocks))]
        for content in contents:
            known.setdefault(content, estimate_json(content))
        same = next((i for i, (a, b) in enumerate(zip(before, contents, strict=False)) if a != b), len(before))
        if same < len(before) and difference is None:
            one, other = before[same], contents[same]
            offset = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
            difference = f"{body.blocks[same].path}, byte {offset}"
        total, shared = sum(known[c] for c in contents), sum(known[c] for c in contents[:same])
        bill.tokens += total
        bill.shared += shared
        bill.fresh_cost += total * rates.input
        bill.cached_cost += shared * rates.read + (total - shared) * rates.write("5m")
        before = contents
    return bill, difference
