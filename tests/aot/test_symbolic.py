"""Symbolic shapes: one program for many batch sizes, by jit, by export and in artifacts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp
import veery_runtime
from veery import export, lax, nn, random

spec = veery.ShapeDtypeStruct
rng = np.random.default_rng(0)
W1, W2, KERNEL = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 8), (8, 10), (3, 3, 2, 4)))
BATCHES = (1, 2, 7, 64)


def batch(b: int, *rest: int) -> np.ndarray:
    return rng.standard_normal((b, *(rest or (5,)))).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mlp(x):
    """An MLP with a layer norm and a softmax; with NumPy's arrays by NumPy."""
    np_ = np if isinstance(x, np.ndarray) else jnp
    h = np_.tanh(x @ W1)
    h = (h - h.mean(-1, keepdims=True)) / np_.sqrt(h.var(-1, keepdims=True) + 1e-5)
    return (softmax if np_ is np else nn.softmax)(h @ W2)


def loss(x):
    return (mlp(x) ** 2).mean()


def gradient(x, step=1e-3):
    """Of loss, by central differences in double precision."""
    x = x.astype(np.float64)
    result = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = step
        result[i] = (loss(x + e) - loss(x - e)) / (2 * step)
    return result


def convolve(x):
    out = lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return nn.relu(out).reshape(x.shape[0], -1).sum(-1)


def convolve_reference(x):
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    n, h, w, _ = x.shape
    out = sum(wide[:, i : i + h, j : j + w] @ KERNEL[i, j] for i in range(3) for j in range(3))
    return np.maximum(out, 0).reshape(n, -1).sum(-1)


def drawn(shape):
    chosen = random.choice(random.key(3), jnp.arange(5), (5,))
    rows = veery.vmap(random.uniform)(random.split(random.key(4), shape[0]))[:, None]
    return random.uniform(random.key(1), shape) + random.bernoulli(random.key(2), 0.3, shape) + chosen + rows


def special_functions(x):
    a, b = jnp.abs(x) + 0.5, jnp.abs(x[:, ::-1]) + 0.5
    found = [lax.digamma(a), lax.bessel_i0e(a), lax.bessel_i1e(a), lax.zeta(a + 1, b), lax.polygamma(1 + 0 * a, b)]
    return jnp.stack([*found, lax.igamma(a, b), lax.igammac(a, b), lax.betainc(a, b, a / (a + b))])


def special_reference(x):
    a, b = np.abs(x) + 0.5, np.abs(x[:, ::-1]) + 0.5
    found = [special.digamma(a), special.i0e(a), special.i1e(a), special.zeta(a + 1, b), special.polygamma(1, b)]
    return np.stack([*found, special.gammainc(a, b), special.gammaincc(a, b), special.betainc(a, b, a / (a + b))])


def bits(x):
    n = (jnp.abs(x) * 1000).astype(int)
    return lax.clz(n) + lax.population_count(n) + lax.mulhi(n * 4096, n * 65536)


def bits_reference(x):
    n = (np.abs(x) * 1000).astype(np.int32)
    high = (n.astype(np.int64) * 4096).astype(np.int32).astype(np.int64) * (n * np.int32(65536)) >> 32
    return 32 - np.vectorize(int.bit_length, otypes=[int])(n) + np.bitwise_count(n) + high


