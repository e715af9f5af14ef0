"""Skills: directories with a SKILL.md, listed in the stable prompt, loaded when the agent asks for one.

A session reads its roots once, when it begins. The index is fixed from then on, bodies arrive as tool results, and what
may be loaded has a budget. May import everything below it.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .activation import SkillActivationRegistry
    from .fields import DESCRIPTION_CHARS, TEMPLATE, long_description, name_problems
    from .index import listed, render_index
    from .loader import load_roots, load_skills, places, roots_of
    from .session import SessionSkills
    from .skill import BODY_WARN_TOKENS, FILE, Skill, SkillProblem, SkillRoot, SkillSource
    from .skill_file import UnusableLinkError, check_inside, files_of, named, problems, real_path, reason, validate_dir
    from .store import SkillStore
    from .tools import POINTERS
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".activation": "SkillActivationRegistry",
            ".fields": "DESCRIPTION_CHARS TEMPLATE long_description name_problems",
            ".index": "listed render_index",
            ".loader": "load_roots load_skills places roots_of",
            ".session": "SessionSkills",
            ".skill": "BODY_WARN_TOKENS FILE Skill SkillProblem SkillRoot SkillSource",
            ".skill_file": "UnusableLinkError check_inside files_of named problems real_path reason validate_dir",
            ".store": "SkillStore",
            ".tools": "POINTERS",
        },
    )
