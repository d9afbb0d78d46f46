"""A folder for PYTHONPATH: what Python runs when it starts, in the children of a program in JAX's place."""
