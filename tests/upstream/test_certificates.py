"""Behind a company's proxy: the variables that name its authority are read at every door that goes out, what is not
signed by anybody known is refused, and the refusal names the variables."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent import open_agent
from holdfast.agent.contract import Turn
from holdfast.simulator import Simulator
from holdfast.simulator.server import running
from holdfast.upstream.certificates import trust
from tests.cli.commands import holdfast
from tests.gateway.gate import gated
from tests.tls import VARIABLES, Authority, authority, secured

BODY = {"model": "claude-haiku-4-5", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello."}]}
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json"}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("company"))


@pytest.fixture
def upstream(company: Authority) -> Iterator[str]:
    with running(Simulator()) as plain, secured(plain, company) as address:
        yield address


def through_gateway(place: Path, upstream: str) -> tuple[int, str]:
    """The status and text of a call."""
    opened = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    with gated(place, upstream) as gate:
        asked = urllib.request.Request(f"{gate.address}/v1/messages", json.dumps(BODY).encode(), HEADERS)
        try:
            with opened(asked, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()


def by_agent(place: Path, upstream: str) -> Turn:
    async def ask() -> Turn:
        flags: dict[str, object] = {"agent.model": "anthropic:claude-haiku-4-5", "upstream.anthropic": upstream}
        async with open_agent(place, home=place / "home", flags=flags) as sessions:
            session = await sessions.create()
            return await session.ask("Hello.")

    return asyncio.run(ask())


def named_by(variable: str, company: Authority, place: Path) -> str:
    """What a variable has to say; a directory has its files under the names that OpenSSL looks for."""
    if variable != "SSL_CERT_DIR":
        return str(company.file)
    folder = place / "authorities"
    folder.mkdir()
    (folder / "company.pem").write_bytes(company.file.read_bytes())
    subprocess.run(["openssl", "rehash", str(folder)], check=True, capture_output=True)
    return str(folder)


def test_without_a_variable_the_gateway_says_what_is_wrong_and_names_them(tmp_path: Path, upstream: str) -> None:
    status, text = through_gateway(tmp_path, upstream)
    assert status == 502
    assert "upstream.anthropic (127.0.0.1 port " in text
    assert "its certificate is not trusted (unable to get local issuer certificate)" in text
    assert all(name in text for name in VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES)
def test_with_each_of_them_the_gateway_reaches_the_provider(
    tmp_path: Path, upstream: str, company: Authority, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, named_by(variable, company, tmp_path))
    status, text = through_gateway(tmp_path, upstream)
    assert (status, json.loads(text)["role"]) == (200, "assistant")


@pytest.mark.slow
def test_the_agent_says_it_too(tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    turn = by_agent(tmp_path, upstream)
    assert "no secure connection to 127.0.0.1" in turn.problem
    assert "its certificate is not trusted (unable to get local issuer certificate)" in turn.problem
    assert all(name in turn.problem for name in VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES)
def test_with_each_of_them_the_agent_reaches_the_provider(
    tmp_path: Path, upstream: str, company: Authority, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    monkeypatch.setenv(variable, named_by(variable, company, tmp_path))
    turn = by_agent(tmp_path, upstream)
    assert (bool(turn.text), turn.problem) == (True, "")


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read (No such file or directory)"), ("nothing", "holds no certificates in PEM")],
)
def test_a_file_that_cannot_be_used_is_named_with_its_variable(
    tmp_path: Path, upstream: str, content: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "corporate.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(file))
    status, text = through_gateway(tmp_path, upstream)
    assert status == 502
    assert f"NODE_EXTRA_CA_CERTS names {file}, which {why}" in text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = trust({"REQUESTS_CA_BUNDLE": str(tmp_path / "pipe")})
    assert found.problems == (f"REQUESTS_CA_BUNDLE names {tmp_path / 'pipe'}, which is no file",)


def test_a_variable_adds_and_takes_nothing_away(tmp_path: Path, company: Authority) -> None:
    """Another company's file beside the right one, and none that would switch verification off."""
    other = authority(tmp_path / "other")
    both = trust({"SSL_CERT_FILE": str(other.file), "CURL_CA_BUNDLE": str(company.file)})
    names = [dict(part[0] for part in each["subject"]) for each in both.context.get_ca_certs()]
    assert names.count({"commonName": "A company's proxy"}) == 2
    assert (both.context.check_hostname, both.context.verify_mode.name) == (True, "CERT_REQUIRED")


def test_another_authority_is_not_enough(tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority(tmp_path / "other").file))
    assert through_gateway(tmp_path, upstream)[0] == 502


@pytest.mark.slow
def test_doctor_names_the_variable_and_reaches_what_it_makes_trusted(
    tmp_path: Path, upstream: str, company: Authority
) -> None:
    chosen = {f"HOLDFAST_UPSTREAM_{name}": upstream for name in ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER")}
    chosen |= dict.fromkeys(VARIABLES, "")
    refused = holdfast("doctor", cwd=tmp_path, **chosen).stdout
    assert "answers with a certificate that is not trusted" in refused
    assert all(name in refused for name in VARIABLES)
    missing = holdfast("doctor", "--offline", cwd=tmp_path, **chosen | {"CURL_CA_BUNDLE": "/no/such.pem"}).stdout
    assert "certificates: CURL_CA_BUNDLE names /no/such.pem, which cannot be read" in missing
    reached = holdfast("doctor", cwd=tmp_path, **chosen | {"CURL_CA_BUNDLE": str(company.file)}).stdout
    assert f"anthropic: {upstream} can be reached" in reached
