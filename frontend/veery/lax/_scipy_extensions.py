"""SciPy's compiled modules without the packages that they are in, whose import takes 0.16 s: these take 0.02."""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec
from pathlib import Path
from types import ModuleType

_lock = threading.RLock()


@functools.cache
def extension(name: str) -> ModuleType:
    """A compiled module by its full name; imported in the ordinary way where SciPy has it elsewhere.

    Raises:
        ImportError: there is no such module.
    """
    with _lock:  # such modules are among those that are imported before they are whole
        return _loaded(name)


def is_file(name: str) -> bool:
    """Whether there is a file of a compiled module: to ask by importing one imports the packages around it."""
    return _spec(name) is not None


def _loaded(name: str) -> ModuleType:
    spec = None if name in sys.modules else _spec(name)
    if spec is None or spec.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _spec(name: str) -> ModuleSpec | None:
    package, *folders, _ = name.split(".")
    found = importlib.util.find_spec(package)
    for root in (found.submodule_search_locations if found else None) or ():
        finder = FileFinder(str(Path(root, *folders)), (ExtensionFileLoader, EXTENSION_SUFFIXES))
        if (spec := finder.find_spec(name)) is not None:
            return spec
    return None
