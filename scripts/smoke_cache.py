"""Two turns of the agent's bare prompt: the second must read from the cache (seed context-assembler, section 6).

    .venv/bin/python scripts/smoke_cache.py                         (without a key: against the simulator, for nothing)
    ANTHROPIC_API_KEY=… .venv/bin/python scripts/smoke_cache.py     (against the service; stops before $0.05 are spent)

The agent has its own persona and tools, no skills, and pads its prompt as the document asks (`padding = "always"`):
without that the bare prompt is too short to be cached. Nothing of the user's is read. Exit code 0: it was read; 1: it
was not; 2: it could not be asked.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path

from holdfast import facts
from holdfast.agent import Host, Sessions
from holdfast.agent.contract import CostLine, OutgoingRequest, Provider, ProviderAnswer, Watch
from holdfast.agent.providers import HttpProvider
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings, SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import UpstreamSettings
from holdfast.engine import EngineCore
from holdfast.errors import HoldfastError
from holdfast.records import Message, usage
from holdfast.simulator import Simulator
from holdfast.simulator.in_process import Simulated

MOST = Decimal("0.05")
QUESTIONS = (
    "Which of your tools reads a file? Answer with its name; call nothing.",
    "And which one searches in files? Answer with its name; call nothing.",
)
ANSWER = 100  # tokens at most
BYTES = 2
"""Of a token, at least: so a request never has more tokens than its bytes divided by this."""


class Capped(Watch):
    """A provider that is asked only if the worst that it may cost is still there to be spent. What was answered counts
    as it was billed, what failed as the worst."""

    def __init__(self, provider: Provider, most: Decimal) -> None:
        self._provider, self._most = provider, most
        self.spent = self._last = Decimal(0)

    def open(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ProviderAnswer]:
        worst = usage(writes={"1h": len(request.raw) // BYTES}, output=ANSWER)
        self._last = facts.price(worst, request.model).cost or self._most
        if self.spent + self._last > self._most:
            raise HoldfastError(f"it may cost ${self.spent + self._last:.3f}, more than ${self._most}; not asked")
        self.spent += self._last
        return self._provider.open(request)

    def answered(self, message: Message, line: CostLine) -> None:
        if line.cost is not None:
            self.spent += line.cost - self._last


def main(environ: Mapping[str, str] = os.environ) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="claude-haiku-4-5", help="of Anthropic; default: %(default)s")
    parser.add_argument("--simulate", action="store_true", help="ask the simulator, even if there is a key")
    given = parser.parse_args()
    model, simulate = f"anthropic:{given.model}", given.simulate
    if facts.rates(model) is None:
        print(f"{given.model}: its price is not known; choose another")
        return 2
    if not environ.get("ANTHROPIC_API_KEY") and not simulate:
        print("ANTHROPIC_API_KEY is not set: the simulator answers.")
        simulate = True
    try:
        read = asyncio.run(_read(model, _provider(environ, simulate=simulate)))
    except HoldfastError as problem:
        print(f"the service could not be asked: {problem}", file=sys.stderr)
        return 2
    return 0 if read else 1


def _provider(environ: Mapping[str, str], *, simulate: bool) -> HttpProvider | Simulated:
    if simulate:
        return Simulated(Simulator())
    address = environ.get("ANTHROPIC_BASE_URL")
    return HttpProvider(UpstreamSettings(anthropic=address) if address else UpstreamSettings(), environ)


async def _read(model: str, provider: HttpProvider | Simulated) -> int:
    """How many tokens the second turn read."""
    try:
        return await _turns(model, Capped(provider, MOST))
    finally:
        await provider.close()


async def _turns(model: str, capped: Capped) -> int:
    settings = Settings(
        agent=AgentSettings(model=model, output_tokens=ANSWER, retries=1, max_calls=2),
        cache=CacheSettings(padding="always"),
        skills=SkillsSettings(roots=()),
    )
    with tempfile.TemporaryDirectory() as scratch:
        workspace, home = Path(scratch, "workspace"), Path(scratch, "home")
        workspace.mkdir()
        sessions = Sessions(
            settings,
            workspace=workspace,
            home=home,
            host=Host(provider=capped, engine=EngineCore(settings)),
        )
        session, read = await sessions.create(), 0
        try:
            for number, question in enumerate(QUESTIONS, start=1):
                turn = await session.ask(question, watch=capped)
                if turn.ended == "failed":
                    raise HoldfastError(turn.problem)
                used, read = turn.line.usage, turn.line.usage.read
                counts = f"input {used.input:,}  written {used.written:,}  read {used.read:,}  output {used.output:,}"
                print(f"turn {number}: {counts}  ${turn.line.cost:.4f}")
        finally:
            await session.end()
    print(f"${capped.spent:.4f}; the second turn {'read from' if read else 'did NOT read from'} the cache")
    return read


if __name__ == "__main__":
    sys.exit(main())
