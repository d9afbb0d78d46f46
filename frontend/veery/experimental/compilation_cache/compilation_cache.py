"""Where compiled programs are kept; see the settings `jax_compilation_cache_dir` and its neighbours."""

from __future__ import annotations

import os

from veery._core.config import config


def set_cache_dir(path: str | os.PathLike[str]) -> None:
    """Keep compiled programs in a folder: the setting `jax_compilation_cache_dir`."""
    config.update("jax_compilation_cache_dir", os.fspath(path))


def reset_cache() -> None:
    """Nothing is left to do: each compilation asks the settings of the moment which folder is meant."""
