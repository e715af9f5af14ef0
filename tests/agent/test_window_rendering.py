"""From entries to messages: what each becomes, what goes to another model, and what stands side by side."""

from __future__ import annotations

import pytest

from holdfast.agent.window.entries import (
    Compacted,
    Continue,
    SessionContext,
    Static,
    Timeline,
    UserMessage,
    message_from,
    to_json,
)
from holdfast.agent.window.renderer import coalesce, render
from holdfast.agent.window.texts import written, zone
from holdfast.errors import HoldfastError
from holdfast.records import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Request,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    validate,
)
from holdfast.wire import DIALECTS
from tests.agent.stories import DIALECT, MODEL, START, STATIC, Story, assistant_turn, call, texts, window

OTHER = Static(model="openai:gpt-6.1-sol", dialect="openai_responses")
SAME_MODEL_ELSEWHERE = Static(model=MODEL, dialect="openrouter")


def user(*words: str, **attached: tuple[Image | Document, ...]) -> Timeline:
    return Timeline(
        at=START, items=tuple(UserMessage(at=START, seq=i, text=t, **attached) for i, t in enumerate(words))
    )


class TestWords:
    def test_a_users_words_are_sent_as_they_are(self) -> None:
        assert render(window(user("  two\n\nlines \t")), STATIC) == (Message("user", (Text("  two\n\nlines \t"),)),)

    def test_attachments_follow_the_words_they_came_with(self) -> None:
        image, page = Image("image/png", "AAAA"), Document("text/plain", "page")
        (message,) = render(window(user("see", attachments=(image, page))), STATIC)
        assert message.content == (Text("see"), image, page)

    def test_an_attachment_needs_no_words(self) -> None:
        image = Image("image/png", "AAAA")
        (message,) = render(window(user(" \n", attachments=(image,))), STATIC)
        assert message.content == (image,)

    @pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u2003"])
    def test_blank_texts_are_never_sent(self, blank: str) -> None:
        entries = (
            SessionContext(at=START, text=blank),
            user(blank),
            assistant_turn(Text(blank)),
            Compacted(at=START, text=blank),
            assistant_turn(
                call("t1"), Text(blank), results=(Message("user", (ToolResult("t1", (Text(blank), Text("x"))),)),)
            ),
        )
        messages = render(window(*entries), STATIC)
        blocks = [block for message in messages for block in message.content]
        inner = [part for block in blocks if isinstance(block, ToolResult) for part in block.content]
        assert all(block.text.strip() for block in (*blocks, *inner) if isinstance(block, Text))
        assert validate(Request(model="m", messages=messages)) == ()

    def test_nothing_new_is_a_plain_word(self) -> None:
        (message,) = render(window(Timeline(at=START, items=(Continue(at=START, seq=0),))), STATIC)
        assert message == Message("user", (Text("(continue)"),))


class TestTimes:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("UTC", "2026-11-16 10:42:05 UTC"),
            ("Europe/Berlin", "2026-11-16 11:42:05 UTC+01:00"),
            ("America/St_Johns", "2026-11-16 07:12:05 UTC-03:30"),
            ("Asia/Kathmandu", "2026-11-16 16:27:05 UTC+05:45"),
            ("Europe/London", "2026-11-16 10:42:05 UTC+00:00"),
            ("Nowhere/Land", "2026-11-16 10:42:05 UTC"),
        ],
    )
    def test_a_time_is_written_in_the_zone_of_the_session(self, name: str, expected: str) -> None:
        assert written(START, name) == expected

    def test_summer_has_its_own_offset(self) -> None:
        assert written(1_782_900_000_999_999, "Europe/Berlin") == "2026-07-01 12:00:00 UTC+02:00"

    @pytest.mark.parametrize("name", ["Nowhere/Land", "", "../../etc/passwd", "/etc/localtime", "Europe", "a\0b"])
    def test_a_zone_that_nobody_knows_is_an_error_for_who_sets_it_and_utc_for_who_reads(self, name: str) -> None:
        with pytest.raises(HoldfastError, match=r"agent\.timezone"):
            zone(name)
        assert written(START, name) == "2026-11-16 10:42:05 UTC"

    @pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
    @pytest.mark.parametrize("at", [10**17 * 3, -(10**17), 2**62, -(2**62), 2**80, -(2**80)])
    def test_a_clock_that_was_wrong_leaves_a_time_that_can_be_shown(self, at: int, zone: str) -> None:
        assert len(written(at, zone).split()[0]) == len("2026-11-16")

    def test_a_known_zone_passes(self) -> None:
        assert str(zone("Europe/Berlin")) == "Europe/Berlin"
        assert str(zone("UTC")) == "UTC"


