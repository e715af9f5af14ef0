"""Scripts: what the simulated model says, as rules in YAML or a function in Python.

A script is a pure function of the request: turns are counted from its messages, so the same request gets the same
reply. Knows no dialect, no limits and no clock; `simulator.model` makes replies of what it chooses.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import document, parser
    from .loader import ECHO, load_script
    from .rules import CallStep, Script, ScriptRule, ScriptStep, When
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "document parser",
            ".loader": "ECHO load_script",
            ".rules": "CallStep Script ScriptRule ScriptStep When",
        },
    )
