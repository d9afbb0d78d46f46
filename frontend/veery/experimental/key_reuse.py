"""Random keys that are used twice.

There is nothing to call: the setting `jax_debug_key_reuse`, or `veery.debug_key_reuse(True)` for a block, has programs
looked through before they run, and remembers of arrays of keys (as `veery.random.key` makes them, not of raw ones)
which have been used. `split` and all that samples use a key; `fold_in` and `clone` do not.

>>> import veery
>>> key = veery.random.key(0)
>>> with veery.debug_key_reuse(True):
...     first = veery.random.normal(key)
...     second = veery.random.normal(key)
Traceback (most recent call last):
    ...
veery.errors.KeyReuseError: Previously-consumed key passed to jit-compiled function at index 0
The key was first used...
"""