class TestAnotherModel:
    THOUGHT = Thinking("hm", "sealed", (("x", b"1"),))
    BLOCKS: tuple[Block, ...] = (
        THOUGHT,
        RedactedThinking("zzz"),
        Text("Look.", (("thoughtSignature", b'"abc"'),)),
        Opaque("server_tool_use", b'{"type":"server_tool_use"}'),
        ToolUse("t1", "read_file", b"{}", (("thoughtSignature", b'"def"'),)),
    )

    def test_the_model_that_said_it_gets_every_part_back(self) -> None:
        assert render(window(assistant_turn(*self.BLOCKS)), STATIC)[0].content == self.BLOCKS

    @pytest.mark.parametrize("static", [OTHER, SAME_MODEL_ELSEWHERE])
    def test_others_get_what_they_can_read(self, static: Static) -> None:
        assert render(window(assistant_turn(*self.BLOCKS)), static)[0].content == (
            Text("Look."),
            ToolUse("t1", "read_file", b"{}"),
        )

    def test_members_of_the_message_stay_at_home_too(self) -> None:
        turn = assistant_turn(Text("x"))
        extra = (("reasoning_content", b'"hm"'),)
        turn = type(turn)(at=START, message=Message("assistant", (Text("x"),), extra), model=MODEL, dialect=DIALECT)
        assert render(window(turn), STATIC)[0].extra == extra
        assert render(window(turn), OTHER)[0].extra == ()

    def test_a_turn_of_thoughts_alone_leaves_a_mark(self) -> None:
        assert texts(render(window(assistant_turn(self.THOUGHT)), OTHER)) == [["(no text)"]]

    def test_answers_to_calls_that_are_left_out_are_left_out(self) -> None:
        sealed = Opaque("custom_tool_call", b"{}", "o1")
        answers = Message("user", (Opaque("custom_tool_call_output", b"{}", "o1"), ToolResult("t1", (Text("ok"),))))
        turn = assistant_turn(sealed, call("t1"), results=(answers,))
        assert len(render(window(turn), STATIC)[1].content) == 2
        messages = render(window(turn), OTHER)
        assert messages[1].content == (ToolResult("t1", (Text("ok"),)),)
        assert validate(Request(model="m", messages=messages)) == ()

    def test_a_message_of_such_answers_alone_is_gone(self) -> None:
        turn = assistant_turn(Opaque("c", b"{}", "o1"), results=(Message("user", (Opaque("r", b"{}", "o1"),)),))
        assert texts(render(window(turn), OTHER)) == [["(no text)"]]

    def test_results_and_late_tools_go_to_every_model(self) -> None:
        late = Message("system", (Opaque("additional_tools", b"{}"),))
        results = Message("user", (ToolResult("t1", (Text("ok"),)),))
        turn = assistant_turn(call("t1"), results=(results, late))
        assert render(window(turn), OTHER)[1:] == (results, late)

    def test_thoughts_that_nothing_followed_are_not_sent(self) -> None:
        cut = assistant_turn(Text("First."), self.THOUGHT, RedactedThinking("z"))
        assert texts(render(window(cut), STATIC)) == [["First."]]
        assert texts(render(window(assistant_turn(self.THOUGHT)), STATIC)) == [["(no text)"]]

    def test_gemini_gets_the_seals_back_that_stand_beside_empty_texts(self) -> None:
        seal = Text("", (("thoughtSignature", b'"abc"'),))
        gemini = Static(model="gemini:gemini-3-pro", dialect="gemini")
        turn = assistant_turn(Text("x"), seal, model=gemini.model, dialect="gemini")
        assert render(window(turn), gemini)[0].content == (Text("x"), seal)
        assert render(window(turn), STATIC)[0].content == (Text("x"),)


class TestCoalescing:
    def test_consecutive_entries_of_the_user_stand_in_one_message(self) -> None:
        entries = (SessionContext(at=START, text="here"), Compacted(at=START, text="before"), user("a", "b"))
        assert texts(render(window(*entries), STATIC)) == [["here", "before", "a", "b"]]

    def test_results_come_first_and_what_happened_meanwhile_after_them(self) -> None:
        turn = assistant_turn(call("t1"), results=(Message("user", (ToolResult("t1", (Text("ok"),)),)),))
        messages = render(window(user("go"), turn, user("and")), STATIC)
        assert [message.role for message in messages] == ["user", "assistant", "user"]
        assert messages[2].content == (ToolResult("t1", (Text("ok"),)), Text("and"))

    def test_a_border_begins_a_message(self) -> None:
        messages = render(window(user("a"), user("b"), user("c"), borders=(False, True, False)), STATIC)
        assert texts(messages) == [["a"], ["b", "c"]]

    def test_an_entry_without_text_hands_its_border_on(self) -> None:
        made = window(user("a"), SessionContext(at=START, text=""), user("b"), borders=(False, True, False))
        assert texts(render(made, STATIC)) == [["a"], ["b"]]

    def test_other_roles_are_left_alone(self) -> None:
        one, two = Message("system", (Text("a"),)), Message("system", (Text("b"),))
        tool = Message("tool", (ToolResult("t1", (Text("ok"),)),))
        given = (one, two, tool, tool, Message("assistant", (Text("x"),)), Message("assistant", (Text("y"),)))
        assert coalesce([(False, given)]) == given

    def test_a_message_with_members_of_its_own_is_left_alone(self) -> None:
        named, plain = Message("user", (Text("a"),), (("name", b'"x"'),)), Message("user", (Text("b"),))
        assert coalesce([(False, (plain,)), (False, (named,)), (False, (plain,))]) == (plain, named, plain)


class TestStored:
    def test_half_a_character_becomes_a_mark_instead_of_an_error(self) -> None:
        message = Message("assistant", (Text("ok \ud83d"), Text("😀"), ToolUse("t1", "x", b'{"a":"\xff"}')))
        stored = message_from(to_json(message))
        assert stored.content == (Text("ok \ufffd"), Text("😀"), ToolUse("t1", "x", b'{"a":"\xff"}'))

    def test_what_can_be_stored_comes_back_as_it_was(self) -> None:
        message = Message("assistant", (*TestAnotherModel.BLOCKS, Text("\0 \u2028 ü")), (("x", b"1"),))
        assert message_from(to_json(message)) == message


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_conversation_can_be_sent_in_every_dialect(dialect: str) -> None:
    story = Story().begin().says("go").send().answer("Let me see.", call("t1"), call("t2"))
    story.results("one", "two").says("more").send().answer("Done.").says("thanks").flush()
    messages = story.render(Static(model="m", dialect=dialect))
    assert validate(Request(model="m", messages=messages)) == ()
    assert b"thanks" in DIALECTS[dialect].encode(Request(model="p:m", messages=messages, dialect=dialect))
