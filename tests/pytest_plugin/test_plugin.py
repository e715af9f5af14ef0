"""The plugin in other people's pytest: found by its entry point, quiet where nobody uses it, and as its page says."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.pytest_plugin import PrefixUnstable, Recorder, assert_prefix_stable
from holdfast.pytest_plugin.findings import DEFAULT_RATE
from tests.pytest_plugin.sessions import MANUAL, turn

pytest_plugins = "pytester"

ALONE = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", "no:randomly", "-W", "error")
"""What other plugins of this environment do is none of our business."""

STABLE = """
import anthropic


def talk(system):
    said = []
    with anthropic.Anthropic() as client:
        for question in ("one", "two", "three"):
            said.append({"role": "user", "content": question})
            text = system(len(said))
            answer = client.messages.create(model="claude-opus-5-5", max_tokens=20, system=text, messages=said)
            said.append({"role": "assistant", "content": answer.content})


def test_stable(prefix_recorder):
    talk(lambda turn: "Be brief.")
    prefix_recorder.assert_stable()
"""
CLOCK = """

def test_clock(prefix_recorder):
    talk(lambda turn: f"Be brief. It is 12:00:0{turn}.")
    prefix_recorder.assert_stable()
"""
PLAIN = """
import json
import os
from urllib.request import Request, urlopen


def talk(system):
    said = []
    for question in ("one", "two", "three"):
        said.append({"role": "user", "content": question})
        body = {"model": "claude-opus-5-5", "max_tokens": 20, "system": system(len(said)), "messages": said}
        headers = {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
        asked = Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), headers)
        with urlopen(asked) as answer:
            said.append({"role": "assistant", "content": json.load(answer)["content"]})

""" + STABLE[STABLE.index("\ndef test_stable") :]
"""The same without the SDK, whose import takes longer than all the rest, where several processes are started."""


@pytest.fixture
def inside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with a test of its own, and an environment without the options of this run."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return pytester


@pytest.mark.slow
def test_a_failure_in_a_terminal(inside: pytest.Pytester) -> None:
    inside.makepyfile(STABLE + CLOCK)
    result = inside.runpytest_subprocess(*ALONE)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       prefix_recorder.assert_stable()",
            "E       holdfast.pytest_plugin.PrefixUnstable: the prompt prefix is not stable: 2 of 3 requests do not *",
            "E       Request 2 of 3 (anthropic, claude-opus-5-5) departs from request 1",
            "E         at       system[[]0], byte * of the body, 23 of the block",
            "E         before   Be brief. It is 12:00:01.",
            "E         after    Be brief. It is 12:00:03.",
            "E                                         ^",
            "E         cause    system_prompt_changed",
            "E         cure     clock: Your program puts a clock into system[[]0]: build that",
            "E         cost     nothing today: claude-opus-5-5 caches nothing below 512",
            "E                  tokens and this prompt has *",
            "E       The others:",
            "E         request 3: system_prompt_changed at system[[]0], byte *",
            "E       Together $* in these 3 requests. At 1,000 requests a day that*",
            "holdfast: 2 prefix checks of 6 requests, 1 not stable",
        ]
    )
    assert "cache.repair" not in result.stdout.str()  # a setting of Holdfast says nothing to the author of a program
    assert "asserting.py" not in result.stdout.str()  # the user's own line is where it failed


@pytest.mark.slow
def test_with_workers_the_counts_are_added_up(inside: pytest.Pytester) -> None:
    inside.makepyfile(test_one=PLAIN, test_two=PLAIN + CLOCK)
    result = inside.runpytest_subprocess(*ALONE, "-n", "2")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["holdfast: 3 prefix checks of 9 requests, 1 not stable"])


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_it_goes_with_coverage(inside: pytest.Pytester, workers: str) -> None:
    inside.makepyfile(PLAIN)
    result = inside.runpytest_subprocess(*ALONE, "--cov=.", "--cov-report=term", "-n", workers)
    result.assert_outcomes(passed=1)
    assert "Warning" not in result.stdout.str() + result.stderr.str()


UNUSED = """
import sys


