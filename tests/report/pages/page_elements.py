"""A page as a browser would take it apart: elements, attributes, texts, and whether everything is closed where it
should be."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "hr", "input", "link", "img", "source"})
ADDRESSES = frozenset(
    {"src", "href", "xlink:href", "action", "formaction", "poster", "srcset", "data", "ping", "background"}
)


class Element:
    def __init__(self, name: str, attributes: dict[str, str | None], parent: Element | None) -> None:
        self.name, self.attributes, self.parent = name, attributes, parent
        self.children: list[Element] = []
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        """All text in it, in its order, with single spaces."""
        return " ".join("".join(self.texts).split())

    def all(self, name: str, kind: str | None = None) -> list[Element]:
        """The elements of this name, and class, in it."""
        found = []
        for child in self.children:
            if child.name == name and (kind is None or kind in (child.attributes.get("class") or "").split()):
                found.append(child)
            found += child.all(name, kind)
        return found

    def one(self, name: str, kind: str | None = None) -> Element:
        found = self.all(name, kind)
        assert found, (name, kind)
        return found[0]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.at = Element("", {}, None)
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len({name for name, _ in attrs}) != len(attrs):
            self.wrong.append(f"<{tag}> has an attribute twice")
        element = Element(tag, dict(attrs), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.at.children.append(Element(tag, dict(attrs), self.at))

    def handle_endtag(self, tag: str) -> None:
        if tag != self.at.name or self.at.parent is None:
            self.wrong.append(f"</{tag}> closes <{self.at.name}>")
        else:
            self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        at: Element | None = self.at
        while at is not None:
            at.texts.append(data)
            at = at.parent

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"a comment: {data[:40]}")

    def unknown_decl(self, data: str) -> None:
        self.wrong.append(f"a declaration: {data[:40]}")

    def handle_pi(self, data: str) -> None:
        self.wrong.append(f"an instruction: {data[:40]}")


def read(page: str) -> Element:
    """The page, if it is well-formed and leads nowhere."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert parser.at is parser.root, f"<{parser.at.name}> is not closed"
    assert not parser.wrong, parser.wrong
    page.encode("utf-8")
    leads_nowhere(parser.root)
    return parser.root


def leads_nowhere(root: Element) -> None:
    """No address outside of the page, no script and no style beside ours, nothing that acts by itself."""
    elements = [root]
    for element in elements:
        elements += element.children
        assert element.name not in ("link", "img", "iframe", "object", "embed", "form", "base", "image", "use"), (
            element.name
        )
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.name, name)
            assert name != "style", element.name
            if name in ADDRESSES:
                assert re.fullmatch(r"#[a-z0-9]+", value or ""), (name, value)
    assert len(root.all("script")) == len(root.all("style")) == 1
    style = "".join(root.one("style").texts)
    assert not re.search(r"url\(|@import|@font-face|expression\(", style)
    assert not re.search(
        r"fetch\(|XMLHttp|WebSocket|import\(|https?:|innerHTML|eval\(", "".join(root.one("script").texts)
    )
