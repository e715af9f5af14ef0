"""What is known from one session to the next: USER.md and MEMORY.md of a workspace, and the knowledge of a tenant.

The files are small, written whole or not at all. Knowledge is entries in the store: checked before they are kept, with
their history, found by words or by meaning, exported and imported as Markdown. `surfacing` chooses what of it
a prompt says and when; the agent makes entries of that, `injecting` puts it into requests of the gateway's clients. May
import everything below it.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .checks import project_name as project_name
    from .embedders import embedder as embedder
    from .entries import CATEGORIES as CATEGORIES
    from .entries import PREFERENCE as PREFERENCE
    from .entries import Category as Category
    from .entries import Context as Context
    from .entries import Delta as Delta
    from .entries import Hit as Hit
    from .entries import KnowledgeCategory as KnowledgeCategory
    from .entries import KnowledgeEntry as KnowledgeEntry
    from .entries import KnowledgeFilter as KnowledgeFilter
    from .entries import Stable as Stable
    from .files import FILES as FILES
    from .files import STORES as STORES
    from .files import MemoryFiles as MemoryFiles
    from .files import digest as digest
    from .ids import LEAST as LEAST
    from .ids import begun as begun
    from .ids import is_id as is_id
    from .ids import is_named as is_named
    from .ids import tidy as tidy
    from .injection import Injecting as Injecting
    from .judgement import Judge as Judge
    from .judgement import Judgement as Judgement
    from .judgement import project_label as project_label
    from .judgement import utc_time as utc_time
    from .knowledge import Knowledge as Knowledge
    from .knowledge import UnchangedError as UnchangedError
    from .markdown import EVERYWHERE as EVERYWHERE
    from .markdown import Imported as Imported
    from .markdown import Planned as Planned
    from .markdown import exported as exported
    from .markdown import import_ as import_
    from .markdown import parsed as parsed
    from .markdown import planned as planned
    from .projects import project_of as project_of
    from .prompt_texts import ANNOUNCEMENT_AGENT as ANNOUNCEMENT_AGENT
    from .recall import knowledge_tools as knowledge_tools
    from .surface import CONSIDERED as CONSIDERED
    from .surface import NET as NET
    from .surface import Surfacing as Surfacing
    from .texts import beginning as beginning
    from .texts import whole as whole
    from .tools import EMPTY as EMPTY
    from .tools import MEMORY_ADD as MEMORY_ADD
    from .tools import memory_tools as memory_tools
    from .vectors import Vectors as Vectors
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".checks": "project_name",
            ".embedders": "embedder",
            ".entries": (
                "CATEGORIES Category Context Delta Hit KnowledgeCategory KnowledgeEntry KnowledgeFilter "
                "PREFERENCE Stable"
            ),
            ".files": "FILES MemoryFiles STORES digest",
            ".ids": "LEAST begun is_id is_named tidy",
            ".injection": "Injecting",
            ".judgement": "Judge Judgement project_label utc_time",
            ".knowledge": "Knowledge UnchangedError",
            ".markdown": "EVERYWHERE Imported Planned exported import_ parsed planned",
            ".projects": "project_of",
            ".prompt_texts": "ANNOUNCEMENT_AGENT",
            ".recall": "knowledge_tools",
            ".surface": "CONSIDERED NET Surfacing",
            ".texts": "beginning whole",
            ".tools": "EMPTY MEMORY_ADD memory_tools",
            ".vectors": "Vectors",
        },
    )
