"""The project keeps its own rules: the core's budget, the floors, the texts, the top level, the README's commands."""

import ast
import functools
import importlib
import inspect
import io
import pkgutil
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tinygrad_seq as tg
from tinygrad_seq.engine import methods, ops
from tinygrad_seq.engine.signatures import Signatures
from tinygrad_seq.help.reference import REFERENCE

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tinygrad_seq"
NAMES = [tg.__name__, *(module.name for module in pkgutil.walk_packages(tg.__path__, f"{tg.__name__}."))]
SOURCES = {name: Path(importlib.util.find_spec(name).origin) for name in NAMES}  # type: ignore[union-attr, arg-type]


# The budget ----------------------------------------------------------------------------------------------------------

NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def lines_of_code(source: str) -> int:
    """Lines with something on them that runs: no docstring, no comment, no blank."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines -= set(range(text.lineno, text.end_lineno + 1))
    return len(lines)


def test_lines_are_counted_as_they_should_be() -> None:
    module = '"""Text\nof a module."""\n\nimport a  # why\n\n# a comment\n'
    function = 'def f(x):\n    """Text."""\n    return g(\n        x\n    )\n'
    assert (lines_of_code(module), lines_of_code(function), lines_of_code(module + function)) == (1, 4, 5)


def core() -> dict[str, int]:
    """The lines of the core, without the rows of the table of operations."""
    found = {}
    for name in ("tensor", "recording", "ops", "backward"):
        source = (PACKAGE / "engine" / f"{name}.py").read_text("utf-8")
        rows = [
            node
            for node in ast.parse(source).body
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Call)
            and "row" in ast.unparse(node.value.func)
        ]
        in_rows = {number for node in rows for number in range(node.lineno, node.end_lineno + 1)}
        in_rows |= {  # declarations for type checkers, which run nothing
            number
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "overload" for d in node.decorator_list)
            for number in range(node.lineno - 1, node.end_lineno + 1)
        }
        found[name] = lines_of_code("\n".join(
            "" if number in in_rows else line for number, line in enumerate(source.splitlines(), start=1)
        ))  # fmt: skip
    return found


def test_the_core_is_at_most_520_lines_of_code_beside_the_rows_of_its_table() -> None:
    assert sum(core().values()) <= 520, core()


# The floors ----------------------------------------------------------------------------------------------------------

# From the bottom up: a folder imports from itself and from those above it in this list, and within the engine a module
# from those before it.
FOLDERS = ["engine", "data", "reading", "nn", "replaying", "optim", "training", "see", "testing", "help", "__main__"]
ENGINE = ["signatures", "arguments", "namespaces", "context", "tensor", "tree", "recording", "numerics", "ops"]
ENGINE += ["compositions", "numpy_functions", "backward", "recompute", "methods"]


def imported(name: str, node: ast.AST) -> Iterator[str]:
    """The modules that an import statement in the module `name` names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = name.split(".") if SOURCES[name].name == "__init__.py" else name.split(".")[:-1]
        base = package[: len(package) - node.level + 1] if node.level else []
        origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
        for alias in node.names:
            yield f"{origin}.{alias.name}" if f"{origin}.{alias.name}" in NAMES else origin


@functools.cache
def parsed(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text("utf-8"))


IMPORTS = {
    name: {other for node in ast.walk(parsed(name)) for other in imported(name, node) if other in NAMES}
    for name in NAMES
}


def reachable(name: str) -> set[str]:
    found, new = set(), {name}
    while new:
        found |= new
        new = {other for one in new for other in IMPORTS[one]} - found
    return found - {name}


