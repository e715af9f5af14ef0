"""Common parts of the memory commands: tenant, project and store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.tables import printable, uncut
from holdfast.config import Config, load_config
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.memory import (
    CATEGORIES,
    LEAST,
    Knowledge,
    KnowledgeEntry,
    KnowledgeFilter,
    begun,
    is_id,
    project_name,
    project_of,
    tidy,
)
from holdfast.store import Projects, Store, open_existing, open_store

F = TypeVar("F", bound=Callable[..., Any])

NO_MODEL = "no model is set (memory.model_dir)"
LEARNED_AT_ONCE = 512
MOST_NAMED = 20
"""Entries that are named at once."""
_NAMED = 8
_EVERY = KnowledgeFilter(projects="all", forgotten=True)


class MemoryView(Struct, frozen=True, kw_only=True):
    """What one tenant knows, seen from one project."""

    config: Config
    knowledge: Knowledge
    words_only: str = "nobody asked"
    """Why a search compares words alone; empty where it compares meanings too."""

    @property
    def project(self) -> str | None:
        return self.knowledge.project

    def seen(self, projects: Projects) -> Projects:
        """Return the projects to list: all of them if the command runs in no project."""
        return "all" if projects == "both" and self.project is None else projects

    def every(self) -> list[KnowledgeEntry]:
        """All entries of the tenant, forgotten ones too."""
        return self.knowledge.store.knowledge_entries(self.knowledge.tenant, _EVERY)


def tenant_option(command: F) -> F:
    return click.option(
        "--tenant", metavar="NAME", help="Whose memory, by the name or the beginning of it; by default your own."
    )(command)


def project_option(command: F) -> F:
    return click.option(
        "--project",
        metavar="PATH|NAME",
        help="The project; by default memory.project, or the current repository or directory (another tenant: none).",
    )(command)


def category_options(command: F) -> F:
    """`--category` and `--exclude-category`."""
    for option in (
        click.option(
            "--exclude-category",
            "excluded",
            metavar="NAME",
            multiple=True,
            help="None of this category; may be given again. --category wins.",
        ),
        click.option(
            "--category",
            "categories",
            metavar="NAME",
            multiple=True,
            help=f"Only this category ({', '.join(CATEGORIES)}, or one of your own); may be given again.",
        ),
    ):
        command = option(command)
    return command


def scope_options(command: F) -> F:
    """`--project`, `--everywhere` and `--all-projects`."""
    for option in (
        click.option("--all-projects", is_flag=True, help="Those of all projects."),
        click.option("--everywhere", is_flag=True, help="Only those that hold in every project."),
        project_option,
    ):
        command = option(command)
    return command


def scope(project: str | None, everywhere: bool, all_projects: bool) -> Projects:
    if sum((project is not None, everywhere, all_projects)) > 1:
        raise click.UsageError("--project, --everywhere and --all-projects exclude one another; choose one.")
    return "cross" if everywhere else "all" if all_projects else "both"


@contextlib.contextmanager
def looking(tenant: str | None, project: str | None = None) -> Iterator[MemoryView | None]:
    """The configured store, to be read; None where nothing was stored yet."""
    config = load_config()
    store = open_existing(config.settings.store.url, whole=True)
    if store is None:
        if tenant is not None and not LOCAL.startswith(uncut(tenant)):
            raise HoldfastError(f"there is no tenant {_quoted(tenant)}: nothing is stored yet in {_url(config)}")
        yield None
        return
    with store:
        yield memories(config, store, tenant, project)


@contextlib.contextmanager
def searching(tenant: str | None, project: str | None = None) -> Iterator[MemoryView | None]:
    """The same with meanings, where a model is configured. What it has not learned yet it learns now, up to a number
    that nobody waits long for, so the store is opened to be written."""
    with looking(tenant, project) as view:
        if view is None:
            yield None
            return
        from holdfast.memory import embedder

        model = embedder(view.config.settings.memory)
        if isinstance(model, str):
            yield replace(view, words_only=model)
            return
    from holdfast.memory import Vectors

    with open_store(view.config.settings.store.url) as store:
        vectors = Vectors(store, view.knowledge.tenant, model)
        vectors.learn(at_most=LEARNED_AT_ONCE)
        knowledge = Knowledge(store, view.knowledge.tenant, project=view.project, vectors=vectors)
        yield MemoryView(config=view.config, knowledge=knowledge, words_only="")


@contextlib.contextmanager
def changing(tenant: str | None, project: str | None = None, *, new: bool = False) -> Iterator[MemoryView]:
    """The same, to be written. Only for `new` entries a store is made where there is none."""
    config = load_config()
    url = config.settings.store.url
    if not new or tenant is not None:
        with looking(tenant, project) as view:
            if view is None and not new:
                raise nothing_stored()
    with open_store(url) as store:
        yield memories(config, store, tenant, project)


def memories(config: Config, store: Store, tenant: str | None, project: str | None) -> MemoryView:
    """Resolve the options."""
    owner = LOCAL if tenant is None else _tenant(store, uncut(tenant))
    return MemoryView(config=config, knowledge=Knowledge(store, owner, project=_project(config, store, owner, project)))


def named(view: MemoryView, ids: Sequence[str]) -> list[KnowledgeEntry]:
    """The entries with these ids, each once, however its id is written."""
    entries = [one(view, each) for each in ids]
    return list({entry.id: entry for entry in entries}.values())


def one(view: MemoryView, id: str) -> KnowledgeEntry:
    """Return the entry with this id or, if unique, with this id prefix."""
    entry_id, knowledge = uncut(id), view.knowledge
    if is_id(tidy(entry_id)) or len(entry_id) < LEAST:
        return knowledge.get(entry_id)
    fitting = begun(entry_id, [each for each, _ in knowledge.store.knowledge_revisions(knowledge.tenant, _EVERY)])
    if len(fitting) > 1:
        raise HoldfastError(f"{_quoted(entry_id)} fits more than one entry; there are {listed(sorted(fitting))}")
    return knowledge.get(fitting[0] if fitting else entry_id)


def listed(names: Sequence[str]) -> str:
    """Names behind one another, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return printable(", ".join(names[:MOST_NAMED])) + more


