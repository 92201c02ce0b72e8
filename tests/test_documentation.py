"""What the documentation says is true: every example of a public text, and every block of Python on every page.

A page is one namespace. Blocks marked `python` are run in order: those with `>>>` are checked against the output that
they show, the others must not fail, and print what stands in a block of text directly below them. The pages in SHOWN
show all that they print. A word after `python` names a module that the block needs (an optional extra): the
block is run where that is installed. Warnings are errors.
"""

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.testing import profiles

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^([ ]*)(`{3,})python[ ]*([^\n]*)\n(.*?)^\1\2[ ]*$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = {"elmo.md", "reading.md"}


@pytest.fixture(autouse=True)
def in_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples may write files, and one of them chooses how much the property tests try."""
    monkeypatch.chdir(tmp_path)
    yield
    profiles.load()


# Texts ---------------------------------------------------------------------------------------------------------------


def modules() -> list[ModuleType]:
    names = [module.name for module in pkgutil.walk_packages(tg.__path__, f"{tg.__name__}.")]
    return [tg, *(importlib.import_module(name) for name in names)]


def examples() -> dict[str, doctest.DocTest]:
    """Every text with examples, by the shortest name of what it belongs to, each once."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), []
    for module in modules():
        shown = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
        known = {"np": np, "tg": tg} | vars(module) | shown
        found += finder.find(module, module.__name__, globs=known)  # whatever the module defines
        for name, thing in shown.items():  # and what was defined elsewhere, such as an operation
            if not isinstance(thing, ModuleType):
                home = vars(inspect.getmodule(thing) or module)
                found += finder.find(thing, f"{module.__name__}.{name}", module=False, globs=home | known)
    shortest: dict[Any, doctest.DocTest] = {}
    for test in sorted(found, key=lambda test: test.name.count(".")):
        if test.examples:
            shortest.setdefault((test.docstring, test.name.rpartition(".")[2]), test)
    return {test.name: test for test in shortest.values()}


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_text_are_true(name: str) -> None:
    check(EXAMPLES[name])


def check(test: doctest.DocTest) -> None:
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False)
    assert not told, "".join(told)


def test_the_texts_of_functions_methods_classes_and_operations_are_found() -> None:
    names = [
        "tanh",
        "concat",
        "Tensor",
        "no_grad",
        "Tape",
        "Tape.visibility",
        "nn.LSTMCell",
        "optim.SGD",
        "data.one_bit",
    ]
    assert {f"tinygrad_seq.{name}" for name in names} <= set(EXAMPLES)


# Pages ---------------------------------------------------------------------------------------------------------------


def run(page: Path) -> int:
    """Run a page from top to bottom; how many blocks were run."""
    text, count = page.read_text("utf-8"), 0
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        _, _, needs, source = block.groups()
        if not all(importlib.util.find_spec(module) for module in needs.split()):
            continue
        source, line, count = textwrap.dedent(source), text.count("\n", 0, block.start(4)), count + 1
        if re.search(r"^>>>", source, re.MULTILINE):
            test = doctest.DocTestParser().get_doctest(source, namespace, page.name, str(page), line)
            check(test)
            namespace.update(test.globs)
        else:  # the empty lines put the block at its place on the page, for who reads the traceback
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + source, str(page), "exec"), namespace)
            shown = PRINTED.match(text, block.end())
            if shown or page.name in SHOWN:
                assert printed.getvalue() == (shown[1] if shown else ""), f"{page.name}, line {line}"
    return count


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_a_page_is_true(page: Path) -> None:
    assert run(page) >= len(re.findall(r"^ *```+python *$", page.read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "error"),
    [
        ("```python\n>>> 1 + 1\n3\n```\n", AssertionError),
        ("```python\n>>> x = 1\n```\n\n- and\n\n  ```python\n  assert x == 2\n  ```\n", AssertionError),
        ("```python\nx = 1\n```\n\n```python\n>>> x\n2\n```\n", AssertionError),
        ("```python\nimport numpy as np\nnp.log(np.zeros(1))\n```\n", RuntimeWarning),
        ("````python\nraise KeyError\n````\n", KeyError),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", AssertionError),
    ],
)
def test_a_page_that_is_wrong_fails(page: str, error: type[Exception], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page, "utf-8")
    with pytest.raises(error):
        run(tmp_path / "page.md")


@pytest.mark.parametrize("below", ["", "```text\n1\n```\n", "```text\n2\n```\n"])
def test_a_page_that_shows_what_it_prints_shows_all_of_it(below: str, tmp_path: Path) -> None:
    page = tmp_path / "reading.md"
    page.write_text(f"```python\nprint(1)\n```\n{below}", "utf-8")
    if "1" in below:
        assert run(page) == 1
    else:
        with pytest.raises(AssertionError, match=r"reading\.md, line 1"):
            run(page)


def test_a_page_is_one_namespace_and_needs_what_it_says_it_needs(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n```python\n>>> x\n1\n>>> y = 2\n```\n```python\nassert x + y == 3\n```\n"
    needs = "```python a_module_that_nobody_has\nraise KeyError\n```\n```python numpy\nassert y == 2\n```\n"
    (tmp_path / "page.md").write_text(page + needs + "```sh\nfalse\n```\n", "utf-8")
    assert run(tmp_path / "page.md") == 4


def test_help_shows_an_operation_with_its_inputs_and_its_text() -> None:
    assert str(inspect.signature(tg.tanh)) == "(x)" and str(inspect.signature(tg.where)) == "(c, a, b)"
    assert str(inspect.signature(tg.sum)) == "(x, axis=None, keepdims=False)"
    assert str(tg.tanh.__doc__).startswith("The hyperbolic tangent") and tg.Tensor.tanh.__doc__ == tg.tanh.__doc__


LINK = re.compile(r"(?<!\\)\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#([^)\s]*))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_of_a_page_leads_nowhere(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text("utf-8")):
        target = page.parent / path
        assert target.exists(), f"{page.name} links to {path}"
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, f"{page.name} links to {path}#{anchor}, which has {sorted(anchors)}"
