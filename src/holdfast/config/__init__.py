"""Settings: one typed schema, read from `holdfast.toml`, `[agents.NAME]` blocks, the environment and flags.

Says what a value is and where it came from, and in `inert` where it has no effect; nothing else here knows what a value
is used for. Opens no file but the two `holdfast.toml`. Secrets have no place here. May import `facts`,
`canonical` and `errors`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import inert
    from .document import FILE
    from .inert import notes
    from .keys import KEYS, SECTIONS, SERVER_KEYS, Key
    from .loader import holdfast_home, load, load_config
    from .origin import Origin, printable
    from .overrides import configured_facts
    from .parse import NotAllowedError, check, expand, mask, quoted
    from .private_home import close_to_others
    from .resolution import ROOTS, Config, resolve
    from .schema import Settings
    from .secrets import secret
    from .servers import LONGEST_NAME, contradiction, is_name
    from .show import as_json, as_text
    from .template import as_toml
    from .writer import write_value
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "inert",
            ".document": "FILE",
            ".inert": "notes",
            ".keys": "KEYS Key SECTIONS SERVER_KEYS",
            ".loader": "holdfast_home load load_config",
            ".origin": "Origin printable",
            ".overrides": "configured_facts",
            ".parse": "NotAllowedError check expand mask quoted",
            ".private_home": "close_to_others",
            ".resolution": "Config ROOTS resolve",
            ".schema": "Settings",
            ".secrets": "secret",
            ".servers": "LONGEST_NAME contradiction is_name",
            ".show": "as_json as_text",
            ".template": "as_toml",
            ".writer": "write_value",
        },
    )