# name: function, its reference in NumPy, the shape of an element
FUNCTIONS = {
    "mlp": (mlp, mlp, (5,)),
    "predict": (lambda x: jnp.argmax(mlp(x), -1), lambda x: np.argmax(mlp(x), -1), (5,)),
    "gradient": (veery.grad(loss), gradient, (5,)),
    "convolution": (convolve, convolve_reference, (6, 4, 2)),
    "vmap": (veery.vmap(lambda r: jnp.sin(r) @ W1), lambda x: np.sin(x) @ W1, (5,)),
    "batch norm": (lambda x: (x - x.mean(0)) / (x.std(0) + 1), lambda x: (x - x.mean(0)) / (x.std(0) + 1), (5,)),
    "logsumexp": (lambda x: nn.logsumexp(x, -1), lambda x: np.log(np.exp(x).sum(-1)), (5,)),
    "reshape": (lambda x: x.reshape(-1) * 2, lambda x: x.reshape(-1) * 2, (5,)),
    "reshape apart": (lambda x: x.reshape(-1, 2, 3) + 1, lambda x: x.reshape(-1, 2, 3) + 1, (6,)),
    "regroup": (lambda x: x.reshape(2 * x.shape[0], 3) + 1, lambda x: x.reshape(-1, 3) + 1, (6,)),
    "concatenate": (lambda x: jnp.concatenate([x, x[:, :2]], 1), lambda x: np.concatenate([x, x[:, :2]], 1), (5,)),
    "join batches": (lambda x: jnp.concatenate([x, x + 1]), lambda x: np.concatenate([x, x + 1]), (5,)),
    "products": (lambda x: x @ x.T + (x.T @ x).sum(), lambda x: x @ x.T + (x.T @ x).sum(), (5,)),
    "pairs": (lambda x: jnp.abs(x[:, None] - x[None]).sum(-1), lambda x: np.abs(x[:, None] - x[None]).sum(-1), (5,)),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), lambda x: np.maximum(x, 0), (5,)),
    "rows": (lambda x: x * jnp.arange(x.shape[0])[:, None], lambda x: x * np.arange(len(x))[:, None], (5,)),
    "tail": (lambda x: x[1:], lambda x: x[1:], (5,)),
    "ends": (lambda x: x[0] + x[-1], lambda x: x[0] + x[-1], (5,)),
    "steps": (lambda x: x[::2, ::3] + 1, lambda x: x[::2, ::3] + 1, (5,)),
    "softmax": (lambda x: nn.softmax(x, -1), softmax, (20,)),
    "attention": (lambda x: jnp.einsum("bij,bkj->bik", x, x), lambda x: np.einsum("bij,bkj->bik", x, x), (3, 4)),
    "columns": (lambda x: x @ W1[:, :1] + (x @ W1[:, 1])[:, None], lambda x: x @ (W1[:, :1] + W1[:, 1:2]), (5,)),
    "vectors": (lambda x: jnp.einsum("bij,bj->bi", x, x[:, 0]), lambda x: (x @ x[:, 0, :, None])[..., 0], (3, 4)),
    "layers": (lambda x: x @ W1, lambda x: x @ W1, (3, 5)),
    "backwards": (lambda x: x[::-1], lambda x: x[::-1], (5,)),
    "zeros": (lambda x: jnp.zeros((x.shape[0], 2)) + x[:, :2], lambda x: x[:, :2], (5,)),
    "size as a value": (lambda x: x * x.shape[0] / (x.shape[0] + 1), lambda x: x * len(x) / (len(x) + 1), (5,)),
    "padding": (lambda x: jnp.pad(x, ((1, 0), (0, 2))), lambda x: np.pad(x, ((1, 0), (0, 2))), (5,)),
    "integers": (lambda x: nn.one_hot(jnp.argmin(x, -1), 5), lambda x: np.eye(5)[np.argmin(x, -1)], (5,)),
    "special functions": (special_functions, special_reference, (5,)),
    "bits": (bits, bits_reference, (5,)),
    "random": (lambda x: drawn(x.shape), lambda x: np.asarray(drawn((64, 5)))[: len(x)], (5,)),
    "bools": (lambda x: (x > 0).any(-1) & (x < 3).all(-1), lambda x: (x > 0).any(-1) & (x < 3).all(-1), (5,)),
}  # fmt: skip


TABLE = rng.standard_normal((11, 5)).astype(np.float32)
MIX = rng.standard_normal((5, 5)).astype(np.float32) / 3


