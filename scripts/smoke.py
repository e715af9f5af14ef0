"""Two turns against the real service: the second must read from the cache. Costs cents; stops before $0.05 are spent.

    ANTHROPIC_API_KEY=… .venv/bin/python scripts/smoke.py
    ANTHROPIC_API_KEY=… ANTHROPIC_BASE_URL=http://127.0.0.1:8788 .venv/bin/python scripts/smoke.py    (by a gateway)

The engine works in this process, without a store. Exit code 0: it was read; 1: it was not; 2: it could not be asked.
"""

from __future__ import annotations

import argparse
import sys
from decimal import Decimal

import anthropic

from holdfast import Engine, facts
from holdfast.config.keys import Settings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.facts import estimate, rates
from holdfast.records import usage

MOST = Decimal("0.05")
MANUAL = "The station writes down temperature, wind and rain of every hour; what it does not know it leaves out. "
QUESTIONS = ("What does the station write down? One sentence.", "And what does it leave out? One sentence.")
ANSWER = 100  # tokens at most
LIMIT_MS = 10_000  # a busy machine must not decide what is sent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="claude-haiku-4-5", help="default: %(default)s")
    model = parser.parse_args().model
    known = facts.model(f"anthropic:{model}")
    text = MANUAL * (known.floor * 13 // 10 // estimate(MANUAL) + 1)
    worst = most_of(known.ref, estimate(text))
    if worst is None or worst > MOST:
        print(f"{model}: {'its price is not known' if worst is None else f'it may cost ${worst:.3f}'}; choose another")
        return 2
    engine = Engine(Settings(gateway=GatewaySettings(limits=LimitSettings(stages_ms=LIMIT_MS))))
    client = anthropic.Anthropic(http_client=engine.http_client(), max_retries=1)
    messages: list[anthropic.types.MessageParam] = []
    spent, read = Decimal(0), 0
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        try:
            answer = client.messages.create(model=model, max_tokens=ANSWER, system=text, messages=messages)
        except anthropic.AnthropicError as problem:
            print(f"the service could not be asked: {type(problem).__name__}", file=sys.stderr)
            return 2
        messages.append({"role": "assistant", "content": answer.content})
        used, read = answer.usage, answer.usage.cache_read_input_tokens or 0
        written = used.cache_creation_input_tokens or 0
        hour = 0 if used.cache_creation is None else used.cache_creation.ephemeral_1h_input_tokens
        writes = {"5m": written - hour, "1h": hour}
        billed = usage(input=used.input_tokens, read=read, writes=writes, output=used.output_tokens)
        spent += facts.price(billed, known.ref).cost or Decimal(0)
        print(f"input {used.input_tokens:,}  written {written:,}  read {read:,}  output {used.output_tokens:,}")
    print(f"${spent:.4f}; the second turn {'read from' if read else 'did NOT read from'} the cache")
    return 0 if read else 1


def most_of(model: str, tokens: int) -> Decimal | None:
    """What both turns cost at most: all of the prompt written for an hour, twice, and both answers."""
    price = rates(model, prompt_tokens=tokens)
    if price is None:
        return None
    worst = usage(writes={"1h": 3 * tokens}, output=2 * ANSWER)
    return facts.price(worst, model).cost


if __name__ == "__main__":
    sys.exit(main())
