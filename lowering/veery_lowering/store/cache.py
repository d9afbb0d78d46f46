"""Compiled programs on disk: on by default, shared by processes, bounded, safe against damage.

An entry is a file named by the hash of what it was made from, a StableHLO module, and its format: a magic word, the
SHA-256 of its name and the rest, metadata, code. A link, a file of the same form without code, leads there from the
hash of a jaxpr. A part, of the same form too, is one dispatch of programs (compiler/parts.py).
Writers write a file of their own and rename it; readers check the hash, so that a damaged entry is compiled anew.
Nothing is locked, therefore: processes that die leave no lock behind, and folders without locks, of networks, will do.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from veery_lowering.errors import CacheError, CacheWarning

_FORMAT = 3  # in the names too: entries of other formats are not found, which is no damage, and go with time
_MAGIC = f"veery-{_FORMAT}\n".encode()
_DIGEST_SIZE = 32
_DEFAULT_LIMIT = 1 << 30
_WRITES_PER_SWEEP = 32

Entry = tuple[bytes, dict[str, str]]  # program, metadata


@dataclass(frozen=True)
class CacheInfo:
    """The state of the folder, and what this process found in it."""

    directory: str
    entries: int
    nbytes: int
    limit: int
    hits: int
    misses: int


@dataclass(frozen=True)
class CacheSettings:
    """What a program asks of the cache.

    directory: the folder; None for VEERY_CACHE_DIR or the user's cache folder.
    limit: how many bytes are kept; None for VEERY_CACHE_MAX_BYTES or 1 GiB.
    min_seconds, min_nbytes: programs that took less time to compile, or are smaller, are not kept.
    strict: faults of the cache raise CacheError; otherwise they are warned of.
    """

    directory: str | None = None
    limit: int | None = None
    min_seconds: float = 0
    min_nbytes: int = 0
    strict: bool = False


class DiskCache:
    """A folder of compiled programs, at most `limit` bytes; the least recently used ones go first."""

    def __init__(
        self, directory: Path, limit: int = _DEFAULT_LIMIT, settings: CacheSettings | None = None, sweeps: bool = True
    ):
        self.directory = directory
        self._sweeps = sweeps  # whether writes remove what is too much
        self.limit = limit
        self.settings = settings or CacheSettings()
        self.hits = 0
        self.misses = 0
        self._writes = 0
        self._usable = True
        self._lock = threading.Lock()

    def get(self, key: str) -> Entry | None:
        """The entry of a key, or None. A damaged one is removed, with a warning."""
        entry = self._read(self._path(key))
        with self._lock:
            self.hits += entry is not None
            self.misses += entry is None
        return entry

    def get_link(self, key: str) -> dict[str, str] | None:
        """The metadata that were put under a key as a link, or None."""
        entry = self._read(self._path(key, "link"))
        return None if entry is None else entry[1]

    def _read(self, path: Path) -> Entry | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up("read", error)
            return None
        entry = _decode(path.name, data)
        if entry is None:
            _remove(path)
            self._report(f"veery: the cached program {path} is damaged; it is compiled again")
        else:
            _touch(path)
        return entry

    def put(self, key: str, entry: Entry, seconds: float = math.inf) -> None:
        """Keep an entry that took so long to compile. A folder that refuses it is given up with one warning."""
        if seconds >= self.settings.min_seconds and len(entry[0]) >= self.settings.min_nbytes:
            self._write(self._path(key), entry)

    def get_part(self, key: str) -> Entry | None:
        """The part of a key, or None."""
        return self._read(self._path(key, "part"))

    def put_part(self, key: str, entry: Entry) -> None:
        """Keep a part of programs."""
        self._write(self._path(key, "part"), entry)

    def put_link(self, key: str, metadata: dict[str, str]) -> None:
        """Keep metadata that lead to an entry."""
        self._write(self._path(key, "link"), (b"", metadata))

    def _write(self, path: Path, entry: Entry) -> None:
        if not (self._usable and self.limit):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_encode(path.name, entry))
                os.replace(temporary, path)
            except BaseException:
                _remove(Path(temporary))
                raise
        except OSError as error:
            self._give_up("write to", error)
            return
        with self._lock:
            sweep = self._sweeps and self._writes % _WRITES_PER_SWEEP == 0
            self._writes += 1
        if sweep:
            self._evict()

    def keeps_parts(self) -> bool:
        """Whether parts of programs may be kept: there is a folder, and it takes what compiles quickly."""
        return self._usable and self.limit > 0 and not (self.settings.min_seconds or self.settings.min_nbytes)

    def clear(self) -> None:
        """Remove all entries."""
        for path, _, _ in self._entries():
            _remove(path)

    def info(self) -> CacheInfo:
        """Number and size of the entries, hits and misses of this process."""
        sizes = [(path.suffix == ".veery", size) for path, size, _ in self._entries()]
        entries, nbytes = sum(is_program for is_program, _ in sizes), sum(size for _, size in sizes)
        return CacheInfo(str(self.directory), entries, nbytes, self.limit, self.hits, self.misses)

    def _path(self, key: str, kind: str = "veery") -> Path:
        return self.directory / key[:2] / f"{key}-{_FORMAT}.{kind}"

    def _entries(self) -> Iterator[tuple[Path, int, float]]:
        """(path, size, time of last use) of every file, unfinished ones too; files may vanish meanwhile."""
        for pattern in ("??/*.veery", "??/*.link", "??/*.part", "??/.writing-*"):
            for path in self.directory.glob(pattern):
                try:
                    status = path.stat()
                except OSError:
                    continue
                yield path, status.st_size, status.st_mtime

    def _evict(self) -> None:
        entries = sorted(self._entries(), key=lambda entry: entry[2])
        total = sum(size for _, size, _ in entries)
        for path, size, _ in entries:
            if total <= self.limit:
                break
            _remove(path)
            total -= size

    def _give_up(self, action: str, error: OSError) -> None:
        with self._lock:
            first, self._usable = self._usable, False
        if first or self.settings.strict:
            self._report(
                f"veery: cannot {action} the folder of compiled programs {self.directory} ({error.strerror or error});"
                " programs are compiled anew in each process. Set VEERY_CACHE_DIR to a writable folder"
            )

    def _report(self, fault: str) -> None:
        if self.settings.strict:
            raise CacheError(fault)
        warnings.warn(fault, CacheWarning, stacklevel=3)


def _encode(name: str, entry: Entry) -> bytes:
    program, metadata = entry
    text = json.dumps(metadata, sort_keys=True).encode()
    body = len(text).to_bytes(8, "little") + text + program
    return _MAGIC + _digest(name, body) + body


def _decode(name: str, data: bytes) -> Entry | None:
    start = len(_MAGIC) + _DIGEST_SIZE
    digest, body = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or len(body) < 8 or _digest(name, body) != digest:
        return None
    size = int.from_bytes(body[:8], "little")
    return body[8 + size :], json.loads(body[8 : 8 + size])


def _digest(name: str, body: bytes) -> bytes:
    """The hash of a file's contents and its name: another entry's contents are damage too."""
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass  # another process was faster, or the folder is read-only


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        pass


_caches: dict[tuple[str, int, CacheSettings], DiskCache] = {}
_settings = CacheSettings()


def configure_cache(settings: CacheSettings) -> None:
    """Have `disk_cache` follow these settings."""
    global _settings
    _settings = settings


def disk_cache() -> DiskCache:
    """The cache as it was configured; by default of the folder VEERY_CACHE_DIR, else of the user's cache folder."""
    settings = _settings
    directory = settings.directory or os.environ.get("VEERY_CACHE_DIR") or platformdirs.user_cache_dir("veery")
    limit = settings.limit
    if limit is None:
        limit = int(os.environ.get("VEERY_CACHE_MAX_BYTES") or _DEFAULT_LIMIT)
    return _caches.setdefault((directory, limit, settings), DiskCache(Path(directory), limit, settings))