def take(x):
    """Rows of a table, columns, one element a row, and slices, at places that are known or computed."""
    which = (jnp.abs(x[:, 0]) * 3).astype(int)
    best = jnp.argmax(x, 1)
    table = jnp.asarray(TABLE)
    return {
        "embedded": table[which],
        "columns": x[:, np.array([3, 0, -1])],
        "best": jnp.take_along_axis(x, best[:, None], 1),
        "by two": x[jnp.arange(x.shape[0]), best],
        "rows": x[jnp.argmax(x, 0)],
        "slice": lax.dynamic_slice_in_dim(x, best[0], 2, 1),
        "last": x[-best[0] // 5],
        "each": veery.vmap(lambda row, i: lax.dynamic_slice(row, (i,), (2,)))(x, best),
        "filled": x.at[which].get(mode="fill", fill_value=7),
        "bytes": (x > 0).astype(np.uint8)[:, 1:][:, np.array([2, 0])],
    }


def put(x):
    which = (jnp.abs(x[:, 0]) * 3).astype(int)
    best = jnp.argmax(x, 1)
    return {
        "column": x.at[:, 1].set(0),
        "row": x.at[-1].add(1),
        "tail": x.at[1:, 2:4].set(3),
        "sum": jnp.asarray(TABLE).at[which].add(x),
        "by two": x.at[jnp.arange(x.shape[0]), best].set(0),
        "dropped": x.at[which].mul(2),
        "rolled": jnp.roll(x, 3, 0),
        "same": x,
    }


def gradients_of_indexing(x):
    which = (jnp.abs(x[:, 0]) * 3).astype(int)
    chosen = lambda x, table: (jnp.take_along_axis(x * table[which], jnp.argmax(x, 1)[:, None], 1) ** 2).sum()
    return veery.grad(chosen, (0, 1))(x, jnp.asarray(TABLE))


def recurrent(x):
    """The last state and all outputs of a recurrent network over (batch, time, features)."""
    step = lambda h, row: ((new := jnp.tanh(row + h @ MIX)), new.sum(-1))
    return lax.scan(step, jnp.zeros((x.shape[0], 5)), jnp.swapaxes(x, 0, 1))


def over_the_batch(x):
    step = lambda total, row: (total + row, total * 2)
    return lax.scan(step, jnp.zeros(5), x), lax.scan(step, jnp.zeros(5), x, reverse=True)


def branches(x):
    grown = lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2 + 1, jnp.abs(x))
    return grown, lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x), lax.fori_loop(0, 3, lambda i, s: s + x, x)


def pool(x):
    most = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return most, lax.reduce_window(x, 0.0, lax.add, (1, 3, 1, 1), (1, 1, 1, 1), "SAME")


def padded(x):
    """Borders of every kind, one of them of no width along an axis."""
    modes = ("edge", "reflect", "symmetric", "wrap", "maximum")
    return {mode: jnp.pad(x, ((2, 1), (0, 0)), mode=mode) for mode in modes}


def sizes(x):
    """A size as a place and as the end of a loop; Jacobians, and what is looked up and found."""
    b = x.shape[0]
    return {
        "last": lax.dynamic_update_slice(x, jnp.zeros((1, 5)), (b - 1, 0)),
        "loop": lax.fori_loop(0, b, lambda i, total: total + x[i], jnp.zeros(5)),
        "jacobian": veery.jacfwd(lambda y: (y**2).sum(0))(x),
        "found": jnp.searchsorted(jnp.arange(b) * 2.0, x[0]),
        "positive": jnp.nonzero(x > 0, size=3),
        "of a table": (jnp.arange(100.0)[:b], jnp.arange(100.0)[b:]),
    }


