"""What released libraries take from jaxlib, seen as `jaxlib` by programs in JAX's place. There is no jaxlib here.

As in `veery._src`, each name is one that veery has elsewhere, and goes when no library of the list takes it any longer.
"""

from veery.lib import __version__ as __version__

# The names, and who takes them.
USED = {
    "__version__": "exojax, scico",
    "_jax.PjitFunction": "gpjax, scico",
    "xla_client.Device": "jax_dataclasses, on which jaxlie is built",
}
