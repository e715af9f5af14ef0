"""A script from its file: YAML or JSON rules, or a Python module with a `reply` function, and what that answers."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

from holdfast.errors import HoldfastError
from holdfast.records import Request

from ..messages import Reply
from . import document, parser
from .document import problem, wrap
from .rules import Script, ScriptStep

ECHO = Script(name="echo")
"""No rules at all: every message is answered with its own text."""

LARGEST = 4_000_000
_FORMS = (".yaml", ".yml", ".json", ".py")


def load_script(path: Path | str) -> Script:
    """Load a script from a file. An error names file and line."""
    path = Path(path)
    where, text = str(path), _read(path)
    if path.suffix == ".py":
        return _load_python(text, where)
    if path.suffix == ".json":
        text = text.replace("\t", " ")  # JSON indents with tabs where YAML may not; a tab in a string is escaped
    return parser.read(document.parse(text, where), where)


def _read(path: Path) -> str:
    if path.suffix not in _FORMS:
        raise HoldfastError(f"the script `{path}` is of no known kind; its name must end in {', '.join(_FORMS)}")
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > LARGEST):
            raise HoldfastError(f"the script `{path}` is no file of reasonable size; check the path")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise HoldfastError(f"the script `{path}` cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise problem(str(path), line, "the script is not UTF-8; save it as UTF-8 text") from error


def _load_python(text: str, where: str) -> Script:
    try:
        code = compile(text, where, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise problem(where, error.lineno or 1, f"the script is not valid Python ({error.msg}); correct it") from error
    except ValueError as error:  # a null byte
        raise problem(where, 1, f"the script is not valid Python ({error}); correct it") from error
    module = ModuleType("holdfast_script_" + hashlib.sha256(where.encode("utf-8", "replace")).hexdigest()[:16])
    module.__file__ = where
    # Dataclasses and pickles look their module up by name.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        kind, line = type(error).__name__, line_of(error, where)
        raise problem(where, line, f"the script fails when it is loaded ({kind}: {error}); correct it") from error
    function = getattr(module, "reply", None)
    if not callable(function):
        raise problem(where, 1, "the script has no function `reply`; define reply(request)")
    line = function.__code__.co_firstlineno if hasattr(function, "__code__") else 1
    return Script(name=where, function=function, line=line)


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
