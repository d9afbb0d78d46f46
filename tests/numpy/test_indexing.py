"""Index expressions against NumPy: reads and updates, traced and eager, and the errors of bad ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.interpreted import interpreted

import veery
import veery.numpy as jnp
from veery import grad, jit, lax, vmap
from veery.errors import NonConcreteBooleanIndexError


@st.composite
def slices(draw, n: int) -> slice:
    bound = st.none() | st.integers(-n - 2, n + 2)
    step = draw(st.none() | st.sampled_from([1, 1, 2, 3, -1, -2, -3]))
    return slice(draw(bound), draw(bound), step)


@st.composite
def integer_arrays(draw, n: int, common: tuple[int, ...]) -> np.ndarray:
    """Indices for a dimension of size n, of a shape that broadcasts with the others'."""
    shape = tuple(1 if draw(st.booleans()) else d for d in common[draw(st.integers(0, len(common))) :])
    size = int(np.prod(shape))
    values = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
    return np.array(values, draw(st.sampled_from([np.int32, np.int8]))).reshape(shape)


@st.composite
def masks(draw, shape: tuple[int, ...], size: int) -> np.ndarray | None:
    """A mask whose positions broadcast with `size` others: as many, or one. None where the shape has too few."""
    mask = np.zeros(int(np.prod(shape)), bool)
    true = draw(st.sampled_from([1, size]))
    if true > mask.size:
        return None
    mask[draw(st.permutations(range(mask.size)))[:true]] = True
    return mask.reshape(shape)


