"""Ahead of time: functions compiled into one file that runs where neither veery nor a compiler is installed.

>>> import veery, veery.numpy as jnp, veery_runtime, numpy as np
>>> x = veery.ShapeDtypeStruct((3,), "float32")
>>> veery.aot.compile({"double": (lambda x: 2 * x, (x,)), "sine": (jnp.sin, (x,))}, out="model.vmfb")
>>> model = veery_runtime.load("model.vmfb")
>>> model.double(np.ones(3, np.float32))
array([2., 2., 2.], dtype=float32)
"""

from veery._api.artifacts import compile as compile, load as load
