"""Random numbers: pure functions of explicit keys.

>>> import veery.random
>>> key = veery.random.key(0)
>>> key, subkey = veery.random.split(key)
>>> veery.random.normal(subkey, (3,)).shape
(3,)
"""

from veery.random._keys import PRNGKey as PRNGKey
from veery.random._keys import clone as clone
from veery.random._keys import fold_in as fold_in
from veery.random._keys import key as key
from veery.random._keys import key_data as key_data
from veery.random._keys import key_impl as key_impl
from veery.random._keys import split as split
from veery.random._keys import wrap_key_data as wrap_key_data
from veery.random._uniform import bernoulli as bernoulli
from veery.random._uniform import bits as bits
from veery.random._uniform import normal as normal
from veery.random._uniform import rademacher as rademacher
from veery.random._uniform import randint as randint
from veery.random._uniform import truncated_normal as truncated_normal
from veery.random._uniform import uniform as uniform
