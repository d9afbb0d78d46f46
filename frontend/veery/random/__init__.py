"""Random numbers: pure functions of explicit keys.

>>> import veery.random
>>> key = veery.random.key(0)
>>> key, subkey = veery.random.split(key)
>>> veery.random.normal(subkey, (3,)).shape
(3,)
"""

from veery._core.absent import attributes as _attributes
from veery.random._continuous import (
    cauchy as cauchy,
    double_sided_maxwell as double_sided_maxwell,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    lognormal as lognormal,
    maxwell as maxwell,
    multivariate_normal as multivariate_normal,
    orthogonal as orthogonal,
    pareto as pareto,
    rayleigh as rayleigh,
    triangular as triangular,
    wald as wald,
    weibull_min as weibull_min,
)
from veery.random._discrete import (
    binomial as binomial,
    geometric as geometric,
    multinomial as multinomial,
    poisson as poisson,
)
from veery.random._gamma import (
    ball as ball,
    beta as beta,
    chisquare as chisquare,
    dirichlet as dirichlet,
    f as f,
    gamma as gamma,
    generalized_normal as generalized_normal,
    loggamma as loggamma,
    t as t,
)
from veery.random._keys import (
    PRNGKey as PRNGKey,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)
from veery.random._sampling import categorical as categorical, choice as choice, permutation as permutation
from veery.random._uniform import (
    bernoulli as bernoulli,
    bits as bits,
    normal as normal,
    rademacher as rademacher,
    randint as randint,
    truncated_normal as truncated_normal,
    uniform as uniform,
)

__getattr__, __dir__ = _attributes(__name__)
