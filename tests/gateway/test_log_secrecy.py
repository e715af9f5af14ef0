"""No key in a log line: planted in the upstream's path, in a request's path, query and headers and in addresses with a
password, searched for in all that `serve --verbose`, `run`, `chat` and `doctor` print, with everything logged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.serving import listen
from holdfast.upstream.path_masks import MASK, shown_address, shown_path
from tests.cli.test_main import holdfast
from tests.cli.test_serve import Program
from tests.gateway.gate import Provider, eventually

PLANTED = {
    "base": "plantedbase0a1b2c3d",
    "word": "correcthorsebattery",
    "door": "planteddoor",
    "path": "sk-ant-api03-planted0000aaaa1111bbbb2222",
    "query": "AIzaplantedquery99",
    "header": "sk-plantedheader77",
    "password": "plantedpassword",
}
ANSWER = json.dumps({"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 3}}).encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
EVERYTHING = """
import logging, runpy, sys
logging.getLogger().setLevel(logging.DEBUG)
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, force=True)
sys.argv[0] = "holdfast"
runpy.run_module("holdfast", run_name="__main__")
"""
"""The program with every logger that it and its libraries have switched on."""

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(OK) as made:
        yield made


def secret_base(provider: Provider) -> str:
    return f"{provider.address}/{PLANTED['word']}/k/{PLANTED['base']}/v1"


def post(address: str, headers: dict[str, str]) -> None:
    body = {"model": "claude-haiku-4-5", "max_tokens": 20, "messages": [{"role": "user", "content": "Hi."}]}
    given = {"content-type": "application/json", "anthropic-version": "2023-06-01", **headers}
    try:
        with _open(urllib.request.Request(address, json.dumps(body).encode(), given), timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as refused:
        refused.close()


def clean_of_keys(text: str) -> None:
    for place, key in PLANTED.items():
        assert key not in text, place


def test_serve_verbose_prints_no_key(tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    with Program(tmp_path, secret_base(provider), "--verbose") as program:
        address = re.match(r"listening on (\S+)\n", program.out)
        assert address is not None
        key = {"x-api-key": PLANTED["header"]}
        post(f"{address[1]}/v1/messages?key={PLANTED['query']}", key)
        post(f"{address[1]}/k/{PLANTED['door']}/v1/messages", key)
        post(f"{address[1]}/v1/messages/{PLANTED['path']}", key)
        post(f"{address[1]}/nowhere/k/{PLANTED['door']}/v1/messages?key={PLANTED['query']}", key)
        post(f"{address[1]}/nowhere/{PLANTED['path']}", key)
        eventually(lambda: program.out.count("  POST ") == 5, 30)
        out = program.out + program.printed.with_suffix(".err").read_text()
    assert provider.received[0].line.split()[1].startswith(f"/{PLANTED['word']}/k/{PLANTED['base']}/v1/".encode())
    clean_of_keys(out)
    assert "200  POST anthropic …/messages" in out
    assert f"404  POST /nowhere/k/{MASK}/v1/messages" in out


def test_run_and_doctor_show_no_part_of_an_address_that_may_be_a_key(tmp_path: Path, provider: Provider) -> None:
    environ = {"ANTHROPIC_BASE_URL": secret_base(provider).removesuffix("/v1"), "HOLDFAST_GATEWAY_PORT": "0"}
    ran = holdfast("run", "--", sys.executable, "-c", "pass", cwd=tmp_path, **environ)
    assert "the gateway forwards to http://127.0.0.1:" in ran.stderr
    clean_of_keys(ran.stdout + ran.stderr)
    chosen = {
        "HOLDFAST_UPSTREAM_ANTHROPIC": secret_base(provider),
        "HOLDFAST_UPSTREAM_OPENAI": f"http://me:{PLANTED['password']}@127.0.0.1:9/v1?key={PLANTED['query']}",
    }
    looked = holdfast("doctor", cwd=tmp_path, **chosen)
    assert f"anthropic: {provider.address}/{MASK}/{MASK}/{MASK}/v1 can be reached" in looked.stdout
    clean_of_keys(looked.stdout + looked.stderr)


def test_chat_says_no_key_with_every_logger_on(tmp_path: Path, provider: Provider) -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()  # nobody listens there
    addresses = (secret_base(provider), f"http://127.0.0.1:{port}/k/{PLANTED['base']}")
    for upstream in addresses:
        environ = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "PYTHONASYNCIODEBUG": "1",
            "ANTHROPIC_API_KEY": PLANTED["header"],
            "HOLDFAST_UPSTREAM_ANTHROPIC": upstream,
            "HOLDFAST_AGENT_MODEL": "anthropic:claude-haiku-4-5",
        }
        done = subprocess.run(
            [sys.executable, "-c", EVERYTHING, "chat", "Hello."],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = done.stdout + done.stderr
        clean_of_keys(said)
        assert "DEBUG" in said


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        ("/v1/messages", "", "/v1/messages"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("/v1/messages", "/v1", "…/messages"),
        ("/k/abc/v1/messages", "/k/abc", "…/v1/messages"),
        ("/x/k/abc/v1", "", "/x/k/***/v1"),
        ("/v1/responses/resp_0123456789abcdef", "", "/v1/responses/***"),
        ("/v1/key//abc", "", "/v1/key//***"),
        ("/v1/%256bey/abc", "", "/v1/%256bey/***"),
        ("/v1/Key;v=1/abc", "", "/v1/***/***"),
        ("/v1/token=abc", "", "/v1/***"),
        ("/x/texta1b2c3d4e5f6a7b8", "", "/x/***"),
        (f"/x/{'abcd' * 10}", "", "/x/***"),
        ("/v1/models/claude-sonnet-4-5-20250929", "", "/v1/models/claude-sonnet-4-5-20250929"),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent", "", "/v1/models/gemini-2.5-pro:streamGenerateContent"),
    ],
)
def test_paths_are_shown_without_keys(path: str, base: str, expected: str) -> None:
    assert shown_path(path, base) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com"),
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1"),
        ("https://me:pw@host:8443/a/v1?key=x", "https://***@host:8443/***/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("http://a:b]c@x", MASK),
    ],
)
def test_addresses_are_shown_without_what_may_be_a_key(address: str, expected: str) -> None:
    assert shown_address(address) == expected
