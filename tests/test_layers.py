"""Imports run one way, without circles. Imports inside functions and under TYPE_CHECKING count
too.
"""

import ast
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A module may import from its own room and from the rows below it, but not from other rooms in its
# row.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["__init__"],
    ["reporting"],
    ["autotvm", "meta_schedule"],
    ["baselines", "lowering", "networks", "tuning"],
    ["search"],
    ["topology"],
    ["_utils", "_version"],
]
CORE = ["_utils", "_version", "topology", "search", "baselines", "tuning"]
LEVEL = {room: level for level, rooms in enumerate(reversed(LAYERS)) for room in rooms}


@lru_cache
def modules(package):
    """The files of a package by their modules' dotted names."""
    paths = (ROOT / package).rglob("*.py")
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def statements(package, module):
    """The import statements of a module, as pairs of a dotted name and the names imported from
    it.
    """
    path = modules(package)[module]
    parent = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), parent)
            yield source, [alias.name for alias in node.names]


@lru_cache
def imports(package):
    """For every module of a package, the dotted names of the modules it imports; ``from a import
    b`` may import ``a.b``.
    """
    graph = {module: set() for module in modules(package)}
    for module, imported in graph.items():
        for source, names in statements(package, module):
            submodules = {f"{source}.{name}" for name in names} & graph.keys()
            imported |= submodules
            if not names or len(submodules) < len(names):
                imported.add(source)
    return graph


def pairs(package):
    return (
        (module, imported)
        for module, names in sorted(imports(package).items())
        for imported in sorted(names)
    )


def circles(graph):
    """Circular imports; each is broken before the next is looked for."""
    graph = {module: set(imported) for module, imported in graph.items()}
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            first, second, *rest = reversed(error.args[1])
            yield " -> ".join([first, second, *rest])
            graph[first].remove(second)
        else:
            return


def room(module):
    """The module or subpackage directly under `autotvm_opevo` that a module belongs to."""
    _, _, rest = module.partition(".")
    return rest.partition(".")[0] or "__init__"


def check_none(found, why):
    if found := list(found):
        pytest.fail("\n  ".join([f"{why}:", *found]), pytrace=False)


def is_in(module, *packages):
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("package", ["autotvm_opevo", "benchmarks"])
def test_no_circular_imports(package):
    check_none(
        circles(imports(package)), "modules must not import each other, not even inside functions"
    )


@pytest.mark.parametrize("package", ["autotvm_opevo", "benchmarks"])
def test_no_module_imports_from_its_own_unfinished_package(package):
    found = [
        f"{module} -> {source} ({', '.join(names)})"
        for module in modules(package)
        for source, names in statements(package, module)
        if source != module
        and is_in(module, source)
        and any(is_in(imported, package) for imported in imports(package)[source])
    ]
    check_none(
        found, "import the submodule by its full name: the package's __init__ may still be running"
    )


def test_every_module_has_a_layer():
    unknown = sorted({room(module) for module in modules("autotvm_opevo")} - LEVEL.keys())
    check_none(unknown, "LAYERS must say what these may import")


@pytest.mark.parametrize("importer", LEVEL)
def test_imports_run_down_the_layers(importer):
    upward = [
        f"{module} -> {imported}"
        for module, imported in pairs("autotvm_opevo")
        if room(module) == importer and is_in(imported, "autotvm_opevo")
        if room(imported) != importer and LEVEL[room(imported)] >= LEVEL[importer]
    ]
    check_none(upward, f"{importer} may only import from the layers below it")


@pytest.mark.parametrize("importer", CORE)
def test_core_does_not_import_tvm(importer):
    found = [
        f"{module} -> {imported}"
        for module, imported in pairs("autotvm_opevo")
        if room(module) == importer and is_in(imported, "tvm", "tvm_ffi")
    ]
    check_none(found, f"{importer} must work without TVM")


def test_package_does_not_import_what_is_not_installed_with_it():
    found = [
        f"{module} -> {imported}"
        for module, imported in pairs("autotvm_opevo")
        if is_in(imported, "benchmarks", "tests", "tools", "tutorials")
    ]
    check_none(found, "these are not installed with the package")
