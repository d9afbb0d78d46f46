"""In JAX's place: `import jax`, and of any of its modules, gives veery's, in this process and in its children.

The children run `veery/_startup/sitecustomize.py` when they start, which loads this file without loading veery: so it
imports nothing of it, until `jax` is imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_STARTUP = str(Path(__file__).parent / "_startup")


class _Loader:
    """Gives a module of veery for one of JAX."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        ours = importlib.import_module(_our_name(name))
        if name == "jax":
            _answer_as_jax(ours)
            _show_loaded()
        sys.modules[name] = ours  # which the import statement takes, instead of the empty module


class _Finder:
    """Knows JAX's modules, those of jaxlib that libraries import, and JAX's distribution."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in _TOPS:
            return None
        found = importlib.util.find_spec(_our_name(name))
        if found is None and top == "jaxlib":
            message = f"there is no {name}: veery stands in JAX's place, and runs programs without jaxlib"
            raise ModuleNotFoundError(message, name=name)
        if found is None:
            absent = importlib.import_module("veery._core.absent")
            why = absent.module_reason(_our_name(name)) or absent.empty_reason(_our_name(name))
            message = f"veery, which stands in JAX's place, has no {name}"
            raise ModuleNotFoundError(f"{message}: {why}" if why else message, name=name)
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(name, _Loader(), is_package=is_package)  # type: ignore[arg-type]

    def find_distributions(self, context: Any) -> list[Any]:
        """JAX's, unless somebody asks what is installed in some folder."""
        return [_jax_distribution()] if context.name in (None, "jax") and "path" not in vars(context) else []


def _jax_distribution() -> Any:
    """What `importlib.metadata` says of JAX."""
    from importlib.metadata import Distribution

    class Jax(Distribution):
        def read_text(self, filename: str) -> str | None:
            if filename != "METADATA":
                return None
            version = importlib.import_module("veery.version").JAX_VERSION
            return f"Metadata-Version: 2.1\nName: jax\nVersion: {version}\n"

        def locate_file(self, path: Any) -> Path:
            return Path(__file__).parents[1] / path

    return Jax()


_TOPS = {"jax": "veery", "jaxlib": "veery._jaxlib"}  # of jaxlib what libraries take of it


def _our_name(name: str) -> str:
    top, dot, rest = name.partition(".")
    return _TOPS[top] + dot + rest


def _answer_as_jax(veery: ModuleType) -> None:
    """Programs ask for the version to know which interface there is."""
    version = importlib.import_module("veery.version")
    for module in (veery, version):
        module.__version__ = version.JAX_VERSION  # type: ignore[attr-defined]
        module.__version_info__ = version.numbers(version.JAX_VERSION)  # type: ignore[attr-defined]


def _show_loaded() -> None:
    """Programs look into `sys.modules` for what `import jax` loads."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("veery.") and "._" not in name:
            sys.modules.setdefault("jax" + name.removeprefix("veery"), module)


def install() -> None:
    """Put veery in JAX's place.

    Raises:
        ImportError: JAX itself has been imported in this process.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    jax = sys.modules.get("jax")
    if jax is not None:
        where = getattr(jax, "__file__", None)
        raise ImportError(f"jax is imported already, from {where}: import veery.as_jax before all that imports jax")
    sys.meta_path.insert(0, _Finder())
    os.environ.update(environment())


def environment() -> dict[str, str]:
    """The variables with which an interpreter has veery in JAX's place from its start."""
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", _STARTUP)]
    return {"PYTHONPATH": os.pathsep.join([_STARTUP, *others])}


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext veery` in a notebook: `import jax` is veery from then on."""
    install()
    importlib.import_module("jax")
