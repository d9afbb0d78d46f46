"""The passes are tested as they are for large arrays: small ones would become kernels, of which IREE sees nothing."""

from __future__ import annotations

from typing import Any

import pytest
from support.passes import leave_out

from veery import _dispatch
from veery_lowering import kernels
from veery_lowering.compiler import compile

# Those that are about products as IREE makes them.
OF_PRODUCTS = ("test_products", "test_tiles", "test_tiling", "test_translating")
OF_PIECES = (
    "test_pieces",
    "test_chains",
    "test_updates_of_joins",
    "test_passes",
    "test_device_functions",
    "test_schedule",
)


@pytest.fixture(autouse=True)
def without_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.stem not in OF_PIECES:
        leave_out(monkeypatch, "fuse_pieces")
    if request.path.stem in OF_PRODUCTS:
        leave_out(monkeypatch, "fuse_products")


@pytest.fixture
def as_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose kernels could not be written or compiled fail, where else others are made instead.

    None is found on disk, where those of other registers and thresholds, which tests set, have the same key.
    """

    def log(program: Any) -> None:
        assert "fallback" not in program.metadata, program.metadata["fallback"]

    def warning(message: str, *args: Any, **how: Any) -> None:
        raise AssertionError(message % args)

    monkeypatch.setattr(compile, "disk_cache", lambda: None)
    monkeypatch.setattr(_dispatch, "log_fallback", log)
    for module in (kernels, compile):
        monkeypatch.setattr(module._logger, "warning", warning)
