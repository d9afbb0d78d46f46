"""`experimental.sparse` beside JAX 0.10.2 (recorded/sparse.json), and beside the same operations on dense arrays."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from cases_sparse import CASES, M
from support.numpy_trace import numpy_evaluation
from support.recorded import check, read

import veery
import veery.numpy as jnp
from veery import lax
from veery.experimental import sparse

RECORDED = read(Path(__file__).with_name("recorded") / "sparse.json")
pytestmark = pytest.mark.compiler


def test_arrays_become_dense_within_sparsify():
    x = sparse.BCOO.fromdense(jnp.eye(2))
    for f in (sparse.todense, lambda x: sparse.todense(2 * x) - sparse.todense(x)):
        for run in (sparse.sparsify(f), veery.jit(sparse.sparsify(f))):
            assert run(x).tolist() == [[1, 0], [0, 1]] and run(jnp.ones(2)).tolist() == [1, 1]


def test_greatest_eigenvalues():
    rng = np.random.default_rng(0)
    start = jnp.array(rng.normal(size=(20, 2)), jnp.float32)
    basis, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    wanted = np.linspace(-3, 9, 20)
    matrix = ((basis * wanted) @ basis.T).astype(np.float32)
    with veery.disable_jit(), veery.numpy_rank_promotion("raise"):
        values, vectors, steps = sparse.linalg.lobpcg_standard(lambda x: matrix @ x, start, tol=1e-6)
        np.testing.assert_allclose(values, wanted[::-1][:2], rtol=1e-4)
        np.testing.assert_allclose(matrix @ vectors, vectors * values[None], atol=0.01)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(2), atol=1e-5)
        assert 1 < steps < 40
        for times in (jnp.array(matrix), sparse.BCOO.fromdense(matrix)):
            assert sparse.linalg.lobpcg_standard(times, start, m=0)[0][0] < values[0]
        values, _, steps = sparse.linalg.lobpcg_standard(jnp.eye(20), start)  # of which all have one eigenvalue
        assert steps == 0 and np.allclose(values, 1)
    with pytest.raises(ValueError, match=r"expected search dim \* 5 < matrix dim \(got 10, 10\)"):
        sparse.linalg.lobpcg_standard(jnp.eye(10), jnp.eye(10, 2))
    with pytest.raises(ValueError, match="A, X must have same dtypes"):
        sparse.linalg.lobpcg_standard(lambda x: x.astype("float16"), start)
    with pytest.raises(ValueError, match=r"A must be \(20, 20\) matrix A, got output \(10, 1\)"):
        sparse.linalg.lobpcg_standard(lambda x: x[:10], start)


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name])


# Of arrays with axes of a batch, sparse axes and dense axes.
LAYOUTS = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]
SHAPE = (2, 3, 4)


def made(shape=SHAPE, seed=0):
    random = np.random.default_rng(seed)
    return np.where(random.uniform(size=shape) < 0.4, random.normal(size=shape), 0.0).astype(np.float32)


def dot(dims):
    return lambda x, y: lax.dot_general(x, y, dims)


A, B = made((3, 5), 1), made((4, 2, 5), 2)
ROWS, COLUMNS = np.array([[0, -1], [1, 0]]), np.array([2, 3])
STARTS = np.array([[0, 1], [1, 9]])
SLICES = lax.GatherDimensionNumbers(offset_dims=(0, 2), collapsed_slice_dims=(0,), start_index_map=(1, 2))
# (dense, with the module and the sparse array): each is compared with the first on the dense array.
OPERATIONS = {
    "todense": (lambda x: x, lambda S, x: x),
    "sum over the first": (lambda x: x.sum(0), lambda S, x: x.sum(0)),
    "sum over the second": (lambda x: x.sum(1), lambda S, x: x.sum(1)),
    "sum over the last two": (lambda x: x.sum((1, 2)), lambda S, x: x.sum((1, 2))),
    "product": (lambda x: x @ B[:, 0], lambda S, x: x @ B[:, 0]),
    "product from the left": (lambda x: A.T @ x, lambda S, x: A.T @ x),
    "dot_general over two axes": (
        lambda x: dot((((2, 0), (0, 1)), ((), ())))(x, B),
        lambda S, x: S.bcoo_dot_general(x, B, dimension_numbers=(((2, 0), (0, 1)), ((), ()))),
    ),
    "dot_general with a batch": (
        lambda x: dot((((1,), (0,)), ((0,), (1,))))(x, made((3, 2, 4), 3)),
        lambda S, x: S.bcoo_dot_general(x, made((3, 2, 4), 3), dimension_numbers=(((1,), (0,)), ((0,), (1,)))),
    ),
    "dot_general of the last axis": (
        lambda x: dot((((), ()), ((2,), (0,))))(x, B),
        lambda S, x: S.bcoo_dot_general(x, B, dimension_numbers=(((), ()), ((2,), (0,)))),
    ),
    "slice": (lambda x: x[1:, ::2, 1:3], lambda S, x: x[1:, ::2, 1:3]),
    "index": (lambda x: x[1, :, None, 2], lambda S, x: x[1, :, None, 2]),
    "negative steps": (lambda x: x[::-1, ::-2], lambda S, x: x[::-1, ::-2]),
    "dynamic_slice": (
        lambda x: lax.dynamic_slice(x, (1, 2, 0), (1, 2, 3)),
        lambda S, x: S.bcoo_dynamic_slice(x, (1, jnp.int32(2), 0), (1, 2, 3)),
    ),
    "rev": (lambda x: lax.rev(x, (0, 2)), lambda S, x: S.bcoo_rev(x, (0, 2))),
    "reshape": (lambda x: x.reshape(2, 6, 2), lambda S, x: x.reshape(2, 6, 2)),
    "reshape of all": (lambda x: x.reshape(4, 6), lambda S, x: x.reshape(4, 6)),
    "multiplication": (lambda x: x * B[:, 0, 0], lambda S, x: x * B[:, 0, 0]),
    "division": (lambda x: x / (2 + B[:, 0, 0]), lambda S, x: x / (2 + B[:, 0, 0])),
    "addition": (lambda x: x + 2 * x, lambda S, x: x + 2 * x),
    "concatenation along the first": (
        lambda x: jnp.concatenate([x, -x], 0),
        lambda S, x: S.bcoo_concatenate([x, -x], dimension=0),
    ),
    "concatenation along the last": (
        lambda x: jnp.concatenate([x, -x], 2),
        lambda S, x: S.bcoo_concatenate([x, -x], dimension=2),
    ),
    "broadcast": (
        lambda x: lax.broadcast_in_dim(x, (5, *SHAPE), (1, 2, 3)),
        lambda S, x: S.bcoo_broadcast_in_dim(x, shape=(5, *SHAPE), broadcast_dimensions=(1, 2, 3)),
    ),
    "broadcast between": (
        lambda x: lax.broadcast_in_dim(x, (2, 5, 3, 4), (0, 2, 3)),
        lambda S, x: S.bcoo_broadcast_in_dim(x, shape=(2, 5, 3, 4), broadcast_dimensions=(0, 2, 3)),
    ),
    "rows by an array": (lambda x: x[ROWS], lambda S, x: x[ROWS]),
    "columns by an array": (lambda x: x[:, ROWS], lambda S, x: x[:, ROWS]),
    "two arrays apart": (lambda x: x[ROWS, 1:, COLUMNS], lambda S, x: x[ROWS, 1:, COLUMNS]),
    "arrays, a new axis and an integer": (lambda x: x[None, ROWS.T, 1], lambda S, x: x[None, ROWS.T, 1]),
    "a mask": (lambda x: x[:, np.array([True, False, True])], lambda S, x: x[:, np.array([True, False, True])]),
    "slices of a gather": (
        lambda x: lax.gather(x, STARTS, SLICES, (1, 2, 3), mode="clip"),
        lambda S, x: S.bcoo_gather(x, STARTS, SLICES, (1, 2, 3)),
    ),
    "a reshape of the last two": (lambda x: x.reshape(2, 6, 2), lambda S, x: x.reshape(2, 6, 2)),
    "the other way round": (lambda x: lax.rev(x, (0, 2)), lambda S, x: S.sparsify(lambda x: lax.rev(x, (0, 2)))(x)),
    "sum_duplicates": (lambda x: x + x, lambda S, x: (x + x).sum_duplicates(nse=13)),
    "sort_indices": (lambda x: x, lambda S, x: x.sort_indices()),
    "extract": (lambda x: x, lambda S, x: S.bcoo_extract(x + x, x.todense())),
    "layout without axes of a batch": (lambda x: x, lambda S, x: x.update_layout(n_batch=0, n_dense=0)),
    "layout with an axis of a batch": (lambda x: x, lambda S, x: x.update_layout(n_batch=1, on_inefficient=None)),
    "layout with a dense axis": (lambda x: x, lambda S, x: x.update_layout(n_dense=1, on_inefficient=None)),
    "pytrees": (lambda x: 3 * x, lambda S, x: veery.tree.map(lambda y: y, x) * 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operations_are_those_of_dense_arrays(layout):
    n_batch, n_dense = layout
    dense = made()
    x = sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense, nse=13)  # a few of them padding

    def all_of_them(x):
        found = {}
        for name, (_, operation) in OPERATIONS.items():
            found[name] = sparse.todense(operation(sparse, x))
        return found

    with numpy_evaluation():
        found = veery.jit(all_of_them)(x)
        operations = {name: operation for name, (operation, _) in OPERATIONS.items()}
        wanted = veery.jit(lambda x: {name: operation(x) for name, operation in operations.items()})(dense)
    for name in OPERATIONS:
        assert found[name].dtype == wanted[name].dtype, name
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_gradients_are_those_of_dense_arrays():
    x = sparse.BCOO.fromdense(M)
    other = jnp.asarray(made((4, 3), 4))

    def loss(mat, other):
        return jnp.sum(jnp.sin(sparse.todense((mat @ other) * 2)) ** 2)

    by_sparse, by_other = sparse.grad(loss, argnums=(0, 1))(x, other)
    wanted, wanted_other = veery.grad(loss, argnums=(0, 1))(jnp.asarray(M), other)
    np.testing.assert_allclose(by_other, wanted_other, rtol=1e-5)
    np.testing.assert_allclose(by_sparse.todense(), np.where(M != 0, wanted, 0), rtol=1e-5)
    assert by_sparse.indices.tolist() == x.indices.tolist()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bcsr"])
def test_formats_go_through_gradients_and_scans(form):
    cls = {"csr": sparse.CSR, "csc": sparse.CSC, "coo": sparse.COO, "bcsr": sparse.BCSR}[form]
    x = cls.fromdense(jnp.asarray(M), nse=7)
    assert np.array_equal(x.todense(), M)
    gradient = sparse.grad(lambda x: jnp.sum((x @ jnp.arange(4.0)) ** 2))(x)
    assert type(gradient) is cls
    wanted = 2 * (M @ np.arange(4))[:, None] * np.arange(4)
    np.testing.assert_allclose(gradient.todense(), np.where(M != 0, wanted, 0), rtol=1e-6)
    doubled = lax.fori_loop(0, 2, lambda i, c: veery.tree.map(lambda leaf: leaf, c), x)
    assert np.array_equal(doubled.todense(), M)


def test_matrices_of_scipy():
    for cls, form in ((sparse.BCOO, scipy.sparse.coo_matrix), (sparse.BCSR, scipy.sparse.csr_matrix)):
        assert np.array_equal(cls.from_scipy_sparse(form(M)).todense(), M)


def test_padding_never_counts():
    """Elements whose index lies beyond an axis, with values that are not zero."""
    indices = np.array([[0, 1], [3, 0], [1, 4], [3, 4]])
    x = sparse.BCOO((jnp.array([1.0, 10.0, 100.0, 1000.0]), indices), shape=(3, 4))
    dense = np.zeros((3, 4), np.float32)
    dense[0, 1] = 1
    for found, wanted in [
        (x.todense(), dense),
        (x.sum(0).todense(), dense.sum(0)),
        (x.sum(), dense.sum()),
        (x @ np.ones(4, np.float32), dense.sum(1)),
        (np.ones(3, np.float32) @ x, dense.sum(0)),
        (x.reshape(2, 6).todense(), dense.reshape(2, 6)),
        ((x + x).sum_duplicates().todense(), 2 * dense),
        (x[0].todense(), dense[0]),
    ]:
        np.testing.assert_array_equal(found, wanted)


def test_random_arrays():
    x = sparse.random_bcoo(veery.random.key(0), (2, 5, 6), nse=0.3, n_batch=1, dtype=jnp.float32)
    assert (x.nse, x.n_batch, x.dtype) == (9, 1, jnp.float32)
    assert ((x.todense() != 0).sum((1, 2)) == 9).all()
    rows = sparse.random_bcoo(veery.random.key(0), (5, 6), nse=8, sorted_indices=True).indices[:, 0]
    assert rows.tolist() == sorted(rows.tolist())
    with pytest.raises(ValueError, match="between 0 and 30"):
        sparse.random_bcoo(veery.random.key(0), (5, 6), nse=31)


def test_what_has_no_rule_is_refused():
    x = sparse.BCOO.fromdense(M)
    with pytest.raises(NotImplementedError, match="todense"):
        sparse.sparsify(jnp.exp)(x)
    with pytest.raises(NotImplementedError, match="non-unit window_strides"):
        sparse.bcoo_conv_general_dilated(x[None, :1], x[None, :1], window_strides=(2,), padding="SAME")
    with pytest.raises(TypeError, match="integer or boolean type"):
        x[np.array([0.5])]
    with pytest.raises(NotImplementedError, match="mixes"):
        sparse.BCOO.fromdense(M, n_batch=1).transpose((1, 0))


def test_indices_that_are_none():
    x = sparse.BCOO.fromdense(jnp.eye(3))
    for key in (True, (slice(None), False)):
        with pytest.raises(NotImplementedError, match="integers, slices"):
            x[key]
    with pytest.raises(IndexError, match="index -1 is out of bounds for axis 0 with size 0"):
        sparse.BCOO.fromdense(jnp.zeros((0, 3)))[-1]


def test_bools_that_occur_twice():
    indices = jnp.array([[1], [1], [0], [2]])
    x = sparse.BCOO((jnp.array([False, True, True, False]), indices), shape=(3,))
    found = x.sum_duplicates(nse=3, remove_zeros=False)
    assert (found.data.tolist(), found.indices.tolist()) == ([True, True, False], [[0], [1], [2]])
    assert found.todense().tolist() == [True, True, False]


def test_sparse_systems_are_solved_and_differentiated():
    dense = np.array([[4, 1, 0], [0, 3, 1], [2, 0, 5]], np.float32)
    matrix = scipy.sparse.csr_matrix(dense)
    b = np.array([1, 2, 3], np.float32)

    def solve(data, b):
        return sparse.linalg.spsolve(data, matrix.indices, matrix.indptr, b)

    x, vjp = veery.vjp(veery.jit(solve), matrix.data, b)
    np.testing.assert_allclose(x, np.linalg.solve(dense, b), rtol=1e-6)
    ct_data, ct_b = vjp(jnp.array([1.0, 0.0, -2.0]))
    want = np.linalg.solve(dense.T, np.array([1.0, 0.0, -2.0]))
    np.testing.assert_allclose(ct_b, want, rtol=1e-5)
    rows, columns = dense.nonzero()
    np.testing.assert_allclose(ct_data, -want[rows] * np.asarray(x)[columns], rtol=1e-5)
    batch = veery.vmap(solve, (None, 0))(matrix.data, np.stack([b, 2 * b]))
    np.testing.assert_allclose(batch, np.stack([x, 2 * np.asarray(x)]), rtol=1e-6)
    with pytest.raises(ValueError, match="Invalid CSR buffer sizes"):
        solve(matrix.data, b[:2])


@pytest.mark.parametrize(("in_axis", "out_axis"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_any_axis_of_the_batch_is_mapped(in_axis, out_axis):
    dense = np.arange(1.0, 61.0, dtype=np.float32).reshape(3, 4, 5)
    x = sparse.BCOO.fromdense(dense, n_batch=2)
    twice = veery.vmap(lambda row: row * 2, in_axes=in_axis, out_axes=out_axis)(x)
    expected = 2 * np.moveaxis(np.moveaxis(dense, in_axis, 0), 0, out_axis)
    assert (twice.shape, twice.n_batch) == (expected.shape, 2)
    np.testing.assert_array_equal(twice.todense(), expected)
    summed = veery.vmap(lambda row: row.todense().sum(1), in_axes=in_axis)(x)
    np.testing.assert_array_equal(summed, np.moveaxis(dense, in_axis, 0).sum(2))


@pytest.mark.parametrize("shape", [(), (3,), (3, 1), (1, 3, 2)])
def test_new_and_wider_axes(shape):
    """In each layout; a new axis is of a kind with its neighbours."""
    dense = jnp.asarray(np.random.default_rng(0).integers(0, 3, shape), jnp.float32)
    for n_batch, n_dense in itertools.product(range(len(shape) + 1), repeat=2):
        if n_batch + n_dense > len(shape):
            continue
        x = sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense)
        for dims in itertools.combinations(range(len(shape) + 1), len(shape)):
            before = dict(zip(dims, shape))
            wider = tuple(2 if before.get(d, 1) == 1 else before[d] for d in range(len(shape) + 1))
            found = sparse.bcoo_broadcast_in_dim(x, shape=wider, broadcast_dimensions=dims)
            np.testing.assert_array_equal(found.todense(), lax.broadcast_in_dim(dense, wider, dims))
    kinds = lambda x: (x.n_batch, x.n_sparse, x.n_dense)
    x = sparse.BCOO.fromdense(jnp.ones((3, 5, 2)), n_batch=1, n_dense=1)
    added = [kinds(y) for y in (x[None], x[:, None], x[:, :, None], x[..., None])]
    assert added == [(2, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2)]


def test_starts_of_slices_count_from_the_end():
    dense = np.arange(20.0, dtype=np.float32).reshape(4, 5)
    for x in (sparse.BCOO.fromdense(dense), sparse.BCOO.fromdense(dense, n_dense=1)):
        for starts in ((-1, 2), (-3, -4), (-9, 9), (1, 1)):
            part = sparse.bcoo_dynamic_slice(x, starts, (2, 3))
            np.testing.assert_array_equal(part.todense(), lax.dynamic_slice(dense, starts, (2, 3)))


def test_dots_between_arrays_part_them():
    dense, i = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5), np.array([0, 1])
    x = sparse.BCOO.fromdense(dense)
    for index in ((slice(None), i, ..., i), (slice(None), i, ..., 0), (slice(None), i, i), (i, ..., i)):
        np.testing.assert_array_equal(x[index].todense(), dense[index], strict=True)


def test_arrays_that_are_none_have_a_representation():
    x = sparse.BCOO.fromdense(jnp.eye(2))
    x.indices = jnp.array([])
    assert repr(x) == "BCOO(<invalid>)"
