"""Which of the declared tools a model may call, said beside the tools array, so that the array keeps its bytes.

OpenAI's `allowed_tools` is a choice, not a definition: what it rules out stays declared and cached.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.records import Extra, Opaque, ToolDefinition, encode_string
from holdfast.wire import arr, obj, object_of


def choice(dialect: str, allowed: Sequence[str] | None, declared: Sequence[ToolDefinition | Opaque]) -> Extra:
    """The member of a request that allows these functions and the provider's own tools; none where all are allowed."""
    if allowed is None:
        return ()
    if dialect == "openai_chat":
        tools = [
            obj((("type", b'"function"'), ("function", obj((("name", encode_string(name)),))))) for name in allowed
        ]
        inner = obj((("mode", b'"auto"'), ("tools", arr(tools))))
        return (("tool_choice", obj((("type", b'"allowed_tools"'), ("allowed_tools", inner)))),)
    tools = [obj((("type", b'"function"'), ("name", encode_string(name)))) for name in allowed]
    own = [object_of(item.raw) or {} for item in declared if isinstance(item, Opaque)]
    tools += [
        obj(tuple((key, members[key]) for key in ("type", "name", "server_label") if key in members)) for members in own
    ]
    return (("tool_choice", obj((("type", b'"allowed_tools"'), ("mode", b'"auto"'), ("tools", arr(tools))))),)
