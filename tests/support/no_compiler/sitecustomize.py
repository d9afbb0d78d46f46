"""Without the compiler: what loads it, or starts its process, fails.

tests/conftest.py imports this where VEERY_TEST_NO_COMPILER is set; the processes that tests start, because this folder
is then first in their PYTHONPATH: Python imports a module of this name when it starts.
"""

from __future__ import annotations

import importlib.abc
import os
import subprocess
import sys
from typing import Any


class CompilerNeeded(BaseException):
    """Which no `except Exception` of the code under test takes for an answer."""


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith("iree.compiler"):
            raise CompilerNeeded("this loads the compiler: mark the test with pytest.mark.compiler")


class _Popen(subprocess.Popen):
    def __init__(self, args: Any, *rest: Any, env: Any = None, **options: Any) -> None:
        if "helper.main(" in str(args):  # veery_lowering's, which imports no sitecustomize
            raise CompilerNeeded("this starts the compiler's process: mark the test with pytest.mark.compiler")
        env = dict(os.environ if env is None else env)
        folder = os.path.dirname(__file__)
        paths = env.get("PYTHONPATH", "").split(os.pathsep)
        env["PYTHONPATH"] = os.pathsep.join([folder, *(path for path in paths if path != folder)])
        super().__init__(args, *rest, env=env, **options)


sys.meta_path.insert(0, _Finder())
subprocess.Popen = _Popen  # type: ignore[misc]
