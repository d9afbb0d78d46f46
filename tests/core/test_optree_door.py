"""Trees when the interpreter exits."""

import subprocess
import sys

CODE = """
import atexit
atexit.register(lambda: print(jax.tree.leaves((1, [2, {"a": 3}]))))
import veery as jax
"""


def test_functions_that_were_registered_before_see_trees_at_exit():
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("[1, 2, 3]\n", "")
