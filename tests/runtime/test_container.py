"""The container: every damage is noticed before IREE sees a byte, and what this machine cannot run is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import os

import numpy as np
import programs
import pytest

import veery_runtime as runtime
from veery_runtime import artifact, cpu, iree

LEAF = {"tuple": [{"tuple": [0]}, {"dict": []}]}


def _entry(**changes) -> artifact.Entry:
    program = programs.add_arrays()
    constants = (np.arange(8, dtype=np.float32),)
    return artifact.Entry("add", (program,), LEAF, 0, ("x",), ("x",), constants, **changes)


@pytest.fixture(scope="module")
def data() -> bytes:
    return artifact.to_bytes([_entry()])


def _sealed(data: bytes, at: int, value: bytes) -> bytes:
    """The file with other contents at `at` and a checksum that fits them."""
    body = bytearray(data[:-32])
    body[at : at + len(value)] = value
    return bytes(body) + hashlib.sha256(body).digest()


def test_an_intact_file_runs_with_its_constants(data):
    assert runtime.load(data)(np.ones(8, np.float32)).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def test_every_flipped_bit_and_every_truncation_is_noticed(data, monkeypatch):
    """IREE's loader crashes on or miscomputes from one damaged program in four, so it must not see any."""
    monkeypatch.setattr(iree.VmModule, "copy_buffer", lambda *_: pytest.fail("damaged bytes reached the loader"))
    random = np.random.default_rng(0)
    positions = {*random.integers(0, len(data), 300).tolist(), *range(len(data) - 96, len(data)), *range(64)}
    for at in positions:
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(random.integers(8))
        with pytest.raises(runtime.CorruptArtifactError):
            runtime.load(bytes(damaged))
    for length in {0, 1, 63, 64, 65, len(data) - 1, *random.integers(0, len(data), 100).tolist()}:
        with pytest.raises(runtime.CorruptArtifactError):
            runtime.load(data[:length])
    with pytest.raises(runtime.CorruptArtifactError):
        runtime.load(data + b"\0")


def test_other_versions_are_refused_by_name(data, monkeypatch):
    tail = len(data) - artifact._TAIL.size
    with pytest.raises(runtime.IncompatibleArtifactError, match="format version 99"):
        runtime.load(_sealed(data, tail + 8, (99).to_bytes(4, "little")))
    monkeypatch.setattr(iree, "VERSION", "9.9.0")
    with pytest.raises(runtime.IncompatibleArtifactError, match="this process runs IREE 9.9.0"):
        runtime.load(data)


def test_a_program_for_another_cpu_is_refused_before_it_is_run(data, monkeypatch):
    """It would load and die of SIGILL."""
    features = cpu.features()
    missing = "avx2" if "avx2" in features else features[0]
    monkeypatch.setattr(cpu, "features", lambda: tuple(f for f in features if f != missing))
    monkeypatch.setattr(iree.VmModule, "copy_buffer", lambda *_: pytest.fail("the program reached the loader"))
    with pytest.raises((runtime.IncompatibleArtifactError, runtime.DeviceUnavailableError), match=missing):
        runtime.load(data)(np.ones(8, np.float32))
    monkeypatch.setattr(cpu, "architecture", lambda: "s390x")
    with pytest.raises((runtime.IncompatibleArtifactError, runtime.DeviceUnavailableError), match="this CPU is s390x"):
        runtime.load(data)(np.ones(8, np.float32))


def test_programs_with_python_functions_are_not_saved():
    program = programs.host(np.sort)
    with pytest.raises(runtime.ArtifactError, match="calls Python functions"):
        artifact.to_bytes([dataclasses.replace(_entry(), programs=(program,), constants=())])


def test_constants_must_fit():
    for constants in ((np.zeros(7, np.float32),), (np.zeros(8),), (np.zeros(8, np.float32),) * 3):
        with pytest.raises(runtime.ArtifactError, match="constant"):
            artifact.to_bytes([dataclasses.replace(_entry(), constants=constants)])


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "model.vmfb"
    runtime.save_artifact(path, [_entry()])
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        runtime.save_artifact(path, [_entry()], metadata={"more": "text"})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
