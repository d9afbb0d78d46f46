"""SciPy's compiled modules without the packages that they are in, whose import takes 0.16 s: these take 0.02."""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
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


def _loaded(name: str) -> ModuleType:
    package, *folders, _ = name.split(".")
    found = None if name in sys.modules else importlib.util.find_spec(package)
    for root in (found.submodule_search_locations if found else None) or ():
        finder = FileFinder(str(Path(root, *folders)), (ExtensionFileLoader, EXTENSION_SUFFIXES))
        spec = finder.find_spec(name)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return importlib.import_module(name)
