"""Who eats whom: a neural ODE learns the law by which hares and lynxes come and go. Equinox, Diffrax and Optax.

The data are the furs that the Hudson's Bay Company bought, 1900 to 1920. Nothing is told to the network but that there
is a law: d(log hares, log lynxes)/dt = network(log hares, log lynxes). It learns from the first years, then from more.

The error after 2000 steps is 18%, and 16% on JAX; other keys give 15 to 28% there, as rounding decides which steps the
solver takes. Processor time 11 s, 5 s with programs on disk; JAX 11 s.

python examples/hares.py
"""

import veery.as_jax  # without this line it runs on JAX

import time

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

FURS = np.array(  # thousands of hares and of lynxes
    [[30.0, 4.0], [47.2, 6.1], [70.2, 9.8], [77.4, 35.2], [36.3, 59.4], [20.6, 41.7], [18.1, 19.0], [21.4, 13.0],
     [22.0, 8.3], [25.4, 9.1], [27.1, 7.4], [40.3, 8.0], [57.0, 12.3], [76.6, 19.5], [52.3, 45.7], [19.5, 51.1],
     [11.2, 29.7], [7.6, 15.8], [14.6, 9.7], [16.2, 10.1], [24.7, 8.6]]
)  # fmt: skip
YEARS = np.arange(len(FURS), dtype=np.float32)
LOGS = np.log(FURS).astype(np.float32)
MEAN = LOGS.mean(axis=0)


class Law(eqx.Module):
    """How fast the logarithms of both numbers change, and what they were in 1900."""

    network: eqx.nn.MLP
    start: jax.Array

    def __init__(self, key):
        self.network = eqx.nn.MLP(2, 2, width_size=32, depth=2, activation=jax.nn.tanh, key=key)
        self.start = jnp.array(LOGS[0])

    def __call__(self, times):
        """The logarithms of both numbers at these times."""
        term = diffrax.ODETerm(lambda t, y, _: self.network(y - MEAN))
        control = diffrax.PIDController(rtol=1e-3, atol=1e-4)
        saved = diffrax.SaveAt(ts=times)
        return diffrax.diffeqsolve(
            term, diffrax.Tsit5(), times[0], times[-1], 0.2, self.start, saveat=saved, stepsize_controller=control
        ).ys


def loss(law, years):
    """The mean square of the errors of the first years."""
    return jnp.mean((law(YEARS) - LOGS) ** 2, where=(YEARS < years)[:, None])


def main():
    begin = time.perf_counter()
    law = Law(jax.random.key(0))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(5e-3, weight_decay=1e-3))

    @eqx.filter_jit
    def train(law, years):
        """250 steps."""
        arrays, rest = eqx.partition(law, eqx.is_array)

        def step(carry, _):
            arrays, state = carry
            value, gradient = eqx.filter_value_and_grad(loss)(eqx.combine(arrays, rest), years)
            updates, state = optimizer.update(gradient, state, arrays)
            return (eqx.apply_updates(arrays, updates), state), value

        (arrays, _), values = jax.lax.scan(step, (arrays, optimizer.init(arrays)), length=250)
        return eqx.combine(arrays, rest), values[-1]

    for years in (5, 5, 10, 10, 21, 21, 21, 21):
        law, value = train(law, jnp.array(years))
        print(f"{years:2} years: error {float(value) ** 0.5:5.1%}, {time.perf_counter() - begin:5.1f} s", flush=True)

    fitted = np.exp(law(YEARS))
    print("\n      hares (o) and lynxes (x), thousands; · what the law says")
    for year, seen, said in zip(YEARS, FURS, fitted):
        line = [" "] * 82
        for marks, numbers in (("··", said), ("ox", seen)):
            for mark, number in zip(marks, numbers):
                line[min(81, int(round(number)))] = mark
        print(f"{1900 + int(year)}  {''.join(line).rstrip()}")

    # The cycle that the law has, by itself, for the next two hundred years.
    later = np.asarray(law(np.linspace(0, 220, 2201, dtype=np.float32)))[200:, 0] - MEAN[0]
    rises = np.flatnonzero((later[:-1] < 0) & (later[1:] >= 0)) / 10
    if len(rises) > 2:
        print(f"\nleft to itself the law goes round once in {np.diff(rises).mean():.1f} years")
    print(f"total {time.perf_counter() - begin:.1f} s")
    assert value < 0.1


if __name__ == "__main__":
    main()
