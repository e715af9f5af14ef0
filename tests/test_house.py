"""How the code is built: what `scripts/house.py` measures, and the one figure that is a rule."""

import ast
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest

from scripts.facades import module_names, passing
from scripts.house import main, measure
from scripts.module_trace import traces

ROOT = Path(__file__).parents[1]


def test_packages_import_from_each_other_through_their_init_only() -> None:
    assert [f"{one.module} -> {one.target}" for one in passing(module_names(ROOT / "src"))] == []


def test_two_public_classes_have_one_name_only_where_one_is_the_stored_form_of_the_other() -> None:
    classes: dict[str, list[str]] = defaultdict(list)
    for path in module_names(ROOT / "src").values():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(ast.get_docstring(node) or "")
    several = [docs for docs in classes.values() if len(docs) > 1]
    assert several
    assert all(sum(not each.startswith("The stored form of") for each in docs) == 1 for docs in several)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small checkout that has one of everything that is counted."""
    files = {
        "src/holdfast/__init__.py": '"""A package."""\n',
        "src/holdfast/store/__init__.py": '"""Rows."""\n',
        "src/holdfast/store/rows.py": '''
            """Rows.

            Of a store.
            """

            class Row:
                """A row."""  # noqa

                size: int
                """Its size."""
            ''',
        "src/holdfast/store/keeping.py": "class Row: ...\n",
        "src/holdfast/cli/__init__.py": "",
        "src/holdfast/cli/rows.py": """
            from holdfast.store.rows import Row as Stored

            class Row: ...

            def shown(a, b, c, d, e, f, g, *, h): ...
            """,
        "tests/test_rows.py": "from holdfast.store.rows import _SIZE\nfrom .test_tables import y\n",
        "README.md": "```python\nfrom holdfast.store import Row\n```\n",
        "docs/index.md": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    return tmp_path


def test_everything_that_is_counted_is_named(tree: Path) -> None:
    house = measure(tree)
    assert (house.files, house.test_lines) == (6, 2)
    assert house.code_lines == 2 + 1 + 3
    assert house.participles == ["holdfast.store.keeping"]
    assert house.class_names == ["Row: holdfast.cli.rows, holdfast.store.keeping, holdfast.store.rows"]
    assert house.single_importer == ["holdfast.store.rows <- holdfast.cli.rows"]
    assert house.parameters == ["holdfast.cli.rows.shown: 8"]
    assert house.user_imports == ["holdfast.store"]
    assert house.past_facades == ["holdfast.cli.rows -> holdfast.store.rows"]
    assert house.imported_tests == ["tests/test_rows.py:2 test_tables"]
    assert house.private_uses == ["tests/test_rows.py:1 _SIZE"]


def test_the_table_and_its_lists_are_printed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tree)]) == 0
    assert "| modules named by a participle" in capsys.readouterr().out
    assert main([str(tree), "--list", "participles"]) == 0
    assert capsys.readouterr().out == "holdfast.store.keeping\n"


def test_a_page_gets_the_table_between_its_markers(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tree / "page.md"
    page.write_text("Before.\n\n<!-- house -->\n\nold\n\n<!-- end of house -->\n\nAfter.\n")
    assert main([str(tree), "--write", str(page)]) == 0
    assert main([str(tree)]) == 0
    table = capsys.readouterr().out
    assert page.read_text() == f"Before.\n\n<!-- house -->\n\n{table}\n<!-- end of house -->\n\nAfter.\n"
    assert main([str(tree), "--write", str(page)]) == 0
    assert page.read_text().count(table) == 1
    page.write_text("Nothing.\n")
    with pytest.raises(SystemExit):
        main([str(tree), "--write", str(page)])


def test_a_folder_without_our_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path)])


@pytest.mark.slow
def test_the_modules_of_a_request_a_turn_and_a_report_are_counted() -> None:
    request, turn, report = dict(traces(ROOT)).values()
    assert "holdfast.engine.engine" in request.modules
    assert not any(name.startswith("holdfast.agent") for name in request.modules)
    assert request.switches > request.package_switches > 0
    assert any(name.startswith("holdfast.agent.window") for name in turn.modules)
    assert any(name.startswith("holdfast.report") for name in report.modules)
    assert report.lines(ROOT) > len(report.modules)
