"""Settings: one typed schema, read from `holdfast.toml`, `[agents.NAME]` blocks, the environment and flags.

Says what a value is and where it came from, and in `inert` where it has no effect; nothing else here knows what a value
is used for. Opens no file but the two `holdfast.toml`. Secrets have no place here. May import `facts`,
`canonical` and `errors`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import inert as inert
    from .document import FILE as FILE
    from .inert import notes as notes
    from .keys import KEYS as KEYS
    from .keys import SECTIONS as SECTIONS
    from .keys import SERVER_KEYS as SERVER_KEYS
    from .keys import Key as Key
    from .loader import holdfast_home as holdfast_home
    from .loader import load as load
    from .loader import load_config as load_config
    from .origin import Origin as Origin
    from .origin import printable as printable
    from .overrides import configured_facts as configured_facts
    from .parse import NotAllowedError as NotAllowedError
    from .parse import check as check
    from .parse import expand as expand
    from .parse import mask as mask
    from .parse import quoted as quoted
    from .private_home import close_to_others as close_to_others
    from .resolution import ROOTS as ROOTS
    from .resolution import Config as Config
    from .resolution import resolve as resolve
    from .schema import Settings as Settings
    from .secrets import secret as secret
    from .servers import LONGEST_NAME as LONGEST_NAME
    from .servers import contradiction as contradiction
    from .servers import is_name as is_name
    from .show import as_json as as_json
    from .show import as_text as as_text
    from .template import as_toml as as_toml
    from .writer import write_value as write_value
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
