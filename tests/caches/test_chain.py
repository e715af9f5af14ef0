"""The chain: where two prompts part, and that leaning on an earlier one changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.caches import CacheControls, chain
from holdfast.caches.prompts import Block, Prompt

from .prompts import block

SECTIONS = ("tools", "system", "messages")


@st.composite
def prompts(draw: st.DrawFn) -> dict[str, object]:
    blocks = [
        block(name, section=section)
        for section in SECTIONS
        for name in draw(st.text("abc", max_size=4 if section == "messages" else 2))
    ]
    salts = draw(st.dictionaries(st.sampled_from(SECTIONS), st.sampled_from([b"1", b"2"])))
    return {"blocks": blocks, "salts": salts}


def built(asked: dict[str, object], like: Prompt | None = None, scope: str = "s") -> Prompt:
    return chain.build("m", asked["blocks"], CacheControls(scope=scope), salts=asked["salts"], like=like)  # type: ignore[arg-type]


@given(prompts(), prompts())
def test_leaning_on_an_earlier_prompt_changes_nothing(one, two):
    assert built(two, like=built(one)) == built(two)
    assert built(two, like=built(one, scope="other")) == built(two)


@given(prompts(), prompts())
def test_keys_agree_exactly_as_far_as_blocks_and_settings_do(one, two):
    a, b = built(one), built(two)

    def said(prompt: dict[str, object], index: int) -> object:
        blocks: list[Block] = prompt["blocks"]  # type: ignore[assignment]
        until = SECTIONS.index(blocks[index].section) + 1
        salts: dict[str, bytes] = prompt["salts"]  # type: ignore[assignment]
        return [b.digest for b in blocks[: index + 1]], [salts.get(section, b"") for section in SECTIONS[:until]]

    for index in range(min(len(a.keys), len(b.keys))):
        same = said(one, index) == said(two, index)
        assert (a.keys[index] == b.keys[index]) == same


def test_a_section_without_blocks_still_carries_its_settings():
    plain = chain.build("m", [block("a")])
    salted = chain.build("m", [block("a")], salts={"tools": b"x"})
    assert plain.keys != salted.keys


def test_ends_count_tokens():
    prompt = chain.build("m", [block("a", 10), block("b", 5)])
    assert (prompt.ends, prompt.tokens) == ((10, 15), 15)
    assert chain.build("m", []).tokens == 0
