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
    "core.AbstractValue": "quax",
    "core.ClosedJaxpr": "asdex",
    "core.Jaxpr": "asdex",
    "core.JaxprEqn": "asdex",
    "core.Literal": "asdex",
    "core.ShapedArray": "flax, quadax, quax",
    "core.Trace": "quax",
    "core.TraceTag": "quax",
    "core.Tracer": "quax",
    "core.Var": "asdex",
    "core.jaxpr_as_fun": "quax",
    "core.set_current_trace": "quax",
    "core.take_current_trace": "quax",
    "core.trace_state_clean": "flax, numpyro",
    "dispatch.wait_for_tokens": "equinox",
    "distributed.global_state": "orbax-checkpoint",
    "dtypes.DType": "flax",
    "dtypes.ExtendedDType": "flax",
    "dtypes.TypePromotionError": "equinox",
    "dtypes.extended": "flax",
    "dtypes.finfo": "flax",
    "dtypes.supports_inf": "flax",
    "dtypes.to_complex_dtype": "tinygp",
    "flatten_util.ravel_pytree": "blackjax",
    "interpreters.ad.CustomVJPException": "the tests of diffrax",
    "interpreters.batching.is_vmappable": "jaxoplanet",
    "interpreters.partial_eval.dce_jaxpr": "asdex",
    "literals.TypedComplex": "quax",
    "literals.TypedFloat": "quax",
    "literals.TypedInt": "quax",
    "numpy.util.promote_dtypes_complex": "s2fft",
    "numpy.util.promote_dtypes_inexact": "orthax",
    "pjit.auto_axes": "jaxns",
    "pjit.jit_p": "quax",
    "public_test_util.check_close": "jaxoplanet, tinygp",
    "scipy.special.gammaln": "jaxns",
    "scipy.special.logsumexp": "jaxns",
    "sharding_impls.canonicalize_sharding": "jaxns",
    "state.types.AbstractRef": "flax",
    "traceback_util._exclude_paths": "flax",
    "traceback_util.api_boundary": "flax",
    "traceback_util.include_frame": "equinox",
    "traceback_util.register_exclusion": "equinox, flax, jaxtyping",
    "tree_util._registry": "flax, jaxlie",
    "tree_util.flatten_one_level": "orbax-checkpoint",
    "tree_util.prefix_errors": "flax",
    "typing.SupportsDType": "jaxns",
    "util.safe_map": "JAX's documentation of interpreters",
    "xla_bridge._backends": "chex",
}

__getattr__, __dir__ = _attributes(__name__, " ".join({name.partition(".")[0] for name in USED}))
