"""The cache on disk: hits, damage, bounds, folders that cannot be used, several processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.jaxpr_graphs import Graph

import veery
import veery_lowering
from veery_lowering.compiler import compile as compiler
from veery_lowering.errors import CacheError
from veery_lowering.store import cache as cache_module, links
from veery_lowering.store.cache import CacheSettings, DiskCache
from veery_lowering.targets import cpu


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def graph(name: str = "add", line: int = 1) -> Graph:
    g = Graph()
    x = g.input(np.ones(3, np.float32))
    (out,) = g.ops(name, [x, x], [((3,), np.float32)], line=("user.py", line))
    g.check(name, out, np.full(3, 2 if name == "add" else 1, np.float32))
    return g


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.veery"))


def key_of(path: Path) -> str:
    return path.stem.partition("-")[0]


def test_second_compilation_is_a_hit(folder: Path) -> None:
    graph().run()
    before = veery_lowering.cache_info()
    graph(line=7).run()  # the same program at another place of the user's code
    after = veery_lowering.cache_info()
    assert (before.misses, before.hits, after.misses, after.hits) == (1, 0, 1, 1)
    assert (after.entries, after.directory) == (1, str(folder)) and after.nbytes > 1000
    graph("mul").run()
    graph().run(options=veery_lowering.Options(flags=("--iree-opt-level=O1",)))
    assert len(entries(folder)) == 3
    veery_lowering.clear_cache()
    assert not entries(folder)


def test_cache_can_be_left_out(folder: Path) -> None:
    graph().run(options=veery_lowering.Options(cache=False))
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["bit", "end", "empty", "text"])
def test_damaged_entry_is_compiled_again(folder: Path, damage: str) -> None:
    graph().run()
    (entry,) = entries(folder)
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = {"bit": bytes(data), "end": bytes(data[:-100]), "empty": b"", "text": b"hello"}[damage]
    entry.write_bytes(damaged)
    with pytest.warns(veery_lowering.CacheWarning, match="is damaged; it is compiled again"):
        graph().run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph().run()


def test_folder_that_cannot_be_written_to_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    monkeypatch.setenv("VEERY_CACHE_DIR", str(occupied / "cache"))
    with pytest.warns(veery_lowering.CacheWarning, match="programs are compiled anew in each process"):
        graph().run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph().run()


def test_full_disk_leaves_no_entry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(veery_lowering.CacheWarning, match="No space left on device"):
        graph().run()
    assert not list(folder.glob("*/*.veery")) and not list(folder.glob("*/.*"))


def test_size_is_bounded(tmp_path: Path) -> None:
    """The least recently used entries go first."""
    cache = DiskCache(tmp_path, limit=10_000)
    for i in range(32):
        cache.put(f"{i:064d}", (bytes(1000), {}))
        os.utime(entries(tmp_path)[-1], (i, i))
    assert cache.get(f"{0:064d}") is not None  # used now
    cache.put(f"{32:064d}", (bytes(1000), {}))
    kept = [int(key_of(path)) for path in entries(tmp_path)]
    assert kept[0] == 0 and kept[-1] == 32 and len(kept) < 12 and cache.info().nbytes <= 10_000


def test_entries_of_another_format_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no damage to warn of; the bound holds for them too."""
    monkeypatch.setattr(cache_module, "_FORMAT", 2)
    monkeypatch.setattr(cache_module, "_MAGIC", b"veery-2\n")
    DiskCache(tmp_path).put("ab" * 32, (bytes(1000), {}))
    monkeypatch.undo()
    cache = DiskCache(tmp_path, limit=500)
    assert cache.get("ab" * 32) is None and cache.info().nbytes > 1000
    cache.put("cd" * 32, (b"program", {}))
    assert cache.get("cd" * 32) == (b"program", {}) and cache.info().nbytes < 500


