"""Damaged files by the hundred: no process dies of one, and none computes anything from one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import programs

from veery_runtime import artifact

LOWERING = str(Path(__file__).parents[2] / "lowering")

# Yields files that differ from a good one: a few bits or bytes, blocks of zeros, blocks lost, moved and repeated, ends.
DAMAGE = """
import sys, warnings
from pathlib import Path
import numpy as np

def damaged(data, count):
    random = np.random.default_rng(7)
    yield b""
    while count:
        at, size = int(random.integers(len(data))), int(random.integers(1, 200))
        one = bytes([data[at] ^ (1 << int(random.integers(8)))])
        other = random.bytes(size)
        edge = int(random.integers(64)) * int(random.choice([-1, 1]))
        changed = [
            data[:at] + one + data[at + 1 :],
            data[:at] + other + data[at + size :],
            data[:at] + bytes(size) + data[at + size :],
            data[:at],
            data[:at] + data[at + size :],
            data[: at + size] + data[at:],
            data[at:] + data[:at],
            data[:edge] + bytes([data[edge] ^ 255]) + data[edge:][1:],
            data + other,
        ][int(random.integers(9))]
        if changed != data:
            count -= 1
            yield changed
"""

ARTIFACTS = (
    DAMAGE
    + """
import hashlib
import veery_runtime as runtime
path = Path(sys.argv[1])
data = path.read_bytes()
x = np.ones(8, np.float32)
expected = runtime.load(data)(x).tolist()

def refused(contents, error):
    for source in (contents, path):
        path.write_bytes(contents)
        try:
            runtime.load(source)(x)
        except error:
            continue
        raise AssertionError("a damaged file was loaded")

total = 0
for total, contents in enumerate(damaged(data, 249), 1):
    refused(contents, runtime.CorruptArtifactError)
sealed = lambda body: body + hashlib.sha256(body).digest()
other = (runtime.IncompatibleArtifactError, runtime.DeviceUnavailableError)
body = data[:-32]
version = runtime.iree.VERSION.encode()
refused(sealed(body.replace(b'"' + version + b'"', b'"' + b"9" * len(version) + b'"')), other)
path.write_bytes(data)
assert runtime.load(path)(x).tolist() == expected
print(total)
"""
)

ENTRIES = (
    DAMAGE
    + """
from veery_lowering.store.cache import CacheWarning, DiskCache
cache = DiskCache(Path(sys.argv[2]))
entry = Path(sys.argv[1]).read_bytes(), {"iree": "3", "target": "cpu"}
keys = "ab" * 32, "ac" * 32
for key in keys:
    cache.put(key, entry if key == keys[0] else (entry[0][::-1], {}))
    cache.put_link(key, {"key": key})
total = 0
for kind, get in ("veery", cache.get), ("link", cache.get_link):
    path, another = (cache._path(key, kind) for key in keys)
    data = path.read_bytes()
    for contents in (*damaged(data, 124), another.read_bytes()):
        path.write_bytes(contents)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert get(keys[0]) is None, "a damaged entry was taken"
        assert [w.category for w in caught] == [CacheWarning] and not path.exists()
        total += 1
    path.write_bytes(data)
assert cache.get(keys[0]) == entry and cache.get_link(keys[0]) == {"key": keys[0]}
print(total)
"""
)


def test_damaged_artifacts_and_entries(run_python, tmp_path):
    path = tmp_path / "add.vmfb"
    constants = (np.arange(8, dtype=np.float32),)
    leaf = {"tuple": [{"tuple": [0]}, {"dict": []}]}
    path.write_bytes(
        artifact.to_bytes([artifact.Entry("add", (programs.add_arrays(),), leaf, 0, ("x",), ("x",), constants)])
    )
    entries = run_python(ENTRIES, str(path), str(tmp_path / "cache"), PYTHONPATH=LOWERING)
    artifacts = run_python(ARTIFACTS, str(path))
    assert (artifacts.returncode, artifacts.stdout) == (0, "250\n"), artifacts.stderr[-3000:]
    assert (entries.returncode, entries.stdout) == (0, "252\n"), entries.stderr[-3000:]
