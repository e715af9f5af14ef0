"""Skills: directories with a SKILL.md, listed in the stable prompt, loaded when the agent asks for one.

A session reads its roots once, when it begins. The index is fixed from then on, bodies arrive as tool results, and what
may be loaded has a budget. May import everything below it.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .activation import SkillActivationRegistry as SkillActivationRegistry
    from .fields import DESCRIPTION_CHARS as DESCRIPTION_CHARS
    from .fields import TEMPLATE as TEMPLATE
    from .fields import long_description as long_description
    from .fields import name_problems as name_problems
    from .files import UnusableLinkError as UnusableLinkError
    from .files import check_inside as check_inside
    from .files import files_of as files_of
    from .files import named as named
    from .files import real_path as real_path
    from .index import listed as listed
    from .index import render_index as render_index
    from .loader import load_roots as load_roots
    from .loader import load_skills as load_skills
    from .loader import places as places
    from .loader import roots_of as roots_of
    from .session import SessionSkills as SessionSkills
    from .skill import BODY_WARN_TOKENS as BODY_WARN_TOKENS
    from .skill import FILE as FILE
    from .skill import Skill as Skill
    from .skill import SkillProblem as SkillProblem
    from .skill import SkillRoot as SkillRoot
    from .skill import SkillSource as SkillSource
    from .skill_file import problems as problems
    from .skill_file import reason as reason
    from .skill_file import validate_dir as validate_dir
    from .store import SkillStore as SkillStore
    from .tools import POINTERS as POINTERS
    from .tools import register_skill_tools as register_skill_tools
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".activation": "SkillActivationRegistry",
            ".fields": "DESCRIPTION_CHARS TEMPLATE long_description name_problems",
            ".files": "UnusableLinkError check_inside files_of named real_path",
            ".index": "listed render_index",
            ".loader": "load_roots load_skills places roots_of",
            ".session": "SessionSkills",
            ".skill": "BODY_WARN_TOKENS FILE Skill SkillProblem SkillRoot SkillSource",
            ".skill_file": "problems reason validate_dir",
            ".store": "SkillStore",
            ".tools": "POINTERS register_skill_tools",
        },
    )