# name: function, the shape of an element; what is compared with is NumPy's evaluation of the function
EVALUATED = {
    "take": (take, (5,)),
    "put": (put, (5,)),
    "gradients of indexing": (gradients_of_indexing, (5,)),
    "recurrent": (recurrent, (4, 5)),
    "gradient of recurrent": (veery.grad(lambda x: (recurrent(x)[0] ** 2).sum() + recurrent(x)[1].sum()), (4, 5)),
    "over the batch": (over_the_batch, (5,)),
    "branches": (branches, (5,)),
    "padded": (padded, (5,)),
    "sizes": (sizes, (5,)),
    "pool": (pool, (4, 6, 2)),
    "gradient of pool": (veery.grad(lambda x: (pool(x)[0] ** 2).sum() + pool(x)[1].sum()), (4, 6, 2)),
    "running": (lambda x: (jnp.cumsum(x, 1), jnp.cumsum(x, 0), lax.cummax(x, 0, reverse=True)), (5,)),
    "sort": (lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 2), jnp.median(x, 0)), (5,)),
}  # fmt: skip


@pytest.mark.parametrize("name", EVALUATED)
def test_one_program_of_gathers_windows_and_loops(name):
    function, shape = EVALUATED[name]
    compiled = veery.jit(lambda x: function(x), dynamic_shapes={"x": "b, ..."})
    for b in BATCHES:
        x = batch(b, *shape)
        given = jnp.asarray(x)
        got = compiled(given)
        with numpy_evaluation():
            wanted = function(jnp.asarray(x))
        for (path, g), w in zip(veery.tree_util.tree_leaves_with_path(got), veery.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=3e-4, atol=3e-5, err_msg=f"{path}, b = {b}")
        np.testing.assert_array_equal(given, x)  # no program writes into its arguments
    assert compiled._cache_size() == 1


def grouped(most=6):
    """The names of functions of one shape, several for each program: so they compile in a third of the time."""
    by_shape: dict[tuple[int, ...], list[str]] = {}
    for name, (_, _, shape) in FUNCTIONS.items():
        by_shape.setdefault(shape, []).append(name)
    return [names[i : i + most] for names in by_shape.values() for i in range(0, len(names), most)]


@pytest.mark.parametrize("names", grouped(), ids=", ".join)
def test_one_program_for_all_batches(names):
    compiled = veery.jit(lambda x: [FUNCTIONS[name][0](x) for name in names], dynamic_shapes={"x": "b, ..."})
    for b in BATCHES:
        x = batch(b, *FUNCTIONS[names[0]][2])
        for name, out in zip(names, compiled(x), strict=True):
            np.testing.assert_allclose(out, FUNCTIONS[name][1](x), rtol=3e-4, atol=2e-5, err_msg=f"{name}, b = {b}")
    assert compiled._cache_size() == 1


def test_jit_of_several_arguments():
    compiled = veery.jit(
        lambda data, w, *, scale: {"y": data["x"] @ w * scale, "n": data["mask"].sum()},
        dynamic_shapes={"data": "b, ...", "w": export.symbolic_shape("5, 2*k", constraints=["k >= 2"])},
    )
    for b, k in ((1, 2), (3, 4), (3, 2)):
        data = {"x": batch(b), "mask": np.ones(b, np.int32)}
        out = compiled(data, w := batch(5, 2 * k), scale=2.0)
        np.testing.assert_allclose(out["y"], data["x"] @ w * 2, rtol=1e-5)
        assert out["n"] == b
    assert compiled._cache_size() == 1
    ragged = {"x": batch(3), "mask": np.ones(4, np.int32)}
    with pytest.raises(ValueError, match=r"dimension 0 of argument 1 must be 'b' = 4 with b = 4, k = 2, got 3"):
        compiled(ragged, batch(5, 4), scale=2.0)
    with pytest.raises(ValueError, match=r"dimension 1 of argument 2 is 3, which is '2\*k' for no integer k >= 1"):
        compiled(data, batch(5, 3), scale=2.0)
    with pytest.raises(ValueError, match="must fulfil k >= 2, got b = 3, k = 1"):
        compiled(data, batch(5, 2), scale=2.0)
    with pytest.raises(ValueError, match="has the shape .3,., dynamic_shapes says"):
        compiled(data, batch(3, 1)[:, 0], scale=2.0)
    with pytest.raises(ValueError, match="names 'z'; f takes the arguments x"):

        def f(x): ...

        veery.jit(f, dynamic_shapes={"z": "b"})


