"""The frame of a report: one HTML file that needs nothing but itself.

Style and script stand inside and are named by their hashes in a policy that allows nothing else: no request leaves the
page, and no script or style runs that is not ours, whatever a log contains.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from holdfast.version import __version__

from .charts import Tone
from .markup import Child, Markup, joined, tag, trusted


@cache
def _ours(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8").strip()


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy() -> str:
    rules = f"style-src {_hashed(_ours('style.css'))}; script-src {_hashed(_ours('script.js'))}"
    return f"default-src 'none'; {rules}; base-uri 'none'; form-action 'none'"


def page(*, title: str, kicker: str, headline: Child, under: Child, body: Child, foot: Child) -> str:
    """The whole file."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"holdfast {__version__}"),
        tag("title", title),
        tag("style", trusted(_ours("style.css"))),
    )
    opening = tag("header", tag("p", kicker, class_="kicker"), tag("h1", headline), tag("p", under, class_="under"))
    closing = tag("footer", foot, tag("p", f"Made by holdfast {__version__}."))
    script = tag("script", trusted(_ours("script.js")))
    return (
        f"<!doctype html>\n{tag('html', head, tag('body', opening, tag('main', body), closing, script), lang='en')}\n"
    )


def section(title: str, *content: Child, aside: Child = None, id_: str | None = None, wide: bool = False) -> Markup:
    """A part of the page: its title and a sentence on how to read it in the margin, its content beside them, or below
    them where it is `wide`."""
    margin = tag("div", tag("h2", title), tag("p", aside) if aside else None, class_="margin")
    return tag("section", margin, tag("div", *content, class_="content"), id_=id_, class_="wide" if wide else None)


def tiles(*those: tuple[str, str, str]) -> Markup:
    """The figures that matter: name, figure, what it is."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name), tag("dd", figure, class_="figure"), tag("dd", note, class_="note"))
            for name, figure, note in those
        ],
        class_="tiles",
    )


def notices(sentences: Sequence[Child]) -> Markup | None:
    """What a reader must know before trusting the figures."""
    return tag("ul", [tag("li", each) for each in sentences], class_="notices") if sentences else None


def dotted(facts: Sequence[str]) -> Markup:
    """Short statements in a line, each kept together where there is room."""
    last = len(facts) - 1
    return joined(
        [
            [tag("span", each, "\u00a0·" if number < last else None, class_="unit"), " "]
            for number, each in enumerate(facts)
        ]
    )


def prose(text: str) -> Markup:
    """Our own sentences, in which `this` is to be typed."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return joined(text)
    return joined([tag("code", part) if number % 2 else part for number, part in enumerate(parts)])


def setting(text: str) -> Markup:
    """A line for the configuration, to be copied."""
    return joined(tag("code", text, class_="copy"))


def legend(rows: Sequence[tuple[Tone, str, str, str]]) -> Markup:
    """The parts of a stacked bar: tone, name, figure, share."""
    return tag(
        "ul",
        [
            tag(
                "li",
                tag("span", class_=f"swatch {tone}"),
                tag("span", name, class_="name"),
                tag("span", figure, class_="figure"),
                tag("span", part, class_="figure soft"),
            )
            for tone, name, figure, part in rows
        ],
        class_="legend",
    )


def inline(rows: Sequence[tuple[Tone, str]]) -> Markup:
    """Return a chart's legend on one line."""
    items = [tag("li", tag("span", class_=f"swatch {tone}"), tag("span", name)) for tone, name in rows]
    return tag("ul", items, class_="legend inline")
