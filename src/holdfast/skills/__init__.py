"""Skills: directories with a SKILL.md, listed in the stable prompt, loaded when the agent asks for one.

A session reads its roots once, when it begins. The index is fixed from then on, bodies arrive as tool results, and what
may be loaded has a budget. May import everything below it.
"""

from .activation import SkillActivationRegistry
from .index import render_index
from .loader import load_roots, load_skills, skill_store_factory
from .roots import roots_of
from .session import Composed, SessionSkills
from .skill import Problem, Root, Shadowed, Skill, SkillSource, SkillValidationError, Skipped
from .skill_file import problems, read_skill, validate_dir
from .store import SkillStore
from .tools import register_skill_tools

__all__ = [
    "Composed",
    "Problem",
    "Root",
    "SessionSkills",
    "Shadowed",
    "Skill",
    "SkillActivationRegistry",
    "SkillSource",
    "SkillStore",
    "SkillValidationError",
    "Skipped",
    "load_roots",
    "load_skills",
    "problems",
    "read_skill",
    "register_skill_tools",
    "render_index",
    "roots_of",
    "skill_store_factory",
    "validate_dir",
]