@st.composite
def indexed_arrays(draw) -> tuple[np.ndarray, tuple]:
    """An array and an index expression that NumPy accepts for it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    if draw(st.integers(0, 9)) == 9:
        shape = tuple(n - 1 for n in shape)
    common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    kinds = ["slice", "int", "full", "array"] if draw(st.booleans()) else ["slice", "int", "full"]
    length = common[-1] if common else draw(st.integers(0, 3))
    entries: list = []
    axis = 0
    count = draw(st.integers(0, len(shape)))
    while axis < count:
        n = shape[axis]
        kind = draw(st.sampled_from(kinds if n else ["slice", "full"]))
        if kind == "array" and draw(st.booleans()):
            dims = draw(st.integers(1, min(2, count - axis)))
            mask = draw(masks(shape[axis : axis + dims], length))
            if mask is not None:
                entries.append(mask)
                axis += dims
                continue
        if kind == "array":
            entries.append(draw(integer_arrays(n, common)))
        else:
            last = max(n, 1) - 1
            entries.append({"slice": draw(slices(n)), "int": draw(st.integers(-n, last)), "full": slice(None)}[kind])
        axis += 1
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))) if count == len(shape) else len(entries), Ellipsis)
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    return x, tuple(entries)


def traced_index(idx: tuple) -> tuple[list, object]:
    """The integers and integer arrays of an index expression, and how to put others in their place."""
    is_dynamic = [isinstance(e, int) or (isinstance(e, np.ndarray) and e.dtype != bool) for e in idx]
    values = [np.asarray(e) for e, dynamic in zip(idx, is_dynamic) if dynamic]

    def rebuild(xs: list) -> tuple:
        rest = iter(xs)
        return tuple(next(rest) if dynamic else e for e, dynamic in zip(idx, is_dynamic))

    return values, rebuild


@settings(max_examples=150)
@given(indexed_arrays())
def test_reads_agree_with_numpy(case):
    x, idx = case
    expected = x[idx]
    np.testing.assert_array_equal(interpreted(lambda x: x[idx], x), expected)
    values, rebuild = traced_index(idx)
    np.testing.assert_array_equal(interpreted(lambda x, *i: x[rebuild(i)], x, *values), expected)


UPDATES = {
    "set": None,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@settings(max_examples=150)
@given(indexed_arrays(), st.sampled_from(list(UPDATES)), st.booleans(), st.data())
def test_updates_agree_with_numpy(case, name, scalar, data):
    x, idx = case
    shape = x[idx].shape
    values = np.float32(100) if scalar else 100 + np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    if not scalar and shape and data.draw(st.booleans()):
        values = values[tuple(slice(0, 1) if data.draw(st.booleans()) else slice(None) for _ in shape)]
    if name == "set" and _has_duplicates(x, idx):
        values = np.float32(100)
    expected = x.copy()
    if name == "set":
        expected[idx] = values
    else:
        UPDATES[name].at(expected, idx, values)
    update = lambda x, i, v: getattr(x.at[i], name)(v)
    np.testing.assert_allclose(interpreted(lambda x, v: update(x, idx, v), x, values), expected, rtol=1e-6)
    indices, rebuild = traced_index(idx)
    actual = interpreted(lambda x, v, *i: update(x, rebuild(i), v), x, values, *indices)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def _has_duplicates(x: np.ndarray, idx: tuple) -> bool:
    taken = np.arange(x.size).reshape(x.shape)[idx]
    return len(np.unique(taken)) != taken.size


X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
EAGER = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[::-1],
    np.s_[1:, ::2],
    np.s_[..., None, 1],
    np.s_[[0, 2]],
    np.s_[:, [1, 1, 0]],
    np.s_[[0, 1], ::-2],
    np.s_[[[0], [1]], [2, 3]],
    np.s_[[True, False, True]],
    np.s_[:, np.array([True, False, True, False])],
    X > 5,
]


def test_eager_reads_and_updates_agree_with_numpy():
    x = jnp.array(X)
    for idx in EAGER:
        idx = np.array(idx) if isinstance(idx, list) else idx
        np.testing.assert_array_equal(x[idx], X[idx], err_msg=str(idx))
        expected = X.copy()
        expected[idx] = -1
        np.testing.assert_array_equal(x.at[idx].set(-1), expected, err_msg=str(idx))
    np.testing.assert_array_equal(np.asarray(x), X)  # none of the updates was in place


@settings(max_examples=100)
@given(st.data())
def test_modes_out_of_bounds(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    dims = data.draw(st.sampled_from(range(1, len(shape) + 1)))
    indices = [np.array(data.draw(st.lists(st.integers(-2 * n, 2 * n), min_size=2, max_size=2))) for n in shape[:dims]]
    mode = data.draw(st.sampled_from([None, "fill", "clip", "drop"]))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    counted = [np.where(i < 0, i + n, i) for i, n in zip(indices, shape)]
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(counted, shape))
    inside = np.all([(0 <= i) & (i < n) for i, n in zip(counted, shape)], axis=0)

    read = interpreted(lambda x, *i: x.at[i].get(mode=mode, fill_value=-1), x, *indices)
    values = x[clipped]
    filled = mode in ("fill", "drop")
    keep = inside.reshape(-1, *(1 for _ in shape[dims:]))
    np.testing.assert_array_equal(read, np.where(keep, values, -1) if filled else values)

    expected = x.copy()
    taken = inside if mode != "clip" else np.ones_like(inside)
    np.add.at(expected, tuple(i[taken] for i in clipped), 100.0)
    np.testing.assert_array_equal(interpreted(lambda x, *i: x.at[i].add(100.0, mode=mode), x, *indices), expected)


def test_one_program_serves_all_places():
    x = jnp.arange(5.0)
    assert [float(x[i]) for i in range(-5, 5)] == [0, 1, 2, 3, 4] * 2
    assert [x[i : i + 2].tolist() for i in range(3)] == [[0, 1], [1, 2], [2, 3]]


@pytest.mark.compiler
def test_out_of_bounds():
    x = jnp.arange(3.0)
    assert float(x[5]) == 2 and float(x[-5]) == 0
    assert float(x[jnp.array(7)]) == 2
    assert np.isnan(x.at[5].get(mode="fill"))
    assert float(x.at[5].get(mode="fill", fill_value=-1)) == -1
    assert x.at[jnp.array([0, 5])].get(mode="fill", fill_value=9).tolist() == [0, 9]
    assert jnp.arange(3).at[9].get(mode="fill") == np.iinfo(np.int32).min
    assert x.at[5].set(7).tolist() == [0, 1, 2]
    assert x.at[5].set(7, mode="clip").tolist() == [0, 1, 7]
    assert x.at[jnp.array([5, 0])].add(7).tolist() == [7, 1, 2]
    assert x.at[-1].set(7, wrap_negative_indices=False).tolist() == [0, 1, 2]
    write = lambda i: (x.at[i].set(7), x.at[i].add(7, mode="clip"), x[i])
    for i in (-9, -1, 0, 5):
        for traced, eager in zip(interpreted(write, np.int32(i)), write(i)):
            np.testing.assert_array_equal(traced, eager)


@pytest.mark.compiler
def test_gradients_of_what_is_read_out_of_bounds():
    """Arrays of indices read the nearest element; its derivative is theirs only where the clamping was asked for."""
    x, i = jnp.arange(1.0, 5.0), jnp.array([1, 9, -7])
    read = lambda **mode: lambda x: (x.at[i].get(**mode) * jnp.array([1.0, 10.0, 100.0])).sum()
    for mode, expected in ((None, [0, 1, 0, 0]), ("promise_in_bounds", [0, 1, 0, 0]), ("clip", [100, 1, 0, 10])):
        function = read(mode=mode)
        assert float(function(x)) == 2 + 40 + 100
        for gradient in (grad(function), jit(grad(function))):
            assert gradient(x).tolist() == expected
    rows = jnp.arange(6.0).reshape(2, 3)
    assert jit(grad(lambda m: m[jnp.array([0, 2]), :2].sum()))(rows).tolist() == [[1, 1, 0], [0, 0, 0]]


@pytest.mark.compiler
def test_promised_places_out_of_bounds_are_not_written():
    x, i = jnp.arange(1.0, 5.0), jnp.array([1, 9])
    for j, expected in ((i, [1, 7, 3, 4]), (jnp.array(9), [1, 2, 3, 4]), (9, [1, 2, 3, 4])):
        write = lambda x, j=j: x.at[j].set(7.0, mode="promise_in_bounds")
        assert write(x).tolist() == jit(write)(x).tolist() == expected
    adding = lambda x: x.at[i].add(7.0, mode="promise_in_bounds")
    assert adding(x).tolist() == jit(adding)(x).tolist() == [1, 9, 3, 4]


@pytest.mark.compiler
@pytest.mark.parametrize("operation", ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"])
@pytest.mark.parametrize("place", [-2, -1, 0, 1])
def test_out_of_bounds_of_an_axis_of_one_element(operation, place):
    value = 1 if operation == "min" else 3
    updates = [lambda x, i: getattr(x.at[i], operation)(value), lambda x, i: getattr(x.at[i, :], operation)(value)]
    updates += [lambda x, i: getattr(x.T.at[:, i], operation)(value).T]
    x = jnp.full((1, 2), 2.0)
    inside = getattr(x.at[0], operation)(value)
    assert not np.array_equal(inside, x)
    for update in updates:
        np.testing.assert_array_equal(jit(update)(x, place), inside if place in (-1, 0) else x)
        np.testing.assert_array_equal(update(x, jnp.int32(place)), inside if place in (-1, 0) else x)
        clipped = jit(lambda x, i: getattr(x.at[i], operation)(value, mode="clip"))(x, place)
        np.testing.assert_array_equal(clipped, inside)


def test_updates_by_function():
    x = jnp.array([1.0, 4.0, 9.0])
    assert x.at[1].apply(jnp.sqrt).tolist() == [1, 2, 9]
    assert x.at[jnp.array([0, 0])].apply(lambda v: v + 1).tolist() == [3, 4, 9]
    assert x.at[jnp.array([0, 0, 1])].divide(2).tolist() == [0.25, 2, 9]
    assert x.at[1:].power(2).tolist() == [1, 16, 81]
    assert x.at[x > 2].multiply(10).tolist() == [1, 40, 90]
    assert (x.at[::2].get().tolist(), x.at[0].max(3).tolist()) == ([1, 9], [3, 4, 9])


def test_python_ints_that_only_unsigned_integers_hold():
    x, largest = jnp.zeros(2, jnp.uint32), 2**32 - 1
    for update in (
        lambda x: x.at[0].set(largest),
        lambda x: x.at[0].max(largest),
        lambda x: x.at[jnp.array([0])].add(largest),
    ):
        for fun in (update, veery.jit(update)):
            assert fun(x).dtype == np.uint32
            np.testing.assert_array_equal(fun(x), np.array([largest, 0], np.uint32))
    for y in (x, x.astype(int), x.astype(jnp.uint8)):
        with pytest.raises(OverflowError):
            y.at[0].set(2**32)
    with pytest.raises(OverflowError):
        x.astype(jnp.int32).at[0].set(largest)


def test_updates_keep_the_dtype():
    x = jnp.arange(3)
    assert x.at[0].add(np.int8(1)).dtype == np.int32
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        assert x.at[0].add(1.5).dtype == np.int32
    assert jnp.arange(3, dtype="int8").at[0].set(300).tolist() == [44, 1, 2]
    assert x.at[0].divide(2).dtype == np.float32


BAD = [
    (np.s_[0.5], TypeError, "Indexer must have integer or boolean type, got indexer with type float64"),
    ("a", TypeError, "JAX does not support string indexing; got idx='a'"),
    ([0, 1], TypeError, "Using a non-tuple sequence for multidimensional indexing is not allowed"),
    (np.s_[1, 2], IndexError, "Too many indices: array is 1-dimensional, but 2 were indexed"),
    (np.s_[..., ...], IndexError, "an index can only have a single ellipsis"),
    (np.ones(2, bool), IndexError, r"boolean index did not match shape of indexed array in index 0: got \(2,\)"),
    (np.ones(3), TypeError, "Indexer must have integer or boolean type"),
    (np.s_[0:2:0], ValueError, "slice step cannot be zero"),
    (np.s_[1.0:2], TypeError, "'float' object cannot be interpreted as an integer"),
    ({}, IndexError, "only integers, slices"),
]


@pytest.mark.parametrize("idx, error, message", BAD)
def test_bad_indices(idx, error, message):
    x = jnp.ones(3)
    with pytest.raises(error, match=message):
        x[idx]
    with pytest.raises(error, match=message):
        x.at[idx].set(1.0)


def test_errors_under_jit():
    x = jnp.arange(3.0)
    with pytest.raises(NonConcreteBooleanIndexError, match="Array boolean indices must be concrete"):
        jit(lambda x: x[x > 1])(x)
    for of_scalar in (lambda m: x[m], lambda m: x.at[m].set(0.0)):
        with pytest.raises(NonConcreteBooleanIndexError):
            jit(of_scalar)(True)
        with pytest.raises(NonConcreteBooleanIndexError):
            vmap(of_scalar)(x > 1)
    with pytest.raises(IndexError, match="Slice entries must be static integers"):
        jit(lambda x, i: x[i:])(x, 1)
    with pytest.raises(TypeError, match=r"JAX arrays are immutable.*\.at\["):
        x[0] = 1.0
    with pytest.raises(TypeError, match="immutable"):
        jit(lambda x: x.__setitem__(0, 1.0))(x)
    with pytest.raises(ValueError, match="Cannot broadcast to shape with fewer dimensions"):
        x.at[0].set(jnp.ones((1, 2)))
    with pytest.raises(ValueError, match="Incompatible types for broadcasting"):
        x.at[jnp.arange(2)].set(x)
    with pytest.raises(ValueError, match='Unknown gather mode "foo"'):
        x.at[0].get(mode="foo")
    with pytest.raises(IndexError, match="index is out of bounds for axis 0 with size 0"):
        jnp.zeros((0, 2))[0]
    nothing = jnp.zeros((3, 0))
    for use in (lambda: nothing[..., jnp.array(1)], lambda: nothing.at[:, jnp.array(1)].add(1.0)):
        with pytest.raises(IndexError, match="index is out of bounds for axis 1 with size 0"):
            use()


def test_slices_do_not_gather():
    from veery._api.inspection import make_jaxpr

    def primitives(fun, *args):
        return [eqn.primitive.name for eqn in make_jaxpr(fun)(*args).eqns]

    x = np.ones((4, 4), np.float32)
    assert primitives(lambda x: x[1:3, ::2], x) == ["slice"]
    assert primitives(lambda x: x[::-1], x) == ["rev"]
    assert primitives(lambda x: x[0], x) == ["slice", "squeeze"]
    assert "dynamic_slice" in primitives(lambda x, i: x[i], x, 1)
    assert "gather" in primitives(lambda x, i: x[i], x, np.arange(2))
    assert "dynamic_update_slice" in primitives(lambda x, i: x.at[i].set(0.0), x, 1)
    assert "scatter" in primitives(lambda x, i: x.at[i].set(0.0), x, np.arange(2))


def test_slices_heed_no_mode():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for index in ((), None, (slice(None, None, -1), slice(5, None, -2)), (slice(3, None), None)):
        for mode in ("fill", "clip"):
            read = interpreted(lambda x, index=index, mode=mode: x.at[index].get(mode=mode, fill_value=-1), x)
            np.testing.assert_array_equal(read, x[index])


def test_masks_without_elements_choose_nothing_whatever_their_shape():
    x = jnp.arange(6).reshape(2, 3)
    assert x[np.zeros(0, bool)].shape == (0, 3)
    assert x[:, np.zeros(0, bool)].shape == (2, 0)
    assert x[np.zeros((2, 0), bool)].shape == (0,)
    np.testing.assert_array_equal(x.at[np.zeros(0, bool)].set(1), x)
    with pytest.raises(IndexError, match="boolean index did not match"):
        x[np.array([True])]


@pytest.mark.parametrize("index", [lambda x, i: x[i], lambda x, i: x[jnp.stack([i, i])], lambda x, i: x.at[i].set(1)])
def test_indices_of_32_bits_into_longer_axes_are_refused(index):
    x, i = veery.ShapeDtypeStruct((2**31 + 8,), np.int8), veery.ShapeDtypeStruct((), np.int32)
    with pytest.raises(OverflowError, match="need int64. Set jax_enable_x64"):
        veery.eval_shape(index, x, i)
    with veery.enable_x64(True):
        veery.eval_shape(index, x, i)
    from_end = lambda x, i: lax.dynamic_slice(x, (i,), (2,))
    with pytest.raises(OverflowError, match="allow_negative_indices=False"):
        veery.eval_shape(from_end, x, i)
    from_start = lambda x, i: lax.dynamic_slice(x, (i,), (2,), allow_negative_indices=False)
    assert veery.eval_shape(from_start, x, i).shape == (2,)


def test_gradients_of_products_with_slices():
    """Places of a slice differ, so that products with them have gradients."""
    x = jnp.arange(1.0, 8.0)
    squares = lambda x, place, y: (x.at[place].multiply(y) ** 2).sum()
    for place, count in ((slice(1, 7, 2), 3), (slice(None, None, -2), 4), (slice(2, 5), 3)):
        grads = veery.grad(squares, (0, 2))(x, place, jnp.arange(count) + 2.0)
        factors = np.ones(7)
        factors[place] = np.arange(count) + 2.0
        np.testing.assert_allclose(grads[0], 2 * np.asarray(x) * factors**2, rtol=1e-6)
        np.testing.assert_allclose(grads[1], (2 * np.asarray(x) ** 2 * factors)[place], rtol=1e-6)


ELEMENTS = (slice(None), np.array([0, 1]), 0, None, ..., np.array([[1], [0]]), slice(1, None), np.array([True, False]))


@pytest.mark.compiler
@pytest.mark.parametrize("count", [2, 3, 4])
def test_dots_between_arrays_part_them(count):
    """Even where they are no dimension. All index expressions with dots, of some elements."""
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    tried = 0
    for index in itertools.product(ELEMENTS, repeat=count):
        if sum(e is ... for e in index) != 1 or sum(getattr(e, "dtype", 0) == "bool" for e in index) > 1:
            continue
        try:
            expected = x[index]
        except IndexError:
            continue
        tried += 1
        if count == 4 and tried % 3:
            continue
        np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[index]), expected, err_msg=str(index), strict=True)
        values = np.arange(expected.size, dtype=np.float32).reshape(expected.shape)
        written = np.zeros_like(x)
        np.add.at(written, index, values)
        np.testing.assert_array_equal(jnp.zeros(x.shape).at[index].add(values), written, err_msg=str(index))
    assert tried > 10


@pytest.mark.compiler
@pytest.mark.parametrize("mode", ["clip", "drop", "promise_in_bounds"])
def test_nothing_is_written_where_there_is_no_place(mode):
    x, i = jnp.zeros((0, 3)), jnp.array([9, 0])
    write = lambda x, i: x.at[i].add(1.0, mode=mode)
    assert write(x, i).shape == jit(write)(x, i).shape == (0, 3)
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    scatter = lambda x: lax.scatter_add(x, i[:, None], jnp.ones((2, 3)), numbers, mode=mode)
    assert scatter(x).shape == jit(scatter)(x).shape == (0, 3)
