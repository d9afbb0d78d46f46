"""Which libraries written for JAX are installed, whether they import with veery in JAX's place, and what they lack."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veery import _in_place

# Distributions, and what of them is imported.
LIBRARIES = {
    "optax": "optax",
    "chex": "chex",
    "einops": "einops",
    "dm-haiku": "haiku",
    "jraph": "jraph",
    "distrax": "distrax",
    "rlax": "rlax",
    "jaxtyping": "jaxtyping",
    "equinox": "equinox",
    "lineax": "lineax",
    "optimistix": "optimistix",
    "diffrax": "diffrax",
    "flax": "flax.linen flax.nnx",
    "numpyro": "numpyro",
    "blackjax": "blackjax",
    "treescope": "treescope",
    "orbax-checkpoint": "orbax.checkpoint",
    "mujoco-mjx": "mujoco.mjx",
}


def report() -> list[dict[str, Any]]:
    """For each installed library its version, the error of its import ("" for none), and the names that it lacks."""
    found = []
    for name, modules in LIBRARIES.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(name)
            errors = [error for module in modules.split() if (error := _import_error(module))]
            absent = sorted({name for module in modules.split() for name in lacking(module)})
            found.append({"name": name, "version": version, "error": "; ".join(errors), "lacks": absent})
    return found


def _import_error(module: str) -> str:
    """The last line of what importing it says, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", f"import {module}"]
    done = subprocess.run(command, env={**os.environ, **_in_place.environment()}, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else f"{module}: {lines[-1] if lines else f'exit code {done.returncode}'}"


def lacking(module: str) -> set[str]:
    """The public names of JAX in the sources of a package that veery has not; those of its tests do not count."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return set()
    root = Path(spec.origin).parent.joinpath(*module.split(".")[1:])
    paths = sorted(root.rglob("*.py")) if root.is_dir() else [root.with_suffix(".py")]
    sources = [path for path in paths if "test" not in path.stem and "tests" not in path.parts]
    return {name for path in sources for name in _names(path) if not _is_there(name)}


def _names(path: Path) -> Iterator[str]:
    """The names of JAX's that a file reads, in full: "jax.numpy.sum"."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_text())))
    except (SyntaxError, UnicodeDecodeError):
        return
    known: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "jax":
                    yield alias.name
                    known[alias.asname or "jax"] = alias.name if alias.asname else "jax"
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").partition(".")[0] == "jax":
            for alias in node.names:
                if alias.name != "*":
                    yield f"{node.module}.{alias.name}"
                    known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute):
            parts = ast.unparse(node).split(".")
            if parts[0] in known and all(part.isidentifier() for part in parts):
                yield ".".join([known[parts[0]], *parts[1:]])


def _is_there(name: str) -> bool:
    """Whether veery has it; what is no module's is not looked into."""
    parts = ("veery" + name.removeprefix("jax")).split(".")
    owner: Any = importlib.import_module("veery")
    for i, part in enumerate(parts[1:], 1):
        if not isinstance(owner, type(sys)):
            return True
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                owner = getattr(owner, part)
            except AttributeError:
                try:
                    owner = importlib.import_module(".".join(parts[: i + 1]))
                except ImportError:
                    return False
    return True
