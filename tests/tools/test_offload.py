"""Long results go to a file before they are sent; the reference says where the whole is and shows both ends."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.config.sections.agent import OffloadSettings
from holdfast.records import Block, Document, Image, Opaque, Text, ToolUse
from holdfast.tools.offload import PREFIX, Offloader, characters, is_reference
from tests.tools.offloads import names, numbered, only, stays, stored, tool

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def offloader(tmp_path: Path) -> Offloader:
    return Offloader(OffloadSettings(), tmp_path / "offload" / "session")


# What is on disk


def test_c36_the_whole_result_is_a_plain_private_file(offloader: Offloader) -> None:
    text = "Zeile über Zeile\r\n\x00\x1b[31m日本語 😀\n" * 1_000
    reference, path = stored(offloader, text)
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent == offloader.directory
    assert [str(path)] == [line for line in reference.replace("]", "\n").replace(", ", "\n").split("\n") if "/" in line]
    assert names(offloader.directory) == [path.name]  # nothing half-written is left


def test_c36_the_directory_is_made_with_the_first_long_result(offloader: Offloader) -> None:
    assert stays(offloader, tool(), Text("short"))
    assert not offloader.directory.exists()
    stored(offloader, "x" * 9_000)
    assert stat.S_IMODE(offloader.directory.parent.stat().st_mode) == 0o700


def test_c36_a_directory_that_others_could_read_is_closed_to_them(offloader: Offloader) -> None:
    offloader.directory.mkdir(parents=True)
    offloader.directory.chmod(0o755)
    stored(offloader, "x" * 9_000)
    assert stat.S_IMODE(offloader.directory.stat().st_mode) == 0o700


def test_text_blocks_stand_in_the_file_one_after_the_other(offloader: Offloader) -> None:
    blocks, gone = offloader.store(tool(), "t", (Text("a" * 5_000), Text("b" * 5_000)))
    assert gone.characters == 10_000
    assert Path(gone.path).read_text() == "a" * 5_000 + "\n" + "b" * 5_000
    assert is_reference(only(blocks))


def test_what_utf8_cannot_say_is_replaced_and_the_reference_can_be_sent(offloader: Offloader) -> None:
    reference, path = stored(offloader, "😀\udc80" + "x" * 9_000 + "\ud800")
    assert path.read_text("utf-8") == "😀\ufffd" + "x" * 9_000 + "\ufffd"
    assert reference.encode("utf-8")
    assert "😀\ufffdxxx" in reference
    assert reference.endswith("x\ufffd")


# The reference


def test_c37_the_reference_names_tool_characters_and_path(offloader: Offloader) -> None:
    reference, path = stored(offloader, numbered(20_000))
    assert PREFIX == "[Tool result offloaded to disk: "
    assert reference.startswith(f"[Tool result offloaded to disk: run_command, 20000 characters, {path}]\n")
    assert is_reference(reference)


def test_c38_it_shows_1500_characters_of_the_beginning_and_500_of_the_end(offloader: Offloader) -> None:
    text = numbered(20_000)
    reference, _ = stored(offloader, text)
    _, _, shown = reference.partition("An excerpt:\n")
    assert shown == text[:1500] + "\n[18000 characters left out here]\n" + text[-500:]
    assert len(reference) < 8_000 / 3


@pytest.mark.parametrize(("head", "tail"), [(0, 500), (1500, 0), (0, 0), (10, 3)])
def test_c38_both_ends_can_be_set(tmp_path: Path, head: int, tail: int) -> None:
    text = numbered(20_000)
    reference, path = stored(Offloader(OffloadSettings(head_chars=head, tail_chars=tail), tmp_path), text)
    begins, ends = text[:head], text[len(text) - tail :]
    gap = f"[{20_000 - head - tail} characters left out here]"
    expected = "\n".join(part for part in (begins, gap, ends) if part) if head or tail else ""
    assert reference.partition("An excerpt:\n")[2] == expected
    assert str(path) in reference


def test_c38_a_small_limit_makes_the_ends_smaller_in_proportion(tmp_path: Path) -> None:
    text = numbered(3_000)
    settings = OffloadSettings(per_tool={"run_command": 1_000}, head_chars=1_500, tail_chars=500)
    reference, _ = stored(Offloader(settings, tmp_path), text)
    begins, _, ends = reference.partition("An excerpt:\n")[2].partition(" characters left out here]\n")
    begins = begins.rpartition("\n[")[0]
    assert 900 < len(reference) <= 1_000
    assert text.startswith(begins)
    assert text.endswith(ends)
    assert len(begins) == pytest.approx(3 * len(ends), abs=4)


def test_c17_the_reference_is_the_same_whenever_and_wherever_it_is_made(tmp_path: Path) -> None:
    text = numbered(30_000)
    first = stored(Offloader(OffloadSettings(), tmp_path), text)
    os.utime(first[1], (0, 0))
    again = stored(Offloader(OffloadSettings(), tmp_path), text)
    assert again == first
    assert first[1].stat().st_mtime == 0  # what is there already is not written again
    first[1].unlink()
    assert stored(Offloader(OffloadSettings(), tmp_path), text) == first


def test_two_results_never_share_a_file(offloader: Offloader) -> None:
    long = "x" * 9_000
    calls = [
        "",
        "a",
        "A",
        "a/b",
        "a.b",
        "../../etc/passwd",
        "\x00",
        "é",
        "\ud800",
        "a" * 5_000,
        "CON",
        "-rf",
        "a" * 5_001,
    ]
    paths = {call: stored(offloader, long, call=call)[1] for call in calls}
    assert len({str(path).lower() for path in paths.values()}) == len(calls)
    assert all(path.parent == offloader.directory and path.is_file() for path in paths.values())
    assert all(len(path.name) < 100 for path in paths.values())
    other = stored(offloader, long + "y", call="a")[1]  # an id that comes twice
    assert other != paths["a"]
    assert paths["a"].read_text() == long


def test_results_of_the_same_words_in_other_blocks_do_not_share_a_file(offloader: Offloader) -> None:
    data = base64.b64encode(b"x" * 9_000).decode()
    image, text = Image("image/png", data), Text(data)
    results: list[tuple[Block, ...]] = [
        (text, image),
        (image, text),
        (text, text),
        (text, Image("image/jpeg", data)),
        (Text(f"{data}\n{data}"),),
    ]
    seen: dict[str, bytes] = {}
    for blocks in results:
        _, gone = offloader.store(tool(), "t", blocks)
        assert not seen.keys() & set(gone.files)
        seen |= {file: Path(file).read_bytes() for file in gone.files}
    assert all(Path(file).read_bytes() == content for file, content in seen.items())


def test_names_of_tools_cannot_break_the_reference(offloader: Offloader) -> None:
    reference, path = stored(offloader, "x" * 20_000, name="mcp__s__a\nb\ud800" + "c" * 1_000)
    first = reference.split("\n")[0]
    assert first.startswith(f"{PREFIX}mcp__s__a\\nb\ufffdccc")
    assert first.endswith(f", 20000 characters, {path}]")
    assert len(reference) < 3_000


def test_the_reference_says_how_to_look_at_what_is_not_text(offloader: Offloader) -> None:
    pdf = Document("application/pdf", base64.b64encode(b"%PDF" * 3_000).decode())
    alone, _ = offloader.store(tool(), "t", (pdf,))
    assert only(alone).endswith("\nIt is neither text nor an image; look at it with run_command.")
    both, _ = offloader.store(tool(), "t", (Text("found it"), pdf))
    assert "\nCall read_file with these paths to read all of it, run_command for what is neither text" in only(both)


# Limits


@pytest.mark.parametrize(
    ("name", "limit"),
    [("run_command", 8_000), ("read_file", 15_000), ("mcp__github__search", 15_000), ("mcp_not", 8_000)],
)
def test_c40_limits_by_kind_of_tool(offloader: Offloader, name: str, limit: int) -> None:
    assert offloader.limit(tool(name)) == limit
    assert stays(offloader, tool(name), Text("x" * limit))
    assert not stays(offloader, tool(name), Text("x" * (limit + 1)))


@pytest.mark.parametrize(
    ("settings", "own", "limit"),
    [
        (OffloadSettings(), 20_000, 20_000),
        (OffloadSettings(max_result_chars=30_000), 20_000, 30_000),
        (OffloadSettings(max_result_chars=30_000, per_tool={"run_command": 10}), 20_000, 10),
        (OffloadSettings(per_tool={"run_command": 0}), None, 0),
        (OffloadSettings(per_tool={"other": 10}), None, 8_000),
        (OffloadSettings(), 0, 0),
        (OffloadSettings(), -5, 0),
        (OffloadSettings(), 200_000, 100_000),
        (OffloadSettings(max_result_chars=200_000), None, 100_000),
        (OffloadSettings(per_tool={"run_command": 200_000}), None, 100_000),
        (OffloadSettings(hard_cap_chars=5_000), None, 5_000),
        (OffloadSettings(hard_cap_chars=500_000, inline_chars=300_000), None, 300_000),
    ],
)
def test_c40_the_nearest_setting_wins_and_the_hard_cap_beats_all(
    tmp_path: Path, settings: OffloadSettings, own: int | None, limit: int
) -> None:
    one, offloader = tool(inline_chars=own), Offloader(settings, tmp_path)
    assert offloader.limit(one) == limit
    assert stays(offloader, one, Text("x" * limit))
    assert not stays(offloader, one, Text("x" * (limit + 1)))


def test_c41_within_the_limit_nothing_happens(offloader: Offloader) -> None:
    assert stays(offloader, tool())
    assert stays(offloader, tool(), Text(""))
    assert stays(offloader, tool(), Text("x" * 8_000))
    assert stays(offloader, tool(), Text("x" * 4_000), Text("é" * 4_000))
    assert not stays(offloader, tool(), Text("x" * 4_000), Text("é" * 4_001))


def test_c42_a_reference_is_left_alone_whatever_the_limit_is(tmp_path: Path) -> None:
    reference, _ = stored(Offloader(OffloadSettings(), tmp_path), "x" * 20_000)
    strict = Offloader(OffloadSettings(max_result_chars=1), tmp_path)
    assert stays(strict, tool(), Text(reference))
    assert stays(strict, tool(), Text(reference), Text("a guide behind it"))
    assert not stays(strict, tool(), Text("x" + reference))


def test_c42_a_text_too_long_for_a_reference_is_none(offloader: Offloader) -> None:
    reference, _ = stored(offloader, "x" * 20_000)
    assert [stays(offloader, tool(), Text(reference + "x" * more)) for more in (50_000, 100_000)] == [True, False]


def test_c43_a_reference_is_known_by_its_beginning(offloader: Offloader) -> None:
    assert is_reference(stored(offloader, "x" * 9_000)[0])
    assert is_reference("[Tool result offloaded to disk: ")
    assert not is_reference("[Tool result offloaded to disk")
    assert not is_reference(" [Tool result offloaded to disk: x")


def test_exempt_results_stay(offloader: Offloader) -> None:
    long = Text("x" * 200_000)
    assert stays(offloader, tool("skill_load"), long)
    assert stays(offloader, tool(exempt=True), long)
    assert stays(offloader, tool("read_file"), long, exempt=True)
    assert not stays(offloader, tool("skill_search"), long)


# Images and documents


def test_images_count_as_the_characters_of_their_base64(offloader: Offloader) -> None:
    fits = base64.b64encode(b"x" * 6_000).decode()
    assert characters((Image("image/png", fits),)) == 8_000
    assert stays(offloader, tool(), Image("image/png", fits))
    assert not stays(offloader, tool(), Image("image/png", fits), Text("."))
    assert characters((Image(url="https://example.org/x.png"),)) == 25
    assert characters((Document("text/plain", "five!"), Opaque("x", '{"ä":1}'.encode()), ToolUse("a", "b", b"{}"))) > 12


def test_a_long_result_with_an_image_leaves_one_reference_that_names_both(offloader: Offloader) -> None:
    picture = PNG + b"\x00" * 9_000
    image = Image("image/png", base64.b64encode(picture).decode())
    blocks, gone = offloader.store(tool("screenshot"), "toolu_7", (Text("clicked the button"), image))
    text, png = (Path(file) for file in gone.files)
    reference = only(blocks)
    assert gone.path == str(text)
    assert reference.startswith(f"{PREFIX}screenshot, {18 + len(image.data or '')} characters, {text}]\n")
    assert f"Also saved: {png} (image/png, {len(picture)} bytes)\n" in reference
    assert "An excerpt:\nclicked the button\n" in reference
    assert text.read_text() == f"clicked the button\n[{png.name} (image/png, {len(picture)} bytes)]"
    assert png.suffix == ".png"
    assert png.read_bytes() == picture
    assert stat.S_IMODE(png.stat().st_mode) == 0o600


def test_an_image_alone_is_what_the_reference_names(offloader: Offloader) -> None:
    blocks, gone = offloader.store(tool(), "t", (Image("image/jpeg", base64.b64encode(b"j" * 9_000).decode()),))
    assert gone.path.endswith(".jpg")
    assert Path(gone.path).read_bytes() == b"j" * 9_000
    assert only(blocks).split("\n") == [
        f"{PREFIX}run_command, 12000 characters, {gone.path}]",
        "Call read_file with this path to read all of it.",
    ]


@pytest.mark.parametrize(
    ("block", "ending", "content"),
    [
        (Document("application/pdf", base64.b64encode(b"%PDF" * 3_000).decode()), ".pdf", b"%PDF" * 3_000),
        (Document("text/plain", "plain ä" * 3_000), ".txt", ("plain ä" * 3_000).encode()),
        (Image("IMAGE/PNG; x=y", base64.b64encode(b"p" * 9_000).decode()), ".png", b"p" * 9_000),
        (Image("image/png", base64.encodebytes(b"p" * 9_000).decode()), ".png", b"p" * 9_000),
        (Image("image/png", "no base64! " * 1_000), ".txt", b"no base64! " * 1_000),
        (Image("image/png", "\ud800" * 9_000), ".txt", ("\ufffd" * 9_000).encode()),
        (Image("../../x\n", base64.b64encode(b"?" * 9_000).decode()), ".bin", b"?" * 9_000),
        (Image(None, base64.b64encode(b"?" * 9_000).decode()), ".bin", b"?" * 9_000),
        (Image(url="https://example.org/" + "x" * 9_000), ".txt", b"https://example.org/" + b"x" * 9_000),
        (Opaque("search_result", b'{"a":"%s"}' % (b"x" * 9_000)), ".txt", b'{"a":"%s"}' % (b"x" * 9_000)),
    ],
    ids=["pdf", "text", "type", "lines", "no base64", "surrogates", "strange type", "no type", "url", "opaque"],
)
def test_every_kind_of_block_is_kept_whole(offloader: Offloader, block: Block, ending: str, content: bytes) -> None:
    _, gone = offloader.store(tool(), "t", (block,))
    assert len(gone.files) == 1
    assert gone.path.endswith(ending)
    assert Path(gone.path).read_bytes() == content


def test_of_many_images_the_reference_names_a_few_and_the_file_all(offloader: Offloader) -> None:
    images = tuple(Image("image/png", base64.b64encode(b"%d" % number * 500).decode()) for number in range(40))
    blocks, gone = offloader.store(tool(), "t", images)
    assert len(gone.files) == 41
    reference = only(blocks)
    assert len(reference) < 8_000
    assert reference.count("Also saved: ") == 16
    assert "24 more files beside them are named in the first one." in reference
    listing = Path(gone.path).read_text()
    assert all(Path(file).name in listing for file in gone.files[1:])


# Whatever the text and the settings are

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3_000),
    st.builds(
        lambda text, count: text * count,
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.integers(300, 3_000),
    ),
)
SETTINGS = st.builds(
    OffloadSettings,
    inline_chars=st.integers(0, 3_000),
    hard_cap_chars=st.integers(0, 4_000),
    head_chars=st.integers(0, 3_000),
    tail_chars=st.integers(0, 3_000),
    max_result_chars=st.none() | st.integers(1, 3_000),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, chosen=SETTINGS, call=st.text(max_size=50), name=st.text(max_size=20))
def test_whatever_is_stored_is_found_again(
    tmp_path: Path, text: str, chosen: OffloadSettings, call: str, name: str
) -> None:
    offloader = Offloader(chosen, tmp_path / "s")
    one, blocks = tool(f"a{name}"), (Text(text),)
    kept, gone = offloader.store(one, call, blocks)
    if len(text) <= offloader.limit(one):
        assert kept is blocks
        assert gone is None
        return
    reference = only(kept)
    assert Path(gone.path).read_bytes() == text.encode()
    assert gone.path in reference
    assert offloader.store(one, call, blocks) == (kept, gone)
    assert is_reference(reference)
    assert offloader.store(one, call, kept) == (kept, None)
    silent = msgspec.structs.replace(chosen, head_chars=0, tail_chars=0)
    bare, _ = Offloader(silent, tmp_path / "s").store(one, call, blocks)
    assert kept == bare or len(reference) <= offloader.limit(one)
    excerpt = reference.removeprefix(only(bare)).removeprefix(" An excerpt:\n")
    if excerpt:
        left_out = len(text) - chosen.head_chars - chosen.tail_chars
        begins, gap, ends = _parted(excerpt, text)
        assert gap >= left_out
        assert len(begins) + gap + len(ends) == len(text)  # nothing twice, nothing unaccounted for
        assert len(begins) <= chosen.head_chars
        assert len(ends) <= chosen.tail_chars


def _parted(excerpt: str, text: str) -> tuple[str, int, str]:
    """The two ends that an excerpt shows, and what it says is missing between them."""
    for gap in range(len(text) + 1):
        line = f"[{gap} characters left out here]"
        shown = len(text) - gap
        if len(excerpt) - len(line) not in (shown, shown + 1, shown + 2):
            continue
        for head in range(shown + 1):
            begins, ends = text[:head], text[len(text) - (shown - head) :]
            if excerpt == "\n".join(part for part in (begins, line, ends) if part):
                return begins, gap, ends
    raise AssertionError(f"{excerpt!r} shows something else than the ends")
