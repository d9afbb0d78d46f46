"""Random numbers: pure functions of explicit keys.

>>> import veery.random
>>> key = veery.random.key(0)
>>> key, subkey = veery.random.split(key)
>>> veery.random.normal(subkey, (3,)).shape
(3,)
"""

from veery.random._continuous import cauchy as cauchy
from veery.random._continuous import double_sided_maxwell as double_sided_maxwell
from veery.random._continuous import exponential as exponential
from veery.random._continuous import gumbel as gumbel
from veery.random._continuous import laplace as laplace
from veery.random._continuous import logistic as logistic
from veery.random._continuous import lognormal as lognormal
from veery.random._continuous import maxwell as maxwell
from veery.random._continuous import multivariate_normal as multivariate_normal
from veery.random._continuous import orthogonal as orthogonal
from veery.random._continuous import pareto as pareto
from veery.random._continuous import rayleigh as rayleigh
from veery.random._continuous import triangular as triangular
from veery.random._continuous import wald as wald
from veery.random._continuous import weibull_min as weibull_min
from veery.random._discrete import binomial as binomial
from veery.random._discrete import geometric as geometric
from veery.random._discrete import multinomial as multinomial
from veery.random._discrete import poisson as poisson
from veery.random._gamma import ball as ball
from veery.random._gamma import beta as beta
from veery.random._gamma import chisquare as chisquare
from veery.random._gamma import dirichlet as dirichlet
from veery.random._gamma import f as f
from veery.random._gamma import gamma as gamma
from veery.random._gamma import generalized_normal as generalized_normal
from veery.random._gamma import loggamma as loggamma
from veery.random._gamma import t as t
from veery.random._keys import PRNGKey as PRNGKey
from veery.random._keys import clone as clone
from veery.random._keys import fold_in as fold_in
from veery.random._keys import key as key
from veery.random._keys import key_data as key_data
from veery.random._keys import key_dtype as key_dtype
from veery.random._keys import key_impl as key_impl
from veery.random._keys import split as split
from veery.random._keys import wrap_key_data as wrap_key_data
from veery.random._sampling import categorical as categorical
from veery.random._sampling import choice as choice
from veery.random._sampling import permutation as permutation
from veery.random._uniform import bernoulli as bernoulli
from veery.random._uniform import bits as bits
from veery.random._uniform import normal as normal
from veery.random._uniform import rademacher as rademacher
from veery.random._uniform import randint as randint
from veery.random._uniform import truncated_normal as truncated_normal
from veery.random._uniform import uniform as uniform
