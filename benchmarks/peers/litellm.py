"""LiteLLM's proxy, one worker as it starts by default, in the mode its documentation advises for production."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gateway_bodies import MODEL
from benchmarks.gateway_servers import ROOT, Server, free_port, running_program, version_of

NAME = "LiteLLM"
FOLDER = ROOT / ".peers" / "litellm"
PROGRAM = FOLDER / "bin" / "litellm"
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no network
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # spares it the check of a key
}


@contextlib.contextmanager
def running(provider: Server, core: int | None) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        address = f"http://127.0.0.1:{provider.port}"
        parameters = {"model": f"anthropic/{MODEL}", "api_base": address, "api_key": "sk-bench"}
        settings = {
            "model_list": [{"model_name": MODEL, "litellm_params": parameters}],
            "litellm_settings": {"set_verbose": False, "num_retries": 0},
        }
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps(settings))  # JSON is YAML
        port = free_port()
        command = [str(PROGRAM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        env = {**ENVIRONMENT, "HOME": folder}
        with running_program(NAME, command, core, env=env, cwd=Path(folder), port=port) as server:
            yield server


def version() -> str:
    return version_of(FOLDER, "litellm")
