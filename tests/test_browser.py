"""The browser for tests sees what pages do, and its absence costs nothing but its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import browser


@pytest.mark.slow
def test_requests_and_complaints_of_a_page_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!doctype html><meta name=viewport content=width=device-width><title>Filler</title>"
        "<img src=http://127.0.0.1:9/picture.png><img src=http://example.invalid/x>"
        "<script>console.error('wrong'); document.title = matchMedia('(prefers-color-scheme: dark)').matches;"
        "setTimeout(() => nothing())</script><p id=wide>filler</p>",
        "utf-8",
    )
    with browser.launched() as running, running.open(page.as_uri(), width=390, dark=True) as visit:
        assert visit.requested == [page.as_uri(), "http://127.0.0.1:9/picture.png", "http://example.invalid/x"]
        said = " ".join(visit.complaints)
        assert "wrong" in said
        assert "nothing is not defined" in said or "Uncaught" in said
        assert "ERR_" in said
        assert visit.run("[document.title, innerWidth]") == ["true", 390]
        visit.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("ci", ["", "1"])
def test_without_a_chromium_and_without_apt_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    browser.chromium.cache_clear()
    try:
        assert browser.chromium() is None
        with pytest.raises(pytest.skip.Exception, match="no Chromium is installed"), browser.launched():
            pass
    finally:
        browser.chromium.cache_clear()


def test_an_installation_that_fails_leaves_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\nexit 100\n", "utf-8")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.install() is None
