"""A tiny model made on the spot, and llama.cpp's own server around it."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from holdfast.caches import chain
from holdfast.caches.prompts import Block, Prompt
from tests.engines.conversations import Conversation

CONTEXT = 4_096
PLAIN = "root ::= [a-z ]*"  # bytes that are no whole character would be sampled but not listed


def prompt_of(ids: list[int], *, model: str = "tiny") -> Prompt:
    """A prompt that is nothing but these tokens."""
    return chain.build(model, [block_of(ids)])


def block_of(ids: list[int], role: str = "user") -> Block:
    raw = array("I", ids).tobytes()
    return Block("messages", "text", role, 0, digest=raw[-64:], tokens=len(ids), ids=raw)


class LlamaServer:
    """llama.cpp's server in this process, on a free port of the loopback address."""

    def __init__(self, model: Path, *, slots: int, host_mib: int = 0, similarity: float = 0.1) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_parallel = slots
        params.n_ctx = CONTEXT * slots
        params.cache_ram_mib = host_mib
        params.slot_prompt_similarity = similarity
        params.warmup = False
        params.verbosity = 0
        params.cpuparams.n_threads = 1
        self._server = xllamacpp.Server(params)
        self._address = self._server.listening_address

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(self._address + path, json.dumps(body).encode(), {"content-type": "application/json"})
        with urlopen(request) as response:
            return json.load(response)

    def tokens(self, conversation: Conversation) -> list[int]:
        """The prompt's tokens, by the engine's own template and tokenizer."""
        text = self.post("/apply-template", {"messages": conversation})["prompt"]
        found: list[int] = self.post("/tokenize", {"content": text, "add_special": True, "parse_special": True})[
            "tokens"
        ]
        return found

    def ask(self, conversation: Conversation) -> tuple[int, int, str, list[int]]:
        """Prompt tokens, cached tokens, the answer's text and the tokens it was sampled as."""
        body = {"messages": conversation, "max_tokens": 6, "temperature": 0, "logprobs": True, "grammar": PLAIN}
        said = self.post("/v1/chat/completions", body)
        usage, choice = said["usage"], said["choices"][0]
        sampled = [token["id"] for token in choice["logprobs"]["content"]]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return usage["prompt_tokens"], cached, choice["message"]["content"], sampled


def local_texts() -> list[str]:
    """What the tokenizer learns from."""
    return [file.read_text("utf-8") for file in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: no real llama.cpp to compare with")
    pytest.importorskip("gguf", reason="gguf is not installed: the tiny model cannot be made")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed: the tiny model cannot be made")
    from tests.engines import tiny_model

    path = tmp_path_factory.mktemp("engine") / "tiny.gguf"
    tiny_model.write_gguf(path, local_texts(), context=CONTEXT)
    return path