def test_nothing():
    ours = {name for name in sys.modules if name.partition(".")[0] == "holdfast"}
    assert ours == {"holdfast", "holdfast.lazy_exports", "holdfast.pytest_plugin", "holdfast.version"}
    assert not {"msgspec", "uvicorn", "starlette", "aiohttp"} & sys.modules.keys()
"""


def test_who_does_not_use_it_does_not_notice_it(inside: pytest.Pytester) -> None:
    """Small files are imported and nothing is printed, in a session without any other plugin that would."""
    inside.makepyfile(UNUSED)
    alone = [*ALONE, "-p", "no:xdist", "-p", "no:pytest_cov", "-p", "no:hypothesispytest", "-p", "no:anyio"]
    result = inside.runpytest_subprocess(*alone, "--strict-markers", "--strict-config")
    result.assert_outcomes(passed=1)
    assert "holdfast" not in result.stdout.str().split("\n", 6)[-1]


@pytest.mark.slow
def test_it_can_be_left_out(inside: pytest.Pytester) -> None:
    inside.makepyfile(
        """
        import sys

        def test_nothing(request):
            assert "holdfast" not in sys.modules
            assert not request.config.pluginmanager.hasplugin("holdfast")
        """
    )
    inside.runpytest_subprocess(*ALONE, "-p", "no:holdfast").assert_outcomes(passed=1)


RATED = """
import pytest
from holdfast.pytest_plugin import PrefixUnstable, assert_prefix_stable


def body(*texts, system):
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "mine", "max_tokens": 5, "system": system, "messages": said}


def message(**options):
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable([body("a", system="Room 7."), body("a", "b", "c", system="Room 8.")], **options)
    return str(caught.value).replace("\\n", " ")
"""


def test_options_and_ini_keys(inside: pytest.Pytester) -> None:
    """What is said in the test counts most, then the command line, then the ini file."""
    inside.makepyfile(
        RATED
        + """

def test_ini():
    assert "At 7 sessions a week that would be" in message()
    assert "claude-opus-5-5, prices of" in message()
    assert "Xxxx 9." in message()
    assert "after    Room 8." in message(redact=False)
    assert "At 5 requests a day" in message(rate=5)
    assert "gpt-5.6, prices of" in message(model="gpt-5.6")
"""
    )
    inside.makeini(
        "[pytest]\nholdfast_rate = 7 sessions/week\nholdfast_model = claude-opus-5-5\nholdfast_redact = yes\n"
    )
    inside.runpytest_inprocess(*ALONE).assert_outcomes(passed=1)
    inside.makepyfile(
        RATED
        + """

def test_command_line():
    assert "At 9 requests a day" in message()
    assert "claude-haiku-4-5, prices of" in message()
