"""veery in JAX's place: what `import jax` gives, in programs, their children, tests and notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from veery import _in_place

PROGRAM = """
    import veery.as_jax
    import importlib, importlib.metadata, pickle, sys
    import jax
    assert sys.modules["jax.tree_util"] is jax.tree_util and sys.modules["jax.lax.linalg"] is jax.lax.linalg
    assert not [name for name in sys.modules if name.startswith("jax._")]
    import jax.numpy as jnp, veery
    from jax.tree_util import tree_map
    from jax import lax, random
    import jax.lax.linalg, jax._core.avals

    assert jax is veery and jnp is veery.numpy and tree_map is veery.tree_util.tree_map
    assert sys.modules["jax.numpy"] is sys.modules["veery.numpy"] is jnp
    assert jax.lax.linalg is veery.lax.linalg is importlib.import_module("jax.lax.linalg")
    assert jax._core.avals is veery._core.avals and jnp.__spec__.name == "veery.numpy"
    assert jax.__version__ == jax.version.__version__ == importlib.metadata.version("jax") == "0.10.2"
    assert jax.__version_info__ == (0, 10, 2)
    assert "jax" in {found.name for found in importlib.metadata.distributions()}
    assert "jax" not in {found.name for found in importlib.metadata.distributions(path=[])}
    assert importlib.metadata.version("veery") == veery.version.VEERY_VERSION
    assert pickle.loads(pickle.dumps(jax.numpy.sum)) is veery.numpy.sum
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
    for module in (jax.experimental.pallas, splash_attention_kernel, splash_attention_mask):
        try:
            module.pallas_call
        except AttributeError as error:
            assert "IREE compiles no kernels" in str(error)
        else:
            raise AssertionError(module)
    import jaxlib
    from jaxlib import _jax, xla_client
    assert jaxlib.__version__ == "0.10.2" and jaxlib is veery._jaxlib
    assert type(jax.jit(len)) is _jax.PjitFunction and xla_client.Device is jax.Device
    for name, words in {
        "jaxlib.mlir": "without jaxlib",
        "jaxlib.xla_extension": "without jaxlib",
        "jax.experimental.mosaic": "IREE compiles no kernels",
        "jax.experimental.pallas.triton": "IREE compiles no kernels",
        "jax.nonsense": "has no jax.nonsense",
    }.items():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert words in str(error) and name.startswith(error.name), error
        else:
            raise AssertionError(name)
"""

ENVIRONMENT = dict(os.environ)  # before any test in this process imports veery.as_jax, which changes it


def run(*args: str, cwd: Path | None = None, **variables: str) -> str:
    """What Python prints."""
    done = subprocess.run([sys.executable, *args], env=ENVIRONMENT | variables, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def written(path: Path, text: str) -> Path:
    """A program in a file."""
    lines = text.splitlines()
    path.write_text("\n".join(line.removeprefix("    ") for line in lines) + "\n")
    return path


def test_modules_of_jax_are_those_of_veery(tmp_path):
    run(str(written(tmp_path / "program.py", PROGRAM)))


def test_jax_that_is_imported_already_is_not_replaced(tmp_path):
    (tmp_path / "jax.py").write_text("")
    program = """
    import jax, os
    try:
        import veery.as_jax
    except ImportError as error:
        assert "jax is imported already" in str(error) and jax.__file__ in str(error)
    else:
        raise AssertionError
    assert os.environ.get("PYTHONPATH", "") == paths
    """.replace("paths", repr(ENVIRONMENT.get("PYTHONPATH", "")))
    run(str(written(tmp_path / "program.py", program)))


def test_without_it_jax_is_not_touched():
    run("-c", "import veery, sys, os; assert 'jax' not in sys.modules and '_startup' not in str(os.environ)")
    run("-c", "import veery; assert veery.__version__ == veery.version.VEERY_VERSION")


CHILDREN = """
    import concurrent.futures, multiprocessing, os, subprocess, sys
    import jax
    import jax.numpy as jnp

    def square(x):
        return jnp.square(x), jax.__name__

    if __name__ == "__main__":
        assert sys.argv[1:] == ["--verbose", "-h", "a b"], sys.argv
        assert sys.path[0] == os.path.dirname(os.path.abspath(__file__))
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            value, name = pool.submit(square, jnp.arange(3)).result()
        assert value.tolist() == [0, 1, 4] and name == "veery"
        code = "import sys; assert 'veery' not in sys.modules; import jax; print(jax.__name__, jax.__version__)"
        print(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        sys.exit(7)
"""


def test_children_have_it_too(tmp_path):
    script = written(tmp_path / "program.py", CHILDREN)
    command = [sys.executable, "-m", "veery", "as-jax", str(script), "--verbose", "-h", "a b"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert done.stdout.split() == ["veery", "0.10.2"]


TESTS = """
    import jax

    def test_jax():
        assert jax.__name__ == "veery"
"""


@pytest.mark.parametrize("command", ["-m veery as-jax -m pytest", "-m pytest -p veery.as_jax"])
def test_pytest(tmp_path, command):
    written(tmp_path / "test_it.py", TESTS)
    assert "1 passed" in run(*command.split(), "-q", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)


def test_notebooks():
    run("-c", "import veery; veery.load_ipython_extension(None); import jax.numpy; assert jax is veery")


def test_the_startup_of_others_runs_too(tmp_path):
    """Of several modules sitecustomize Python runs one."""
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    paths = os.pathsep.join([_in_place.environment()["PYTHONPATH"], str(tmp_path)])
    assert run("-c", "import jax; print(jax.__name__)", PYTHONPATH=paths).split() == ["theirs", "veery"]


def test_interpreters_without_veery_are_left_alone():
    startup = Path(_in_place.__file__).parent / "_startup/sitecustomize.py"
    code = (
        f"import runpy, sys; old = list(sys.meta_path); runpy.run_path({str(startup)!r}); assert sys.meta_path == old"
    )
    run("-I", "-S", "-c", code)
