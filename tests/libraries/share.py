"""A plugin of pytest for long suites: of the tests that are collected, every n-th is run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--last-failed", False):  # which were a share already
        items[:] = items[:: config.getoption("--every")]