def folder(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def test_imports_are_read_as_python_reads_them() -> None:
    engine = "tinygrad_seq.engine"
    assert IMPORTS[f"{engine}.backward"] == {
        f"{engine}.{name}" for name in ("context", "numerics", "ops", "recording", "signatures", "tensor", "tree")
    }
    assert f"{engine}.ops" in IMPORTS["tinygrad_seq.nn.loss"]
    assert "tinygrad_seq.nn.layers" in IMPORTS["tinygrad_seq.nn.loss"]


def test_every_folder_has_its_place_in_the_order() -> None:
    assert {folder(name) for name in NAMES} == {"", *FOLDERS}
    assert {name.split(".")[2] for name in NAMES if name.startswith("tinygrad_seq.engine.")} == set(ENGINE)


@pytest.mark.parametrize("name", [name for name in NAMES if "." in name])
def test_imports_go_down(name: str) -> None:
    below = FOLDERS[: FOLDERS.index(folder(name)) + 1]
    assert {folder(other) for other in IMPORTS[name]} <= set(below)
    if folder(name) == "engine" and name.count(".") == 2:
        lower = ENGINE[: ENGINE.index(name.split(".")[2])]
        assert {other.split(".")[2] for other in IMPORTS[name]} <= set(lower)


def test_no_module_imports_itself_through_others() -> None:
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(f"an import circle: {' -> '.join(error.args[1])}")


def test_no_import_stands_inside_a_function_but_that_of_an_optional_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        re.split(r"\W", requirement)[0]
        for requirements in project["optional-dependencies"].values()
        for requirement in requirements
    }
    for name in NAMES:
        for function in ast.walk(parsed(name)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                late = {module.split(".")[0] for node in ast.walk(function) for module in imported(name, node)}
                assert late <= extras, f"{name}.{function.name} imports {late - extras}"


# What type checkers see, and what people read ------------------------------------------------------------------------


def declared() -> dict[str, Any]:
    """The operators and methods that signatures.py declares, as functions without a body."""
    for node in ast.walk(parsed("tinygrad_seq.engine.signatures")):
        if isinstance(node, ast.ClassDef) and node.name == Signatures.__name__:
            return {f.name: f for f in ast.walk(node) if isinstance(f, ast.FunctionDef)}
    raise AssertionError("signatures.py declares no Signatures")


def test_type_checkers_see_every_operator_and_method_and_no_other() -> None:
    attached = {*methods.PROTOCOLS, *methods.METHODS, "backward"}
    own = {"shape", "ndim", "size", "dtype", "step", "scope", "operation"}  # the tensor's own, typed there
    assert set(declared()) - own == attached - {"__repr__", "__array_function__"}
    assert all(hasattr(tg.Tensor, name) for name in attached)


# Named otherwise, or with more options, in the function that they are.
OF_NUMPY = {"all", "any", "argmax", "argmin", "argsort", "nonzero", "searchsorted"}
IN_PIECES = {"reshape", "transpose"}  # shapes and axes, one by one


@pytest.mark.parametrize("name", [name for name in declared() if not name.startswith("_")])
def test_type_checkers_see_the_parameters_that_a_method_takes(name: str) -> None:
    method, arguments = vars(tg.Tensor)[name], declared()[name].args
    if isinstance(method, property) or name in OF_NUMPY | IN_PIECES:
        return
    found = list(inspect.signature(method).parameters.values())[1:]
    places = arguments.args[1:]
    defaults = [None] * (len(places) - len(arguments.defaults)) + arguments.defaults
    right = [
        (a.arg, ast.literal_eval(d) if d is not None else inspect.Parameter.empty)
        for a, d in zip([*places, *arguments.kwonlyargs], [*defaults, *arguments.kw_defaults], strict=True)
    ]
    if name == "dot":
        assert len(found) == 1
    else:
        assert [(p.name, p.default) for p in found] == right
        assert [p.kind is p.KEYWORD_ONLY for p in found] == [False] * len(places) + [True] * len(arguments.kwonlyargs)


def public_modules() -> list[ModuleType]:
    """The package, the modules that it exports, and every package that says what it exports."""
    exported = [getattr(tg, name) for name in tg.__all__]
    packages = [importlib.import_module(name) for name in NAMES if SOURCES[name].name == "__init__.py"]
    return [*dict.fromkeys([*packages, *(module for module in exported if isinstance(module, ModuleType))])]


def public() -> dict[str, Any]:
    """Every function, class and method that a person may call, by its path."""
    found: dict[str, Any] = {}
    for module in public_modules():
        here = [n for n, x in vars(module).items() if n[0] != "_" and getattr(x, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", here):
            thing = getattr(module, name)
            found[f"{module.__name__}.{name}"] = thing
            if inspect.isclass(thing):
                ours = [base for base in thing.__mro__ if base.__module__.startswith(tg.__name__)]
                for attribute in {attribute for base in ours for attribute in vars(base) if attribute[0] != "_"}:
                    found[f"{module.__name__}.{name}.{attribute}"] = inspect.getattr_static(thing, attribute)
    return {
        path: thing for path, thing in found.items() if callable(thing) or isinstance(thing, (property, ModuleType))
    }


def test_every_public_name_has_a_text_of_its_own() -> None:
    things = public()
    texts = {path: inspect.getdoc(thing) or "" for path, thing in things.items()}
    assert len(things) > 200
    assert not [path for path, text in texts.items() if len(text) < 10]
    numpys = {inspect.getdoc(forward) for thing in things.values() if (forward := getattr(thing, "forward", None))}
    assert not [path for path, text in texts.items() if text in numpys]


def test_every_public_class_has_a_checked_example() -> None:
    classes = {path: thing for path, thing in public().items() if inspect.isclass(thing)}
    assert len(classes) > 50
    assert not [path for path, thing in classes.items() if ">>>" not in (thing.__doc__ or "")]


def test_an_operation_has_all_that_it_needs() -> None:
    """What is left to do after a row was added to the table: the import, the public name, the reference text."""
    tree = parsed("tinygrad_seq")
    imports = {
        alias.asname or alias.name: node.module.split(".")[-1]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    operations = {name for name, module in imports.items() if module in ("ops", "compositions")}
    private = {"TYPE_CHECKING", "namespace", "methods", "pytorch_names", "reference"}
    assert not imports.keys() - set(tg.__all__) - private, "imported in __init__.py, and missing in its __all__"
    assert not operations - set(REFERENCE), "public operations without a text in help/reference.py"
    assert not set(REFERENCE) - operations, "texts in help/reference.py of what is not imported in __init__.py"
    for name in operations:
        assert ">>>" in getattr(tg, name).__doc__, f"the text of {name} has no example"


def test_operations_that_have_no_public_name_are_named_here() -> None:
    """A new row without its import line would be seen: NumPy's functions alone reach these, or other operations."""
    internal = {
        "argsort", "assemble", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clip_", "concat_", "cumsum_",
        "deg2rad", "einsum_", "equal", "floor_divide", "gather", "getitem", "greater", "greater_equal",
        "isfinite", "isinf", "isnan", "less", "less_equal", "logaddexp2", "logical_and", "logical_not", "logical_or",
        "logical_xor", "not_equal", "rad2deg", "rint", "scatter", "signbit", "stack_", "trunc", "unit", "weighted",
    }  # fmt: skip
    rows = {name for name, x in vars(ops).items() if any(x is row.operation for row in ops.TABLE)}
    assert rows - set(tg.__all__) == internal


# Files ---------------------------------------------------------------------------------------------------------------

TOP_LEVEL = {"tinygrad_seq", "tests", "examples", "docs", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
# Written so that these lines do not match themselves.
LOCAL = re.compile(
    r"(?<![\w.~-])/(?:root|home|work|tmp|Users|mnt|opt)/"
    r"|[A-Z]:\\Users"
    r"|index[-_]url|python[h]osted|\bpypi[.]|artifact[o]ry|devp[i]|/si[m]ple/"
    r"|\blocal[h]ost\b|\b\d+[.]\d+[.]\d+[.]\d+:\d+"
)


def tracked() -> list[Path]:
    """The files of the project: what git tracks, or in a copy without git all that is not made by a tool."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).exists()]
    except (OSError, subprocess.CalledProcessError):
        files = [path for name in TOP_LEVEL for path in [ROOT / name, *(ROOT / name).rglob("*")] if path.is_file()]
        return [path for path in files if "__pycache__" not in path.parts]


def test_the_top_level_holds_what_belongs_there() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert not {name for name in found - TOP_LEVEL if not name.startswith(".")}


def test_no_file_names_a_machine_or_a_registry() -> None:
    assert LOCAL.search("in /ho" + "me/somebody/x") and not LOCAL.search("https://example.org/home/x and a/tmp/b")
    for path in tracked():
        if path.suffix not in (".npz", ".png"):
            for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
                assert not LOCAL.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"


def commands(page: str) -> list[str]:
    """The lines of a page's shell blocks."""
    blocks = re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def test_the_commands_of_the_readme_are_those_that_are_tried_on_a_fresh_machine() -> None:
    """With uv, the same is run in an environment that uv makes: the end of such a command is that of another one."""
    run = ROOT / ".ci" / "run"
    if not run.exists():  # a copy of the sources without the files of the repository
        assert not (ROOT / ".git").exists()
        return
    plain = [command for command in commands((ROOT / "README.md").read_text("utf-8")) if not command.startswith("uv ")]
    missing = [command for command in plain if command not in run.read_text("utf-8")]
    assert plain and not missing
    for command in commands((ROOT / "README.md").read_text("utf-8")):
        assert any(other.split()[-1] == command.split()[-1] for other in plain), command
