"""vLLM's own server in a process of its own, with the Python that has vLLM installed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.engines.conversations import Conversation

TIMEOUT = 300.0  # seconds until it must be ready


class VllmServer:
    def __init__(self, python: str, model: Path, log: Path, *, block_tokens: int, blocks: int, context: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._address = f"http://127.0.0.1:{port}"
        settings = {
            "--model": str(model),
            "--served-model-name": "tiny",
            "--host": "127.0.0.1",
            "--port": str(port),
            "--max-model-len": str(context),
            "--block-size": str(block_tokens),
            "--num-gpu-blocks-override": str(blocks),
        }
        flags = ["--enable-prompt-tokens-details", "--enforce-eager"]
        quiet = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HOME": str(log.parent),
        }
        arguments = [argument for pair in settings.items() for argument in pair]
        self._log = log
        self._output = log.open("wb")
        self._process = subprocess.Popen(
            [python, "-m", "vllm.entrypoints.openai.api_server", *arguments, *flags],
            env=os.environ | quiet,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )

    def wait(self) -> None:
        ready_by = time.monotonic() + TIMEOUT
        while time.monotonic() < ready_by and self._process.poll() is None:
            try:
                with urlopen(self._address + "/health"):
                    return
            except (URLError, ConnectionError):
                time.sleep(0.5)
        raise RuntimeError("vLLM did not start:\n" + self._log.read_text("utf-8", "replace")[-3_000:])

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)  # its engine is a child of its own
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        raw = json.dumps({"model": "tiny", **body}).encode()
        with urlopen(Request(self._address + path, raw, {"content-type": "application/json"})) as response:
            return json.load(response)

    def tokens(self, conversation: Conversation) -> list[int]:
        found: list[int] = self.post("/tokenize", {"messages": conversation})["tokens"]
        return found

    def ask(self, conversation: Conversation) -> tuple[int, int, str, list[int]]:
        """Prompt tokens, cached tokens, the answer's text and the tokens it was sampled as."""
        body = {"messages": conversation, "max_tokens": 6, "temperature": 0, "return_token_ids": True}
        said = self.post("/v1/chat/completions", body)
        usage, choice = said["usage"], said["choices"][0]
        cached = (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0
        return usage["prompt_tokens"], cached, choice["message"]["content"] or "", choice["token_ids"]