def test_the_fast_path_serves_every_size():
    compiled = veery.jit(lambda x: x + 1, dynamic_shapes={"x": "n"})
    for _ in range(2):
        for n in (1, 5):
            x = jnp.zeros(n)
            assert compiled(x).shape == (n,)
    assert len({id(entry) for entry in compiled._entries.values()}) == 2 and compiled._cache_size() == 1


@pytest.mark.parametrize(
    "function, error, message",
    [
        (lambda x: jnp.fft.fft(x), "LoweringError", r"fft: no lowering for .* 'b' of"),
        (lambda x: lax.bitcast_convert_type(x, np.uint8), "LoweringError", "bitcast_convert_type: no lowering"),
        (lambda x: random.key_data(random.split(random.key(0), x.shape[0])), "LoweringError", "random_unwrap: no"),
        (lambda x: jnp.pad(x, 1, "reflect", reflect_type="odd"), "NotImplementedError", "needs a known size"),
        (lambda x: jnp.convolve(x[:, 0], jnp.ones(1)), "LoweringError", r"sizes of images and kernels must be known"),
        (lambda x: random.permutation(random.key(0), x[:, 0]), "NotImplementedError", "arrays of non-constant size: b"),
        (lambda x: x if x.shape[0] > 8 else -x, "InconclusiveDimensionOperation", "'b' > '8' is inconclusive"),
        (lambda x: x.reshape(-1, 3), "InconclusiveDimensionOperation", r"the remainder mod\(5\*b, 3\) should be 0"),
        (lambda x: x + jnp.ones((3, 5)), "ValueError|TypeError", "ncompatible shapes"),
        (lambda x: sum(range(x.shape[0])), "TypeError", "cannot be interpreted as an integer"),
    ],
)
def test_what_cannot_be_dynamic(function, error, message):
    with pytest.raises(Exception, match=message) as caught:
        veery.jit(lambda x: function(x), dynamic_shapes={"x": "b, ..."})(batch(4))
    assert caught.type.__name__ in error.split("|")


@pytest.fixture(scope="module")
def exported():
    args = export.symbolic_args_specs((batch(4), batch(8)), ("b, ...", "2*b, ..."), constraints=["b <= 100"])
    function = lambda x, y: (mlp(x), x.sum() + y.mean(0))
    return export.export(veery.jit(function))(*args)


