"""What a Python script answers, as steps; what goes wrong inside it, as one sentence."""

from __future__ import annotations

import inspect

from holdfast.errors import HoldfastError
from holdfast.records import Request

from ..messages import Reply
from . import parser
from .document import problem, wrap
from .rules import Script, ScriptStep


def line_of(error: BaseException, where: str) -> int:
    """The last line of the script that an error passed through."""
    line, frame = 1, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == where:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def ask(script: Script, request: Request) -> Reply | tuple[ScriptStep, ...]:
    """The answer of the script's `reply`: a finished Reply, or steps whose parts follow each other."""
    assert script.function is not None
    try:
        answer = script.function(request)
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:  # a script that ends the program ends its reply
        kind, line = type(error).__name__, line_of(error, script.name)
        raise problem(script.name, line, f"`reply` fails ({kind}: {error}); correct it") from error
    if isinstance(answer, Reply):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # or Python complains that nobody waited for it
    items = answer if isinstance(answer, list) else [answer]
    if not items or not all(isinstance(item, str | dict) for item in items):
        wrong = next((type(item).__name__ for item in items if not isinstance(item, str | dict)), "an empty list")
        sentence = f"`reply` returns {wrong}; return a text, a dict like a rule's, a list of these, or a Reply"
        raise problem(script.name, script.line, sentence)
    try:
        return tuple(parser.read_step(wrap(item, script.line), script.name) for item in items)
    except RecursionError as error:
        raise problem(script.name, script.line, "`reply` returns something that holds itself") from error
