"""What libraries take of `jax._src`, and of the modules for those that extend JAX."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing
from collections import OrderedDict, defaultdict

import numpy as np
import pytest

import veery
import veery._jaxlib
import veery._src
import veery.numpy as jnp
from veery import api_util, core
from veery._core import source
from veery._src import public_test_util, sharding_impls, traceback_util, tree_util
from veery.extend import core as extend_core, linear_util as lu, source_info_util
from veery.extend.core.primitives import call_p, closed_call_p
from veery.interpreters import batching, mlir, partial_eval as pe, xla


@pytest.mark.parametrize("package", [veery._src, veery._jaxlib], ids=lambda package: package.__name__)
def test_private_names_are_those_of_the_table(package):
    """None is missing, and none is there for nobody."""
    found = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        names = vars(importlib.import_module(module.name)).items()
        short = module.name.removeprefix(f"{package.__name__}.")
        found.update(f"{short}.{n}" for n, value in names if not (n.startswith("__") or inspect.ismodule(value)))
    others = {name for name in found - package.USED.keys() if name.split(".")[-1] not in ("Any", "Callable", "TypeVar")}
    assert others - {"xla_bridge._found"} == set()
    for name in package.USED:
        module, _, attribute = f"{package.__name__}.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_nodes_are_taken_apart_and_made_by_their_types():
    """jaxlie does so."""
    nodes = [(1, 2), [1, 2], {"b": 1, "a": 2}, OrderedDict(b=1, a=2), defaultdict(int, b=1, a=2), None]
    for node in nodes:
        kind = tree_util._registry[type(node)]
        children, aux = kind.to_iter(node)
        made = kind.from_iter(aux, [x * 10 for x in children])
        assert made == veery.tree.map(lambda x: x * 10, node) and type(made) is type(node)
    kind = tree_util._registry[veery.tree_util.Partial]
    children, aux = kind.to_iter(veery.tree_util.Partial(max, 1))
    assert kind.from_iter(aux, children)(0) == 1
    with pytest.raises(KeyError):
        tree_util._registry[int]


def test_values_are_compared_by_the_less_precise_dtype():
    close = public_test_util.check_close
    close({"a": np.float32(1.0)}, {"a": np.float64(1 + 5e-7)})
    close(np.float32([1, 2]), np.float32([1, 2.1]), rtol=0.1)
    close(np.int32(1), np.int32(2), atol=1)
    for x, y in [(np.float64(1), np.float64(1 + 5e-7)), (np.int32(1), np.int32(2)), (np.float32(1), np.float32(1.1))]:
        with pytest.raises(AssertionError, match="the first"):
            close(x, y, err_msg="the first")


def test_shardings_by_the_mesh_of_the_context():
    canonical = sharding_impls.canonicalize_sharding
    mesh = veery.make_mesh((1,), ("x",))
    with pytest.raises(ValueError, match="lax.map: .*not under a mesh"):
        canonical(veery.P("x"), "lax.map")
    with veery.set_mesh(mesh):
        assert canonical(veery.P("x"), "lax.map") == veery.NamedSharding(mesh.abstract_mesh, veery.P("x"))
    assert canonical(None, "") is None
    assert canonical(veery.NamedSharding(mesh, veery.P()), "").mesh is mesh


def test_flat_functions():
    leaves, structure = veery.tree.flatten(((1, [2, 3]), {"c": 4}))
    fun = lambda a, b, c: {"s": a + b[0] + c, "t": (b[1],)}
    flat, out_tree = api_util.flatten_fun(lu.wrap_init(fun), structure)
    assert flat.call_wrapped(*leaves) == [7, 3]
    assert out_tree() == veery.tree.structure({"s": 0, "t": (0,)})
    flat, out_tree = api_util.flatten_fun_nokwargs(lu.wrap_init(lambda a: a[::-1]), veery.tree.structure(([1, 2],)))
    assert flat.call_wrapped(1, 2) == [2, 1] and out_tree() == veery.tree.structure([1, 2])


def test_arguments_by_number():
    f, left = api_util.argnums_partial(lu.wrap_init(lambda a, b, c: (a, b, c)), (0, -1), (1, "two", 3))
    assert left == (1, 3) and f.call_wrapped(10, 30) == (10, "two", 30)
    again, _ = api_util.argnums_partial(lu.wrap_init(f.f), (0, 2), (5, "two", 6))
    assert f == again and hash(f) == hash(again)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        api_util.argnums_partial(lu.wrap_init(max), 0, (1, [2]))
    structure = veery.tree.structure(((1, (2, 3)), {"b": 4, "a": 5}))
    assert api_util.donation_vector((1,), ("a",), structure) == (False, True, True, True, False)
    assert api_util.donation_vector((0,), (), veery.tree.structure(((1, 2), 3)), kws=False) == (True, True, False)
    assert api_util.rebase_donate_argnums((3, 4), (0, 1)) == (1, 2)
    with pytest.raises(ValueError, match="static and donated"):
        api_util.rebase_donate_argnums((1,), (1,))
    assert api_util.flatten_axes("axes", veery.tree.structure(((1, 2), 3)), (0, None)) == [0, 0, None]
    assert api_util.safe_map(max, [1, 5], [3, 2]) == [3, 5]
    with pytest.raises(ValueError):
        api_util.safe_map(max, [1], [2, 3])
    assert api_util.shaped_abstractify(np.ones(3, "float32")).str_short() == "f32[3]"


def aval(*shape):
    return core.ShapedArray(shape, np.dtype("float32"))


@pytest.mark.compiler
def test_partial_evaluation():
    """What depends on known values alone is computed, within compiled functions and under vmap too."""
    seen = []

    def fun(x, y):
        seen.append(type(y).__name__)
        both = veery.jit(lambda a, b: (a * b, jnp.sin(b)))(x, y)
        mapped = veery.vmap(lambda b: b + 1)(y)
        return [*both, mapped, veery.vmap(lambda a, b: a + b)(x, y), x * 2]

    y = np.arange(3, dtype="float32")
    pvals = [pe.PartialVal.unknown(aval(3)), pe.PartialVal.known(y)]
    jaxpr, out, consts = pe.trace_to_jaxpr_nounits(lu.wrap_init(fun), pvals)
    assert [p.is_known() for p in out] == [False, True, True, False, False]
    np.testing.assert_allclose(out[1].get_known(), np.sin(y), rtol=1e-6)
    np.testing.assert_array_equal(out[2].get_known(), y + 1)
    assert out[0].get_aval() == aval(3) and out[0].get_known() is None
    got = core.eval_jaxpr(jaxpr, [], *consts, np.float32([4, 5, 6]))
    for value, expected in zip(got, ([0, 5, 12], [4, 6, 8], [8, 10, 12]), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.compiler
def test_partial_evaluation_within_a_trace():
    """Known values may be tracers of the function around; what rules know is kept."""

    def outer(y):
        pvals = [pe.PartialVal.unknown(aval()), pe.PartialVal.known(y)]
        fun = lu.wrap_init(lambda x, y: [x + y, veery.nn.relu(y) * y, veery.nn.relu(x)])
        _, out, _ = pe.trace_to_jaxpr_nounits(fun, pvals)
        assert [p.is_known() for p in out] == [False, True, False]
        return out[1].get_known()

    assert float(veery.grad(outer)(3.0)) == 6.0
    assert float(veery.jit(outer)(3.0)) == 9.0
    _, out, _ = pe.trace_to_jaxpr_nounits(lu.wrap_init(lambda x: [x]), [pe.PartialVal.known(1.0)], instantiate=True)
    assert not out[0].is_known()


def test_traces_of_others():
    with extend_core.take_current_trace() as trace:
        assert trace is extend_core.find_top_trace(())

    def f(x):
        with extend_core.take_current_trace() as inside:
            assert inside is x._trace is x._trace.main
            assert not isinstance(jnp.ones(2) + 1, core.Tracer)
        return x * 2

    assert float(veery.jvp(f, (1.0,), (1.0,))[1]) == 2.0
    assert extend_core.TraceTag() == extend_core.TraceTag()
    assert extend_core.concrete_or_error(int, 2.5) == 2
    with pytest.raises(veery.errors.ConcretizationTypeError, match="the size"):
        veery.make_jaxpr(lambda n: extend_core.concrete_or_error(int, n, "the size of it"))(1)


def test_calls_leave_no_equation():
    closed = veery.make_jaxpr(lambda x, y: x * y + 1)(2.0, 3.0)
    assert closed_call_p.bind(2.0, 3.0, call_jaxpr=closed)[0] == 7.0
    jaxpr = veery.make_jaxpr(lambda x: call_p.bind(x, x, call_jaxpr=closed.jaxpr))(2.0).jaxpr
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["mul", "add"]


def test_frames_of_libraries_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_passed_over", [])
    library, user = tmp_path / "library.py", tmp_path / "user.py"
    library.write_text("def apply(f, x):\n    return f(x) + 1\n")
    user.write_text("from library import apply\n\ndef model(x):\n    return apply(lambda y: y @ y, x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("user").model
    files = lambda n: {eqn.source_info.file for eqn in veery.make_jaxpr(model)(jnp.ones((n, n))).jaxpr.eqns}
    assert str(library) in files(2)
    source_info_util.register_exclusion(str(library))
    source._files_passed_over.clear()
    assert files(3) == {str(user)}
    source._files_passed_over.clear()

    def shown():
        with pytest.raises(TypeError) as error:
            veery.jit(model)(jnp.ones((2, 3)))
        return [entry.path.name for entry in error.traceback]

    assert "library.py" in shown()
    traceback_util.register_exclusion(str(library))
    try:
        assert "library.py" not in shown() and "user.py" in shown()
    finally:
        traceback_util._exclude_paths.remove(str(library))


def test_backends_are_in_use_when_devices_are():
    program = (
        "import os, veery, veery._src.xla_bridge as bridge; assert bridge._backends == {};"
        "os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=3 --xla_other=1';"
        "assert veery.device_count() == 3 and bridge._backends['cpu'].device_count() == 3"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.compiler
def test_compilations_pass_through_what_a_library_puts_there(monkeypatch):
    from veery._src import compiler

    def refuse(backend, *args):
        raise RuntimeError(f"not for {backend.platform}")

    monkeypatch.setattr(compiler, "backend_compile_and_load", refuse)
    with pytest.raises(RuntimeError, match="not for cpu"):
        veery.jit(lambda x: x * 3.25 + 17)(1.0)


@pytest.mark.compiler
def test_lowering_rules_call_python():
    """As equinox's do: results are checked, and what is kept alive is the program's own matter."""
    double_p = extend_core.Primitive("test_double_by_python")
    double_p.multiple_results = True
    double_p.def_abstract_eval(lambda x: [x])

    def rule(ctx, x):
        call = lambda value: (value * 2,)
        results, token, kept = mlir.emit_python_callback(
            ctx, call, "token", [x], ctx.avals_in, ctx.avals_out, has_side_effect=False, sharding=None
        )
        ctx.module_context.add_keepalive(kept)
        assert token == "token"
        return results

    mlir.register_lowering(double_p, rule)
    assert veery.jit(lambda x: double_p.bind(x)[0] + 1)(np.float32([1, 2])).tolist() == [3.0, 5.0]


def test_batching_rules_get_tuples():
    """Since they make specifications of axes of them, which are compared with trees of arguments."""
    seen = []
    twice_p = extend_core.Primitive("test_twice")
    twice_p.def_impl(lambda x, y: x + y)

    def batch(size, name, kind, args, dims):
        seen.append((type(args), type(dims), size, name))
        return args[0] + args[1], 0

    batching.axis_primitive_batchers[twice_p] = batch
    assert veery.vmap(twice_p.bind, axis_name="i")(jnp.arange(2), jnp.arange(2)).tolist() == [0, 2]
    assert seen == [(tuple, tuple, 2, "i")]


def test_functions_of_functions_look_like_them():
    class Model:
        def __init__(self):
            self.rate = 3
            self.__name__ = 7  # no name

        def __call__(self, x):
            return x * self.rate

    mapped = veery.vmap(veery.vmap(Model()))
    assert mapped.rate == 3 and mapped.__name__ == "vmap_fun"
    assert mapped(jnp.ones((2, 2))).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert veery.grad(veery.jit(lambda x: x)).__name__ == "<lambda>"
    jitted = veery.jit(lambda x, y=2: x)
    assert type(jitted).__name__ == "PjitFunction"
    assert str(inspect.signature(jitted, follow_wrapped=False)) == "(x, y=2)"


@pytest.mark.compiler
def test_equations_are_applied_by_their_parameters():
    eqn = veery.make_jaxpr(lambda x: jnp.sum(x))(jnp.ones(3)).jaxpr.eqns[0]
    parameters = eqn.primitive.get_bind_params(eqn.params)
    assert parameters == eqn.params and parameters is not eqn.params
    assert eqn.primitive.bind(jnp.ones(3), **parameters) == 3.0


@pytest.mark.compiler
@pytest.mark.parametrize("rule", ["jvp", "fwd"])
def test_equations_tell_the_functions_of_their_calls(rule):
    """Which interpreters apply, or pass on."""
    if rule == "jvp":
        f = veery.custom_jvp(lambda x: jnp.sin(x))
        f.defjvp(lambda x, t: (f(*x), 7 * t[0]))
    else:
        f = veery.custom_vjp(lambda x: jnp.sin(x))
        f.defvjp(lambda x: (f(x), ()), lambda _, g: (7 * g,))
    (eqn,) = veery.make_jaxpr(f)(1.0).jaxpr.eqns
    parameters = eqn.primitive.get_bind_params(eqn.params)
    assert [fun.__name__ for fun in parameters["subfuns"]][1:] == [rule]
    np.testing.assert_allclose(parameters["subfuns"][0].call_wrapped(2.0), [np.sin(2)], 1e-6)
    np.testing.assert_allclose(eqn.primitive.bind(2.0, **parameters), [np.sin(2)], 1e-6)
    assert veery.grad(lambda x: eqn.primitive.bind(x, **parameters)[0])(2.0) == 7


def test_frames_that_are_shown():
    frame = inspect.currentframe()
    assert traceback_util.include_frame(frame)
    traceback_util.register_exclusion(__file__)
    try:
        assert not traceback_util.include_frame(frame)
    finally:
        traceback_util._exclude_paths.remove(__file__)


@pytest.mark.compiler
def test_types_of_libraries_are_arrays():
    """As TensorFlow Probability registers its variables."""

    class Variable(np.ndarray):
        pass

    for table in (core.pytype_aval_mappings, xla.canonicalize_dtype_handlers):
        table[Variable] = table[np.ndarray]
    variable = np.arange(3.0).view(Variable)
    assert veery.typeof(variable).str_short() == "f32[3]"
    assert veery.jit(lambda x: x + 1)(variable).tolist() == [1.0, 2.0, 3.0]
    assert xla.canonicalize_dtype_handlers[Variable](variable).dtype == np.float32


def test_names_for_annotations():
    assert core.Effects == extend_core.Effects and isinstance(core.no_effects, typing.get_origin(core.Effects))
    seen = []
    off_p = core.Primitive("looks at its context")
    off_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(off_p, lambda ctx, x: seen.append(type(ctx)) or [x])
    veery.jit(off_p.bind).lower(np.float32(1))
    assert seen == [mlir.LoweringRuleContext]
