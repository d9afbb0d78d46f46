"""The structure that the design promises: import direction, doors, file sizes, public names, nothing from JAX."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    "veery": ROOT / "frontend/veery",
    "veery_lowering": ROOT / "lowering/veery_lowering",
    "veery_runtime": ROOT / "runtime/veery_runtime",
}
FILES = [(package, path) for package, root in SOURCES.items() for path in sorted(root.rglob("*.py"))]
ids = lambda item: str(item[1].relative_to(ROOT))


@functools.cache
def nodes(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    """The imports of a file: (statement, whether within a function, whether for types alone)."""
    found = []

    def walk(statements: list[ast.stmt], lazy: bool, types: bool) -> None:
        for node in statements:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found.append((node, lazy, types))
            inner = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for part in ("body", "orelse", "handlers", "finalbody", "cases"):
                checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
                walk(getattr(node, part, []), inner, types or checking)

    walk(ast.parse(path.read_text()).body, False, False)
    return found


def imported(path: Path) -> set[str]:
    """The modules that a file imports, also within functions."""
    names = set()
    for node, _, _ in nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def top(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("item", FILES, ids=ids)
def test_nothing_imports_jax(item):
    assert not top(imported(item[1])) & {"jax", "jaxlib", "flax", "torch"}


@pytest.mark.parametrize("item", FILES, ids=ids)
def test_packages_meet_at_their_doors(item):
    package, path = item
    others = top(imported(path)) & (SOURCES.keys() - {package})
    if package == "veery" and path.name == "_dispatch.py":
        return
    assert not others, f"{path.name} imports {others}"


@pytest.mark.parametrize("item", FILES, ids=ids)
def test_foreign_libraries_have_one_door_each(item):
    package, path = item
    names = imported(path)
    if any(name == "iree" or name.startswith("iree.compiler") for name in names):
        assert package == "veery_lowering" and path.name == "mlir.py"
    if any(name.startswith("iree.runtime") for name in names):
        assert package == "veery_runtime" and path.name == "iree.py"


# The layers of the frontend, each of which imports from those before it, also within functions. What the lower ones
# need of the upper ones is in `veery._core.provided`.
LAYERS = "version _core _transforms lax _eager _dispatch _distributed _reference _api numpy PUBLIC _cli".split()


def layer(module: str) -> int:
    """The layer of a module of veery: public modules and packages are one, but for `lax` and `numpy`."""
    name = (module.split(".") + ["PUBLIC"])[1]
    return LAYERS.index(name if name in LAYERS else "PUBLIC")


@pytest.mark.parametrize("item", [i for i in FILES if i[0] == "veery" and i[1].name != "__main__.py"], ids=ids)
def test_layers_import_from_those_below(item):
    own = layer(".".join(item[1].relative_to(SOURCES["veery"].parent).with_suffix("").parts))
    names = {n for n in imported(item[1]) if n.startswith("veery.")}
    above = {n for n in names if layer(n) > own}
    assert not above, f"{LAYERS[own]} is below {sorted(above)}"


# The same of the lowering: plain data and the bindings first, then builders of operations, and so on.
LOWERING = (
    "errors addresses program host mlir spelling types stablehlo kernels passes emit store targets compiler".split()
)
LOWERING += "reading lowered __init__".split()


@pytest.mark.parametrize("item", [i for i in FILES if i[0] == "veery_lowering"], ids=ids)
def test_layers_of_the_lowering_import_from_those_below(item):
    place = lambda module: LOWERING.index(module.split(".")[1])
    own = place("veery_lowering." + ".".join(item[1].relative_to(SOURCES["veery_lowering"]).with_suffix("").parts))
    names = {n for n in imported(item[1]) if n.startswith("veery_lowering.") and n.split(".")[1] in LOWERING}
    above = {n for n in names if place(n) > own}
    assert not above, f"{LOWERING[own]} is below {sorted(above)}"


# Function-level imports that close a circle of files, and why.
CIRCLES = {
    ("veery._core.jaxpr", "veery._core.pretty"): "jaxprs print themselves",
    ("veery.numpy._array_methods", "veery.numpy"): "an array gives the module that it belongs to",
}


def import_edges(package: str) -> Iterator[tuple[str, str, bool]]:
    """Which file of a package imports which, and whether within a function."""
    root = SOURCES[package]
    files = {".".join((package, *p.relative_to(root).with_suffix("").parts)): p for p in root.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}

    for importer, path in files.items():
        for node, lazy, types in nodes(path):
            names = [alias.name for alias in node.names]
            for name in [f"{node.module}.{n}" for n in names] if isinstance(node, ast.ImportFrom) else names:
                while name and name not in files:
                    name = name.rpartition(".")[0]
                if name and name != importer and not types:
                    yield importer, name, lazy


@pytest.mark.parametrize("package", SOURCES)
def test_files_import_in_no_circles(package):
    """But for rules of `lax`, which need the operations of each other's files when they are applied."""
    graph: dict[str, set[str]] = {}
    allowed = set(CIRCLES)
    for importer, name, lazy in import_edges(package):
        between_rules = importer.startswith("veery.lax.") and name.startswith("veery.lax.")
        if not (lazy and (between_rules or (importer, name) in CIRCLES)):
            graph.setdefault(importer, set()).add(name)
        allowed.discard((importer, name))
    TopologicalSorter(graph).prepare()
    assert not {pair for pair in allowed if pair[0].startswith(f"{package}.")}, "these are no circles any more"