def test_export(exported):
    again = export.deserialize(exported.serialize(vjp_order=1))
    assert list(map(str, again.in_avals)) == ["float32[b,5]", "float32[2*b,5]"]
    assert list(map(str, again.out_avals)) == ["float32[b,10]", "float32[5]"]
    assert "tensor<?x5xf32>" in again.mlir_module()
    x, y = batch(7), batch(14)
    p, q = again.call(x, y)
    np.testing.assert_allclose(p, mlp(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(q, x.sum() + y.mean(0), rtol=1e-4, atol=1e-5)
    gradients = again.vjp().call(x, y, np.zeros((7, 10), np.float32), np.ones(5, np.float32))
    np.testing.assert_allclose(gradients[0], np.full((7, 5), 5), rtol=1e-6)
    np.testing.assert_allclose(gradients[1], np.full((14, 5), 1 / 14), rtol=1e-6)
    with pytest.raises(ValueError, match=r"dimension 0 of argument 1 is 7, and '2\*b' is 14 with 'b' = 7"):
        again.call(x, x)
    with pytest.raises(ValueError, match="constraint b <= 100, with 'b' = 101"):
        again.call(batch(101), batch(202))
    with pytest.raises(ValueError, match=r"Shape mismatch for args\[0\] .* expected \(b, 5\) and called with \(7, 4\)"):
        again.call(batch(7, 4), y)


def test_exported_in_a_function_for_many_shapes(exported):
    shape = export.symbolic_shape("n, 5", constraints=["n <= 100"])
    outer = veery.jit(lambda x: exported.call(x, jnp.concatenate([x, x]))[0], dynamic_shapes={"x": shape})
    for n in (2, 3):
        x = batch(n)
        np.testing.assert_allclose(outer(x), mlp(x), rtol=1e-4, atol=1e-6)
    assert outer._cache_size() == 1


def test_export_needs_one_scope():
    function = export.export(veery.jit(lambda x, y: x.sum() + y.sum()))
    types = [spec(export.symbolic_shape("b, 4"), "float32") for _ in range(2)]
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        function(*types)
    with pytest.raises(ValueError, match="Cannot solve for values of dimension variables {'c'}"):
        function(spec(export.symbolic_shape("floordiv(c, 2)"), "float32"), spec((3,), "float32"))


def test_artifact(tmp_path):
    b, twice = export.symbolic_shape("b, 2*b", constraints=["b <= 100"])
    params = {"w": spec((5, 3), "float32")}
    big = np.arange(1000, dtype=np.float32).reshape(200, 5) / 1000  # a constant apart from the code

    def predict(params, x, y):
        return {"p": nn.softmax(x @ params["w"]), "q": y + jnp.asarray(big).sum(), "all": (x @ big.T).sum(-1)}

    path = tmp_path / "model.vmfb"
    args = (params, spec((b, 5), "float32"), spec((twice,), "float32"))
    veery.aot.compile(predict, args, targets=["cpu"], out=path, weights=tmp_path / "model.safetensors")
    model = veery_runtime.load(path)
    assert repr(model.predict) == (
        "predict(params: {w: f32[5,3]}, x: f32[b,5], y: f32[2*b]) -> {all: f32[b], p: f32[b,3], q: f32[2*b]}"
    )
    weights = {"w": batch(5, 3)}
    for n in (*BATCHES, 1):
        x, y = batch(n), batch(1, 2 * n)[0]
        out = model(weights, x, y)
        np.testing.assert_allclose(out["p"], softmax(x @ weights["w"]), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(out["q"], y + big.sum(), rtol=1e-5)
        np.testing.assert_allclose(out["all"], (x @ big.T).sum(-1), rtol=1e-3, atol=1e-3)
    buffers = model.predict.launch(weights, x, y)
    assert buffers["p"].shape == (1, 3)
    with pytest.raises(ValueError, match=r"predict: dimension 0 of y must be '2\*b' = 4 with b = 2, got 3"):
        model(weights, batch(2), np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="predict: the shapes of the arguments must fulfil b <= 100, got b = 101"):
        model(weights, batch(101), np.zeros(202, np.float32))
    with pytest.raises(TypeError, match=r"argument x must be f32\[b,5\], got f32\[2,4\]"):
        model(weights, batch(2, 4), np.zeros(4, np.float32))
    with pytest.raises(TypeError, match=r"argument x must be f32\[b,5\], got f64\[2,5\].*astype"):
        model(weights, np.zeros((2, 5)), np.zeros(4, np.float32))


def test_stages_of_a_function_for_many_shapes(tmp_path):
    function = veery.jit(lambda x: {"y": 2 * x}, dynamic_shapes={"x": "n, ..."})
    lowered = function.lower(batch(3))
    assert "tensor<?x5xf32>" in lowered.as_text() and "n" in str(lowered.cost_analysis()["work"])
    compiled = lowered.compile()
    assert compiled(batch(6))["y"].shape == (6, 5)
    with pytest.raises(TypeError, match=r"compiled with float32\[n,5\] and called with float32\[6,4\]"):
        compiled(batch(6, 4))
    compiled.save(tmp_path / "f.vmfb")
    assert veery_runtime.load(tmp_path / "f.vmfb")(batch(2))["y"].shape == (2, 5)