def test_metadata_and_program_come_back(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("ab" * 32, (b"program", {"a": "b"}))
    assert cache.get("ab" * 32) == (b"program", {"a": "b"})
    assert cache.get("cd" * 32) is None


def test_processes_share_a_folder(folder: Path) -> None:
    """8 writers and readers of one entry at the same time, some of which are killed while they write another."""
    script = (
        "import itertools, sys; from pathlib import Path; from veery_lowering.store.cache import DiskCache\n"
        "cache = DiskCache(Path(sys.argv[1]))\n"
        "for i in range(200) if sys.argv[2] == 'all' else itertools.count():\n"
        "    if i == 1: print('writes', flush=True)\n"
        "    cache.put(f'{i % 50:064d}', (bytes([i % 256]) * 100_000, {}))\n"
        "    cache.put('ab' * 32, (bytes([i % 256]) * 100_000, {}))\n"
        "    program, _ = cache.get('ab' * 32)\n"
        "    assert len(program) == 100_000 and len(set(program)) == 1\n"
    )
    command = [sys.executable, "-W", "error", "-c", script, str(folder)]
    options: dict[str, Any] = {"env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, "text": True}
    killed = [subprocess.Popen([*command, "on"], stdout=subprocess.PIPE, **options) for _ in range(4)]
    whole = [subprocess.Popen([*command, "all"], stdout=subprocess.DEVNULL, **options) for _ in range(4)]
    for process in killed:
        assert process.stdout is not None and process.stdout.readline() == "writes\n"
        process.kill()
        process.wait()
        process.stdout.close()
    assert [process.wait(120) for process in whole] == [0] * 4
    cache = DiskCache(folder)
    programs = [cache.get(key_of(path)) for path in entries(folder)]
    assert len(programs) == 51 and all(found is not None and len(set(found[0])) == 1 for found in programs)
    cache.clear()
    assert not [path for path in folder.glob("*/*") if path.is_file()]  # what was being written goes too


def test_another_compiler_or_cpu_is_a_miss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def misses() -> int:
        before = veery_lowering.cache_info().misses
        graph().run()
        return veery_lowering.cache_info().misses - before

    assert (misses() > 0, misses()) == (True, 0)
    with monkeypatch.context() as patch:
        patch.setattr(links, "cpu_features", lambda: "another")
        patch.setattr(cpu, "cpu_features", lambda: "another")
        assert misses() > 0
    with monkeypatch.context() as patch:
        patch.setattr(links, "compiler_state", lambda: "another")
        patch.setattr(compiler, "COMPILER_VERSION", "another")
        assert misses() > 0


def test_settings_of_the_cache(tmp_path: Path) -> None:
    """JAX's settings, as the frontend passes them on."""

    def kept(folder: Path, count: int, **settings: Any) -> list[Path]:
        with _settings(jax_compilation_cache_dir=str(folder), **settings):
            assert np.asarray(veery.jit(lambda x: x + count)(np.ones(3, np.float32)))[0] == 1 + count
        return entries(folder)

    assert len(kept(tmp_path / "a", 1)) == 1
    assert not kept(tmp_path / "b", 2, jax_persistent_cache_min_compile_time_secs=1000.0)
    assert not kept(tmp_path / "c", 3, jax_persistent_cache_min_entry_size_bytes=10**8)
    assert not kept(tmp_path / "d", 4, jax_enable_compilation_cache=False)
    assert not kept(tmp_path / "e", 5, jax_compilation_cache_max_size=0)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CacheError, match="cannot .* the folder of compiled programs"):
        kept(tmp_path / "file" / "f", 6, jax_raise_persistent_cache_errors=True)
    (damaged,) = (tmp_path / "a").glob("*/*.link")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(CacheError, match="is damaged"):
        kept(tmp_path / "a", 1, jax_raise_persistent_cache_errors=True)


@contextlib.contextmanager
def _settings(**values: Any) -> Iterator[None]:
    before = {name: veery.config.read(name) for name in values}
    try:
        for name, value in values.items():
            veery.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            veery.config.update(name, value)
        veery_lowering.configure_cache(CacheSettings())