def test_the_document_shows_the_layers():
    text = (ROOT / "docs/architecture.md").read_text()
    shown = [line for line in text.splitlines() if line.startswith("    ") and " < " in line]
    frontend = " < ".join(name for name in LAYERS if name not in ("version", "PUBLIC"))
    lowering = " < ".join(name for name in LOWERING if (SOURCES["veery_lowering"] / name).is_dir())
    assert shown == ["      " + frontend, "      " + lowering]


@pytest.mark.parametrize("item", FILES, ids=ids)
def test_files_are_of_a_size_to_be_read(item):
    assert len(item[1].read_text().splitlines()) <= 800


def test_the_runtime_needs_little():
    allowed = {"numpy", "ml_dtypes", "iree", "veery_runtime"} | set(sys.stdlib_module_names)
    for package, path in FILES:
        if package == "veery_runtime":
            assert top(imported(path)) <= allowed, path.name


def test_no_module_shadows_a_public_function():
    import veery
    import veery.lax
    import veery.numpy

    for package, module in (("veery", veery), ("veery/lax", veery.lax), ("veery/numpy", veery.numpy)):
        public = {path.stem for path in (ROOT / "frontend" / package).glob("[!_]*.py")}
        for name in public:
            assert not callable(getattr(module, name, None)), f"{package}/{name}.py hides the function {name}"