"""
    )
    flags = ("--holdfast-rate", "9/day", "--holdfast-model", "claude-haiku-4-5")
    inside.runpytest_inprocess(*ALONE, *flags).assert_outcomes(passed=1)


def test_help_says_what_there_is(inside: pytest.Pytester) -> None:
    told = inside.runpytest_inprocess(*ALONE, "--help").stdout.str()
    for name in ("--holdfast-rate", "--holdfast-model", "holdfast_rate", "holdfast_model", "holdfast_redact"):
        assert name in told
    fixtures = inside.runpytest_inprocess(*ALONE, "--fixtures").stdout.str()
    assert "prefix_recorder" in fixtures
    assert "_holdfast_server" not in fixtures


def test_a_wrong_rate_is_said(inside: pytest.Pytester) -> None:
    inside.makepyfile(RATED + "\n\ndef test_it():\n    message()\n")
    result = inside.runpytest_inprocess(*ALONE, "--holdfast-rate", "often")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the rate 'often' is not understood; write it like `1,000 requests/day`."])


def test_the_summary_is_silent_where_it_should_be(inside: pytest.Pytester) -> None:
    inside.makepyfile(RATED + "\n\ndef test_it():\n    assert_prefix_stable([body('a', system='Hi.')], at_least=0)\n")
    told = inside.runpytest_inprocess(*ALONE).stdout.str()
    assert "holdfast: 1 prefix check of 1 request, all stable" in told
    assert "holdfast:" not in inside.runpytest_inprocess(*ALONE, "-qq").stdout.str()
    inside.makepyfile("def test_nothing(): pass")
    assert "holdfast:" not in inside.runpytest_inprocess(*ALONE).stdout.str()


@pytest.mark.slow
def test_it_works_outside_of_pytest(inside: pytest.Pytester) -> None:
    """As a function in a program: pytest is imported, nothing else of it is needed."""
    program = (
        RATED.replace("import pytest\n", "") + "\n\nprint(assert_prefix_stable([body('a', system='')], at_least=0))\n"
    )
    path = inside.path / "program.py"
    path.write_text(program.replace("def message", "def unused"), "utf-8")
    result = inside.run(sys.executable, str(path))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["PrefixCheck(requests=1, conversations=1, compared=0*"])


def test_the_entry_point_is_the_plugin() -> None:
    from importlib.metadata import distribution

    (found,) = [each for each in distribution("holdfast").entry_points if each.group == "pytest11"]
    assert (found.name, found.value) == ("holdfast", "holdfast.pytest_plugin")
    assert Path(sys.modules["holdfast.pytest_plugin"].__file__ or "").name == "__init__.py"


def test_an_unknown_name_of_the_module_is_an_error() -> None:
    import holdfast.pytest_plugin

    assert holdfast.pytest_plugin.Recorder.__name__ == "Recorder"
    with pytest.raises(AttributeError, match="has no attribute 'recording'"):
        holdfast.pytest_plugin.recording  # noqa: B018


DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pytest.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_its_tests_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_ADDOPTS", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(**{f"test_{number}": code for number, code in enumerate(blocks("python"))})
    pytester.makepyprojecttoml(blocks("toml")[0])
    flags = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", "no:xdist")
    result = pytester.runpytest_subprocess(*flags)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["holdfast: 3 prefix checks of 7 requests, all stable"])


def test_its_message_is_the_one_that_is_told() -> None:
    """Prices may change; everything else stands there as it is."""
    requests = [turn(*"abcde"[: 2 * n + 1], system=f"{MANUAL}Now: 12:00:0{n}\nBe brief.") for n in range(3)]
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable(requests)
    shown = [line.removeprefix("E").strip() for line in blocks("text")[0].split("\n")[1:-1]]
    told = [line.strip() for line in f"holdfast.pytest_plugin.PrefixUnstable: {caught.value}".split("\n")]
    rates = facts.rates("claude-opus-5-5")
    if rates.version not in PAGE:
        shown, told = (re.sub(r"\$[\d.,]+|prices of .*|\s", "", " ".join(lines)) for lines in (shown, told))
    assert told == shown


def test_every_argument_is_described() -> None:
    table = PAGE.split("## What is checked")[1].split("## The recorder")[0]
    described = re.findall(r"^\| `(\w+)` \| ", table, re.MULTILINE)
    assert described == list(inspect.signature(assert_prefix_stable).parameters)
    assert f'`"{DEFAULT_RATE}"` (the default)' in PAGE


def test_every_part_of_the_recorder_is_described() -> None:
    table = PAGE.split("## The recorder")[1].split("\n\n")[1]
    first = [line.split("|")[1] for line in table.split("\n")]
    named = set(re.findall(r"`(\w+)", " ".join(first)))
    public = {name for name in vars(Recorder) if not name.startswith("_")} | {"simulator", "url"}
    assert named == public - {"keep", "environment"}  # which the fixture and the transports use


def test_options_are_the_ones_there_are(pytestconfig: pytest.Config) -> None:
    for name in re.findall(r"`(holdfast_\w+)`", PAGE):
        pytestconfig.getini(name)
    assert tomllib.loads(blocks("toml")[0])


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", PAGE))))
def test_links_lead_somewhere(link: str) -> None:
    assert (DOCS / link).exists()
