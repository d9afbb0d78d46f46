"""A device that its driver gives up, in a process of its own.

IREE never closes such a device: on Mesa's software device each keeps two threads polling, and what the process tests
afterwards takes four times as long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def test_losses(vulkan: Any) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).parent / "losses.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout
