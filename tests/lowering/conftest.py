"""The passes are tested as they are for large arrays: small ones would become kernels, of which IREE sees nothing."""

from __future__ import annotations

import pytest
from support.passes import leave_out

# Those that are about products as IREE makes them.
OF_PRODUCTS = ("test_products", "test_tiles", "test_tiling", "test_translating")
OF_PIECES = ("test_pieces", "test_updates_of_joins", "test_passes", "test_device_functions")


@pytest.fixture(autouse=True)
def without_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.stem not in OF_PIECES:
        leave_out(monkeypatch, "fuse_pieces")
    if request.path.stem in OF_PRODUCTS:
        leave_out(monkeypatch, "fuse_products")
