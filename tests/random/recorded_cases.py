"""What is recorded of JAX's random numbers: functions of a package that is JAX or veery, and of a key."""

CASES = {
    "PRNGKey": lambda jax, k: jax.random.PRNGKey(1234567),
    "split": lambda jax, k: jax.random.split(k, 5),
    "split by shape": lambda jax, k: jax.random.split(k, (2, 3)),
    "fold_in": lambda jax, k: jax.random.fold_in(k, 77),
    "typed keys": lambda jax, k: jax.random.key_data(jax.random.split(jax.random.key(42), 3)),
    "bits": lambda jax, k: jax.random.bits(k, (7,)),
    "bits of 16": lambda jax, k: jax.random.bits(k, (5, 3), "uint16"),
    "bits of 8": lambda jax, k: jax.random.bits(k, (9,), "uint8"),
    "uniform": lambda jax, k: jax.random.uniform(k, (101,)),
    "uniform between": lambda jax, k: jax.random.uniform(k, (33,), minval=-3.0, maxval=5.0),
    "normal": lambda jax, k: jax.random.normal(k, (257,)),
    "randint": lambda jax, k: jax.random.randint(k, (50,), -7, 1000),
    "randint of 8 bits": lambda jax, k: jax.random.randint(k, (20,), 0, 100, "int8"),
    "bernoulli": lambda jax, k: jax.random.bernoulli(k, 0.3, (64,)),
    "permutation of a range": lambda jax, k: jax.random.permutation(k, 23),
    "permutation of rows": lambda jax, k: jax.random.permutation(k, jax.numpy.arange(12).reshape(6, 2)),
    "truncated normal": lambda jax, k: jax.random.truncated_normal(k, -1.0, 2.0, (40,)),
    "rademacher": lambda jax, k: jax.random.rademacher(k, (16,)),
    "choice": lambda jax, k: jax.random.choice(k, 10, (4,), replace=False),
    "under jit": lambda jax, k: jax.jit(lambda key: jax.random.normal(key, (3, 5)))(k),
    "under vmap": lambda jax, k: jax.vmap(lambda key: jax.random.uniform(key, (4,)))(jax.random.split(k, 3)),
    "under scan": lambda jax, k: jax.lax.scan(
        lambda key, _: (jax.random.split(key)[0], jax.random.bits(key, (2,))), k, None, length=4
    )[1],
    **{
        name: lambda jax, k, sampler=sampler: sampler(jax.random, k)
        for name, sampler in {
            "gumbel": lambda random, k: random.gumbel(k, (501,)),
            "logistic": lambda random, k: random.logistic(k, (501,)),
            "exponential": lambda random, k: random.exponential(k, (501,)),
            "laplace": lambda random, k: random.laplace(k, (501,)),
            "rayleigh": lambda random, k: random.rayleigh(k, 2.0, (501,)),
            "gamma": lambda random, k: random.gamma(k, 2.5, (501,)),
            "gamma below 1": lambda random, k: random.gamma(k, 0.5, (501,)),
            "loggamma": lambda random, k: random.loggamma(k, 2.0, (501,)),
            "beta": lambda random, k: random.beta(k, 2.0, 3.0, (501,)),
            "chisquare": lambda random, k: random.chisquare(k, 3.0, (501,)),
            "f": lambda random, k: random.f(k, 3.0, 4.0, (501,)),
            "t": lambda random, k: random.t(k, 3.0, (501,)),
            "generalized normal": lambda random, k: random.generalized_normal(k, 1.5, (501,)),
            "pareto": lambda random, k: random.pareto(k, 2.0, (501,)),
            "weibull": lambda random, k: random.weibull_min(k, 1.5, 2.0, (501,)),
            "lognormal": lambda random, k: random.lognormal(k, 1.0, (501,)),
            "complex normal": lambda random, k: random.normal(k, (501,), "complex64"),
        }.items()
    },
}
