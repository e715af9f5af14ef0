"""Our model of vLLM's prefix cache against vLLM itself, request by request, to the token.

Takes minutes and gigabytes, so it runs only when HOLDFAST_TEST_VLLM names the Python that has vLLM (`make test-vllm`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.caches.vllm import Vllm
from tests.engines.comparison import UNRELATED, Asked, differing, line_up, record
from tests.engines.conftest import local_texts
from tests.engines.vllm_server import VllmServer

PYTHON = os.environ.get("HOLDFAST_TEST_VLLM", "")
if PYTHON:
    PYTHON = str(Path(PYTHON).absolute())  # not resolved: behind the link is the Python without vLLM
FACTS = facts.model("vllm:tiny")
BLOCK, CONTEXT, REQUESTS = FACTS.limits.block_tokens_cpu or 0, 1_024, 60
TIGHT = 48  # blocks: too few for all the conversations, so that some have to go

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="HOLDFAST_TEST_VLLM does not name a Python with vLLM; run make test-vllm"),
]


@pytest.fixture(scope="module", params=[2_048, TIGHT], ids=["ample", "tight"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Asked], int]:
    """What an engine with so many blocks said."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed: the tiny model cannot be made")
    if subprocess.run([PYTHON, "-c", "import vllm"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} cannot import vllm")
    from tests.engines import tiny_model

    folder = tmp_path_factory.mktemp("vllm")
    (folder / "model").mkdir()
    tiny_model.write_directory(folder / "model", local_texts(), context=CONTEXT)
    server = VllmServer(
        PYTHON, folder / "model", folder / "log", block_tokens=BLOCK, blocks=request.param, context=CONTEXT
    )
    try:
        server.wait()
        return record(server, 2, REQUESTS), request.param
    finally:
        server.close()


def test_every_request_reads_what_the_engine_reads(engine: tuple[list[Asked], int]) -> None:
    asked, blocks = engine
    assert differing(line_up(asked, Vllm(FACTS, cpu=True, blocks=blocks))) == []
    assert sum(one.cached for one in asked) > 1_000, "the engine hardly cached anything: nothing was compared"


WRONG: dict[str, Callable[[int], Vllm]] = {
    "blocks of 16": lambda blocks: Vllm(FACTS, blocks=2 * blocks),
    "blocks of 64": lambda blocks: Vllm(FACTS, block_tokens=64, blocks=blocks),
    "another number of blocks": lambda blocks: Vllm(FACTS, cpu=True, blocks=2_048 if blocks == TIGHT else TIGHT),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_model_is_found_out(engine: tuple[list[Asked], int], wrong: str) -> None:
    asked, blocks = engine
    assert differing(line_up(asked, WRONG[wrong](blocks)), UNRELATED)
