"""Does coaching raise test scores? Eight schools, a hierarchical model, sampled by NUTS in NumPyro.

The data are those of Rubin (1981): in each of eight schools the estimated effect of coaching on the SAT, and the
standard error of the estimate. Are schools alike or not? How much they differ is itself estimated.

r-hat is 1.001, 8,000 samples are worth some 6,000. Processor time 11 s, 3 s with programs on disk; JAX 11 s.

python examples/schools.py
"""

import veery.as_jax  # without this line it runs on JAX

import time

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS, Predictive

SCHOOLS = "ABCDEFGH"
EFFECT = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERROR = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def model(error, effect=None):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(error)):
        # As mean + spread * z: where the spread is small, z can still move freely.
        z = numpyro.sample("z", dist.Normal(0, 1))
        true = numpyro.deterministic("true", mean + spread * z)
        numpyro.sample("effect", dist.Normal(true, error), obs=effect)


def main():
    begin = time.perf_counter()
    sampler = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=1000,
        num_samples=2000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(0), ERROR, EFFECT)
    samples = sampler.get_samples()
    figures = summary(sampler.get_samples(group_by_chain=True))
    print(f"school  estimate   posterior {'(nine tenths of it, | the mean)':>34}")
    for school, effect, error, true in zip(SCHOOLS, EFFECT, ERROR, np.asarray(samples["true"]).T):
        ends = np.quantile(true, [0.05, 0.95])
        low, middle, high = (int(round(v)) + 15 for v in (ends[0], true.mean(), ends[1]))
        line = "".join("|" if i == middle else "·" if low <= i <= high else " " for i in range(45))
        print(f"   {school}    {effect:3.0f} ± {error:2.0f}   {true.mean():4.1f} ± {true.std():3.1f}  {line}")
    mean, spread = samples["mean"], samples["spread"]
    print(f"mean of all schools {mean.mean():.2f} ± {mean.std():.2f}")
    print(f"they differ by      {spread.mean():.2f} ± {spread.std():.2f}")
    worst = max(float(np.max(f["r_hat"])) for f in figures.values())
    fewest = min(float(np.min(f["n_eff"])) for f in figures.values())
    diverged = int(sampler.get_extra_fields()["diverging"].sum())
    print(f"8,000 samples, worth at least {fewest:,.0f}; r-hat at most {worst:.3f}; {diverged} diverged")
    again = Predictive(model, samples)(jax.random.key(1), ERROR)["effect"]
    print(f"a new study of school A finds less than its 28 with probability {np.mean(again[:, 0] < 28):.2f}")
    print(f"total {time.perf_counter() - begin:.1f} s")
    # Means of a run a hundred times as long.
    assert abs(mean.mean() - 4.4) < 0.4 and abs(spread.mean() - 3.6) < 0.4 and worst < 1.02


if __name__ == "__main__":
    main()
