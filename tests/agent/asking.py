"""One request to a provider of the agent's, read to its end."""

from __future__ import annotations

from holdfast.agent.contract import OutgoingRequest, Provider
from holdfast.wire.answers import Answer, AnswerReader


async def read(provider: Provider, asked: OutgoingRequest) -> Answer:
    reader = AnswerReader(asked.dialect)
    async with provider.open(asked) as answering:
        assert answering.status == 200
        async for chunk in answering:
            reader.feed(chunk)
    return reader.close()
