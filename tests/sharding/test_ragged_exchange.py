"""`ragged_all_to_all`, beside the loop over slices that defines it."""

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery.sharding import Mesh, PartitionSpec as P

pytestmark = pytest.mark.compiler

# Two positions that send two slices to each of both: where each begins, how many rows it has, where it goes.
STARTS = np.array([[0, 2, 0, 3], [1, 0, 4, 2]], np.int32)
SENT = np.array([[2, 1, 3, 0], [1, 2, 1, 2]], np.int32)
TARGETS = np.array([[0, 6, 1, 0], [3, 4, 0, 5]], np.int32)
RECEIVED = np.array([[2, 1, 1, 2], [3, 0, 1, 2]], np.int32)
ROWS = np.arange(20, dtype=np.float32).reshape(2, 5, 2)
OUTPUT = -np.ones((2, 8, 2), np.float32)
VECTORS = (STARTS, SENT, TARGETS, RECEIVED)


def sent(rows, output):
    result = output.copy()
    for origin in range(2):
        for i in range(4):
            start, count, target = STARTS[origin, i], SENT[origin, i], TARGETS[origin, i]
            result[i // 2, target : target + count] = rows[origin, start : start + count]
    return result


def exchange(*args):
    return veery.lax.ragged_all_to_all(*args, axis_name="x")


def test_slices_go_to_the_positions_of_a_batch_dimension():
    run = veery.vmap(exchange, axis_name="x")
    out, vjp = veery.vjp(lambda rows, output: run(rows, output, *VECTORS), ROWS, OUTPUT)
    np.testing.assert_array_equal(out, sent(ROWS, OUTPUT))
    # The first row of position 0 goes to both: its cotangents add up.
    ct = np.arange(32, dtype=np.float32).reshape(2, 8, 2)
    identity = np.eye(20, dtype=np.float32).reshape(20, 2, 5, 2)
    want = [np.sum(sent(e, np.zeros_like(OUTPUT)) * ct) for e in identity]
    ct_rows, ct_output = vjp(ct)
    np.testing.assert_array_equal(np.ravel(ct_rows), want)
    np.testing.assert_array_equal(ct_output, ct * (sent(np.zeros_like(ROWS), np.ones_like(OUTPUT)) == 1))
    _, tangent = veery.jvp(lambda rows, output: run(rows, output, *VECTORS), (ROWS, OUTPUT), (2 * ROWS, OUTPUT))
    np.testing.assert_array_equal(tangent, sent(2 * ROWS, OUTPUT))


def test_slices_go_between_devices_and_a_batch_of_arrays_with_them():
    mesh = Mesh(np.array(veery.devices("cpu")[:2]), ("x",))

    def part(rows, output, *vectors):
        batched = veery.vmap(exchange, (1, 1, *[None] * 4), 1)
        return batched(rows[0], output[0], *(x[0] for x in vectors))[None]

    run = veery.jit(veery.shard_map(part, mesh=mesh, in_specs=(P("x"),) * 6, out_specs=P("x")))
    np.testing.assert_array_equal(run(ROWS, OUTPUT, *VECTORS), sent(ROWS, OUTPUT))


def test_groups_exchange_within_themselves():
    run = veery.vmap(
        lambda *args: veery.lax.ragged_all_to_all(*args, axis_name="x", axis_index_groups=[[0, 2], [1, 3]]),
        axis_name="x",
    )
    twice = lambda x: np.repeat(x, 2, axis=0)
    out = run(twice(ROWS), twice(OUTPUT), *map(twice, VECTORS))
    np.testing.assert_array_equal(out, twice(sent(ROWS, OUTPUT)))


def test_what_does_not_fit_is_refused():
    run = lambda *args: veery.vmap(exchange, axis_name="x")(*args)
    with pytest.raises(ValueError, match="send_sizes must be integer type"):
        run(ROWS, OUTPUT, STARTS, SENT.astype(np.float32), TARGETS, RECEIVED)
    with pytest.raises(ValueError, match="a multiple of the 2 positions"):
        run(ROWS, OUTPUT, *(x[:, :3] for x in VECTORS))
    with pytest.raises(TypeError, match="rows are alike"):
        run(ROWS, OUTPUT[..., :1], *VECTORS)
    with pytest.raises(NameError, match="unbound axis name"):
        exchange(jnp.ones(2), jnp.ones(2), *(x[0] for x in VECTORS))