def _tenant(store: Store, text: str) -> str:
    """Return the tenant with this name or, if unique, with this prefix."""
    tenants = sorted({LOCAL, *store.tenants()})
    fitting = [text] if text in tenants else [each for each in tenants if text and each.startswith(text)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(printable(each)[:128] for each in (fitting or tenants)[:_NAMED])
    names += ", …" if len(fitting or tenants) > _NAMED else ""
    problem = "fits more than one tenant" if fitting else "is no tenant"
    raise HoldfastError(f"{_quoted(text)} {problem}; there are {names}")


def unstored(project: str | None) -> str | None:
    """The project that the option means where there is no store."""
    where = _project(load_config(), None, LOCAL, project)
    return None if where is None else project_name(where)


def _project(config: Config, store: Store | None, tenant: str, project: str | None) -> str | None:
    """The project that was named: one that is known, a directory, or any other name; otherwise the configured one, or
    the workspace, as an agent would have it. Clients of the gateway have no workspace that is known."""
    if project is None:
        here = str(project_of(config.workspace or Path())) if tenant == LOCAL else None
        return config.settings.memory.project or here
    if not project.strip():
        raise HoldfastError("--project names nothing; give a directory or a name")
    if not project.startswith((".", "/", "~")):
        own = KnowledgeFilter(project=project_name(project), projects="project", forgotten=True)
        has_entries = store is not None and bool(store.knowledge_entries(tenant, own, limit=1))
        if has_entries or not _is_directory(Path(project)):
            return project
    try:
        return str(project_of(Path(project).expanduser()))
    except (OSError, RuntimeError, ValueError) as problem:
        raise HoldfastError(
            f"the project {_quoted(project)} cannot be used ({printable(problem)}); name another"
        ) from problem


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def nothing_stored() -> HoldfastError:
    """For who asks after an entry where there is no store."""
    return HoldfastError(f"nothing is stored yet in {_url(load_config())}; `holdfast memory add` stores something")


def _url(config: Config) -> str:
    return printable(config.settings.store.url)


def _quoted(text: str) -> str:
    return repr(printable(text)[:128])


def plain(text: str) -> Iterator[str]:
    """The lines of a text as a terminal can show them."""
    for line in text.splitlines():
        yield printable(line.expandtabs(4))


def counted_entries(number: int) -> str:
    """`1 entry`, `2,000 entries`."""
    return "1 entry" if number == 1 else f"{number:,} entries"
