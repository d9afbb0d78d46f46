"""What released libraries take from JAX's private modules, seen as `jax._src` by programs in JAX's place.

Nothing is defined here that veery does not have elsewhere: each module re-exports what is named after libraries in
USED, and no more. A name goes when no library of this list takes it any longer.
"""

from veery._core.absent import attributes as _attributes

# The names, and who takes them.
USED = {
    "ad_util.stop_gradient_p": "lineax",
    "checkify.Error": "flax",
    "checkify.JaxException": "flax",
    "checkify.Out": "flax",
    "checkify.checkify": "flax",
    "checkify.user_checks": "flax",
    "compiler.backend_compile_and_load": "chex, which puts its own in its place",
    "core.ShapedArray": "flax",
    "core.trace_state_clean": "flax, numpyro",
    "dispatch.wait_for_tokens": "equinox",
    "distributed.global_state": "orbax-checkpoint",
    "dtypes.DType": "flax",
    "dtypes.ExtendedDType": "flax",
    "dtypes.TypePromotionError": "equinox",
    "dtypes.extended": "flax",
    "dtypes.finfo": "flax",
    "dtypes.supports_inf": "flax",
    "flatten_util.ravel_pytree": "blackjax",
    "interpreters.ad.CustomVJPException": "the tests of diffrax",
    "state.types.AbstractRef": "flax",
    "traceback_util._exclude_paths": "flax",
    "traceback_util.api_boundary": "flax",
    "traceback_util.include_frame": "equinox",
    "traceback_util.register_exclusion": "equinox, flax, jaxtyping",
    "tree_util._registry": "flax",
    "tree_util.flatten_one_level": "orbax-checkpoint",
    "tree_util.prefix_errors": "flax",
    "util.safe_map": "JAX's documentation of interpreters",
    "xla_bridge._backends": "chex",
}

__getattr__, __dir__ = _attributes(__name__, " ".join({name.partition(".")[0] for name in USED}))
