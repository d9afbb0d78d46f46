"""Python runs this when it starts, in the children of a program that has veery in JAX's place.

Their PYTHONPATH has this folder first. veery is not loaded before it, or `jax`, is imported.
"""

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_FOLDER)


def _in_jaxs_place() -> None:
    found = importlib.util.find_spec("veery")
    if found is None or found.origin is None or not os.path.samefile(os.path.dirname(found.origin), _PACKAGE):
        return  # an interpreter that has no veery, or another
    module = sys.modules.get("veery._in_place")
    if module is None:
        path = os.path.join(_PACKAGE, "_in_place.py")
        spec = importlib.util.spec_from_file_location("veery._in_place", path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    module.install()


def _next_sitecustomize() -> None:
    """Run the module that this one hides."""
    paths = [path for path in sys.path if os.path.abspath(path) != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_in_jaxs_place()
_next_sitecustomize()