@pytest.mark.parametrize("package", SOURCES)
def test_wheels_have_the_files_of_data(package):
    """What an editable installation finds in any case, a wheel has only where pyproject.toml names it."""
    root = SOURCES[package]
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][package]
    named = {path for pattern in patterns for path in root.glob(pattern)}
    others = {path for path in root.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert named == others


# Collectives never reach the lowering: vmap resolves them, pmap makes them exchanges between devices.
COLLECTIVES = {"psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute", "axis_index"}
COLLECTIVES |= {"psum_invariant", "all_gather_invariant"}
# Nor do these: they are done between programs, or what they compute takes their place.
COLLECTIVES |= {"sharding_constraint", "device_put", "reshard", "shard_map"}


@pytest.mark.compiler
def test_every_primitive_has_its_rules():
    """Each primitive of lax has abstract evaluation, derivative, batching and a lowering (or its reason is here)."""
    import veery.lax
    import veery.lax.linalg
    from veery._core.primitive import Primitive
    from veery_lowering.emit import registry

    lowered = registry.rule_names()
    public = [*vars(veery.lax).items(), *vars(veery.lax.linalg).items()]
    primitives = {v for n, v in public if n.endswith("_p") and isinstance(v, Primitive)}
    assert len(primitives) > 100
    for primitive in sorted(primitives, key=lambda p: p.name):
        assert primitive.abstract_eval is not None, f"{primitive} has no abstract evaluation"
        assert primitive.jvp is not None, f"{primitive} has no jvp rule"
        assert primitive.batch is not None or primitive.axis_batch is not None, f"{primitive} has no batching rule"
        assert primitive.name in lowered | COLLECTIVES, f"{primitive} has no lowering"


# Tables whose keys, or members, are the names of primitives.
TABLES = {
    "veery._api.checker": "_HIGHER_ORDER",
    "veery._reference.control_flow": "CALLEES",
    "veery._reference.interpreter": "rules",
    "veery._reference.leaves": "_LEAVES",
    "veery._reference.linear_algebra": "_MATRIXWISE _ELEMENTWISE _SIGNS",
    "veery._reference.rounding": "EXACT EXACT_REAL CORRECT ULPS NEAR_ZEROS _SUMS _SCATTERS _SCALED",
    "veery.lax._exchange": "_exchanges",
    "veery_lowering.emit.float8": "_ON_ANY_DTYPE",
    "veery_lowering.emit.registry": "rule_names",
    "veery_lowering.emit.work": "_NEVER_SELECTED _CONTROL_FLOW",
}


@pytest.mark.parametrize(
    "module", [pytest.param(m, marks=pytest.mark.compiler if m.startswith("veery_lowering") else ()) for m in TABLES]
)
def test_tables_name_primitives(module):
    import veery  # noqa: F401  makes the primitives
    from veery._core.primitive import all_primitives
    from veery_lowering.emit import registry

    known = {p.name for p in all_primitives}
    for attribute in TABLES[module].split():
        table = getattr(importlib.import_module(module), attribute)
        found = set(table() if callable(table) else table)
        names = {n for n in found if not (registry.is_replaced(n) or n.startswith("test_"))}  # made by other tests
        assert names <= known, f"{module}.{attribute} names what is no primitive: {sorted(names - known)}"


def test_fields_of_primitives_say_what_is_known():
    import veery  # noqa: F401
    from veery._core.primitive import all_primitives

    for primitive in all_primitives:
        assert primitive.checks <= {"nan", "index", "division"}, primitive


# What may be imported within functions: by whom (a folder or file of a package; "" for all), what, and why.
LAZY = [
    ("veery/_dispatch.py", "veery_lowering", "a door: tracing needs no compiler"),
    ("veery/_dispatch.py", "veery_runtime", "a door: tracing needs no runtime"),
    ("veery/_dispatch.py", "veery.version", "where it is written into files"),
    ("veery/_in_place.py", "importlib.metadata", "it takes 12 ms to import"),
    ("veery/_api/__init__.py", "veery._reference", "few programs are verified"),
    ("veery/_api", "veery._api.autotune", "few programs are tuned"),
    ("veery/_api", "veery._api.page", "needs click and rich"),
    ("veery/_api/chrome_trace.py", "", "a server of HTTP takes 20 ms to import: few traces are opened at once"),
    ("veery/_core/jaxpr.py", "veery._core.pretty", "a circle: jaxprs print themselves"),
    ("veery/numpy/_array_methods.py", "veery.numpy", "a circle: an array gives the module that it belongs to"),
    ("veery/lax", "veery.lax", "a circle: rules need operations of each other's files"),
    ("veery/lax", "scipy", "it takes 0.1 s to import"),
    ("veery/experimental/sparse", "scipy", "it takes 0.1 s to import"),
    ("veery/scipy/signal", "scipy", "few programs have other windows than Hann's"),
    ("veery/_cli", "", "`veery --help` and errors in arguments come at once"),
    ("veery_lowering/__init__.py", "veery_lowering.lowered", "a program that is found on disk needs no compiler"),
    ("veery_runtime/discovery.py", "veery_runtime.pjrt", "few programs use XLA, whose structs take 5 ms"),
    (
        "veery_lowering/compiler/helper.py",
        "",
        "it imports what it has been told to, after its socket is closed to others",
    ),
    (
        "veery_lowering/compiler/isolation.py",
        "veery_lowering.compiler.sessions",
        "the compiler runs in the other process",
    ),
]


def lazy_imports() -> Iterator[tuple[str, str]]:
    """The files, and what they import within functions."""

    def walk(node: ast.AST, lazy: bool) -> Iterator[str]:
        if lazy and isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if lazy and isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, lazy or isinstance(node, (ast.FunctionDef, ast.Lambda)))

    for package, path in FILES:
        file = str(path.relative_to(SOURCES[package].parent))
        yield from ((file, name) for name in walk(ast.parse(path.read_text()), False))


def test_imports_within_functions_have_a_reason():
    used = set()
    unlisted = []
    for file, name in lazy_imports():
        rows = [row for row in LAZY if file.startswith(row[0]) and name.startswith(row[1])]
        used.update(rows[:1])
        unlisted += [] if rows else [f"{file}: {name}"]
    assert not unlisted, "imports that could stand at the top of their files"
    assert not set(LAZY) - used, "these are no more"


def test_the_top_level_stays_small():
    allowed = {"frontend", "lowering", "runtime", "tests", "examples", "docs", "pyproject.toml", "Makefile"}
    allowed |= {f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")} | {"LICENSE"}
    made = {"build", "dist"}  # by `make docs` and `make wheel`
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    others = {name for name in found - allowed - made if not name.endswith(".egg-info") and name != "__pycache__"}
    assert not others
