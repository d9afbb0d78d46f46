"""The public names of JAX that veery has not, and why.

`tests/interface` holds this to what JAX 0.10.2 offers: each of its names is in veery, or here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

_INNER = "Deprecated in JAX, or its own: `jax.extend.core` has what libraries need."
_PRIVATE = "JAX's own, without documentation."
_HELPERS = "Functions of JAX's own that its module happens to show."
_TRACERS = "Of JAX's own tracers and evaluation, which are otherwise here."
_TYPED_SHARDINGS = "Shardings are no part of types here."
_HALVES = "Half of an exchange between devices: `ppermute` is the whole."
_PROCESSES = "Of several processes: there is one."
_TOPOLOGY = "Of TPUs: the order of their devices in a mesh."
_VALUES = "Values of the user's that functions are traced anew for: pass them as static arguments."
_EXTENDED = "Extended dtypes of the user's own: `veery.experimental.hijax` has types of the user's own."
_TRACES = "Reads traces in XLA's form: `veery.profiler` writes those of Perfetto."
_CUDNN = "Of cuDNN's networks: `lstm` is made of products and loops here."
_SETTING = "A setting without an effect here: of XLA, of checks that are always on, or of what is not there."
_JETS = "Rules for JAX's own tracers: here all that has a derivative rule has a series."
_COMPOSITION = "A primitive that is a composition of others here."
_XLA = "Belongs to XLA's compiler and runtime, which veery reaches through plugins alone."
_HINTS = "Orders operations for XLA's scheduler: IREE orders what it runs by itself."
_GENERATORS = "Generators of the user's own, or with a hidden state: `lax.rng_bit_generator` returns its next state."
_KERNELS = "IREE compiles no kernels written in Pallas, Mosaic or Triton; it makes its own from plain functions."
_TENSORFLOW = "A bridge to TensorFlow: `veery.export` and `veery.aot` make files that run elsewhere."
_TOOLS = "JAX's own tools for XLA; the `veery` command has those for IREE."
_TESTS = "For JAX's own tests."

# By module, then by reason.
NAMES: dict[str, dict[str, str]] = {
    "veery": {
        _SETTING: """
            allow_f16_reductions array_garbage_collection_guard jax2tf_associative_scan_reductions
        """,
        "Deprecated in JAX, for process_count, process_index and process_indices.": "host_count host_id host_ids",
        _TYPED_SHARDINGS: "auto_pcast remove_size_one_mesh_axis_from_type",
        _VALUES: "make_user_context",
    },
    "veery.core": {
        _INNER: """
            CallPrimitive JaxprPpContext JaxprPpSettings OutputType ParamDict aval_mapping_handlers call
            concretization_function_error custom_typechecks is_concrete is_constant_dim is_constant_shape
            literalable_types no_axis_name trace_ctx
        """,
    },
    "veery.custom_derivatives": {
        _COMPOSITION: "remat_opt_p",
    },
    "veery.example_libraries.optimizers": {
        _HELPERS: "map zip",
    },
    "veery.experimental": {
        _EXTENDED: "EArray primal_tangent_dtype",
    },
    "veery.experimental.jet": {
        _JETS: """
            JetTrace JetTracer ZeroSeries ZeroTerm call_param_updaters def_comp def_deriv deflinear defzero deriv_prop
            fact jet_fun jet_rules jet_subtrace linear_prop pjit traceable zero_prop zero_series zero_term
        """,
    },
    "veery.experimental.mesh_utils": {
        _TOPOLOGY: "device_kind_handler_dict",
    },
    "veery.experimental.multihost_utils": {
        _PROCESSES: """
            ProcessFailureError global_array_to_host_local_array_impl global_array_to_host_local_array_p
            gtl_abstract_eval host_local_array_to_global_array_impl host_local_array_to_global_array_p ltg_abstract_eval
            ltg_batcher
        """,
    },
    "veery.experimental.ode": {
        _HELPERS: "map ravel_first_arg_ zip",
    },
    "veery.experimental.rnn": {
        _CUDNN: "lstm_bwd lstm_fwd rnn_abstract_eval rnn_bwd_abstract_eval rnn_bwd_p rnn_fwd_p",
    },
    "veery.experimental.scheduling_groups": {
        _HELPERS: """
            attr_get dce_jaxpr_xla_metadata_rule map unsafe_map unsafe_zip xla_metadata_call_p zip
        """,
    },
    "veery.experimental.sparse": {
        _COMPOSITION: """
            bcoo_dot_general_p bcoo_dot_general_sampled_p bcoo_extract_p bcoo_fromdense_p bcoo_sort_indices_p
            bcoo_spdot_general_p bcoo_sum_duplicates_p bcoo_todense_p bcoo_transpose_p bcsr_dot_general_p bcsr_extract_p
            bcsr_fromdense_p bcsr_todense_p coo_fromdense_p coo_matmat_p coo_matvec_p coo_todense_p csr_fromdense_p
            csr_matmat_p csr_matvec_p csr_todense_p todense_p
        """,
        _TRACERS: "SparseTracer",
    },
    "veery.experimental.sparse.ad": {
        _TRACERS: "flatten_fun_for_sparse_ad",
    },
    "veery.experimental.sparse.bcoo": {
        _COMPOSITION: """
            bcoo_dot_general_p bcoo_dot_general_sampled_p bcoo_extract_p bcoo_fromdense_p bcoo_sort_indices_p
            bcoo_spdot_general_p bcoo_sum_duplicates_p bcoo_todense_p bcoo_transpose_p
        """,
        _TRACERS: "BCOOProperties Buffer CUSPARSE_DATA_DTYPES CUSPARSE_INDEX_DTYPES",
    },
    "veery.experimental.sparse.bcsr": {
        _COMPOSITION: "bcsr_dot_general_p bcsr_extract_p bcsr_fromdense_p bcsr_todense_p",
        _TRACERS: "BCSRProperties",
    },
    "veery.experimental.sparse.coo": {
        _COMPOSITION: "coo_fromdense_p coo_matmat_p coo_matvec_p coo_todense_p",
    },
    "veery.experimental.sparse.csr": {
        _COMPOSITION: "csr_fromdense_p csr_matmat_p csr_matvec_p csr_todense_p",
    },
    "veery.experimental.sparse.linalg": {
        _COMPOSITION: "spsolve_p",
    },
    "veery.experimental.sparse.transform": {
        _TRACERS: """
            SparseTrace SparseTracer SparsifyEnv SparsifyValue arrays_to_spvalues eval_sparse pjit sparse_rules_bcoo
            sparse_rules_bcsr sparsify_fun sparsify_raw sparsify_subtrace spvalues_to_arrays spvalues_to_avals
        """,
    },
    "veery.extend.backend": {
        _XLA: "clear_backends get_compile_options register_backend_factory",
    },
    "veery.extend.core": {
        _TRACERS: "CallPrimitive Token array_types call_impl",
    },
    "veery.extend.core.primitives": {
        _COMPOSITION: """
            add_jaxvals_p after_all_p approx_top_k_p create_token_p empty2_p ragged_all_to_all_p random_gamma_p
            select_and_scatter_p
        """,
        _GENERATORS: "rng_bit_generator_p rng_uniform_p",
    },
    "veery.extend.random": {
        _GENERATORS: "define_prng_impl",
    },
    "veery.extend.source_info_util": {
        _TRACERS: "NameStack new_name_stack set_name_stack transform_name_stack user_context",
    },
    "veery.interpreters": {
        _PRIVATE: "traceback_util",
    },
    "veery.interpreters.ad": {
        _COMPOSITION: "add_jaxvals_p",
    },
    "veery.interpreters.mlir": {
        "Of XLA's lowering: here `register_lowering`, `lower_fun`, `ir` and `hlo` make StableHLO for IREE.": """
            AxisContext ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters LoweringResult LoweringRule
            Mesh MeshAxisName ModuleContext RECV_FROM_HOST_TYPE SEND_TO_HOST_TYPE SPMDAxisContext
            ShapePolyLoweringState ShardingContext Token TokenSet Value aval_to_ir_types core_call_lowering
            dense_int_array dense_int_elements dtype_to_ir_type flatten_ir_types flatten_ir_values i32_attr i64_attr
            ir_attribute ir_constants ir_tree_registry ir_type_handlers jaxpr_subcomp lower_jaxpr_to_fun
            lower_jaxpr_to_module lowerable_effects make_ir_context merge_mlir_modules module_to_bytecode
            module_to_string register_constant_handler shape_tensor token_type unflatten_ir_values_like_types
        """,
    },
    "veery.interpreters.partial_eval": {
        _TRACERS: """
            Val custom_partial_eval_rules dce_jaxpr_call_rule dce_jaxpr_closed_call_rule dce_jaxpr_consts dce_rules
            partial_eval_jaxpr_custom_rules
        """,
    },
    "veery.interpreters.pxla": {
        _XLA: """
            ArrayMapping Index MeshAxisName MeshComputation MeshExecutable are_hlo_shardings_equal
            array_mapping_to_axis_resources create_compile_options global_aval_to_result_handler
            global_avals_to_results_handler global_result_handlers is_hlo_sharding_replicated op_sharding_to_indices
            thread_resources
        """,
    },
    "veery.interpreters.xla": {
        _XLA: "Backend",
    },
    "veery.lax": {
        _COMPOSITION: """
            after_all_p approx_top_k_p create_token_p ragged_all_to_all_p select_and_scatter_p stack_p stage_p tile_p
            unstack_p
        """,
        _GENERATORS: "rng_bit_generator_p rng_uniform rng_uniform_p",
        _HALVES: "precv psend",
    },
    "veery.lax.linalg": {
        _COMPOSITION: "cholesky_update_p symmetric_product_p",
    },
    "veery.profiler": {
        _TRACES: "ProfileData ProfileEvent ProfilePlane register_subprocess",
    },
    "veery.random": {
        _COMPOSITION: "random_gamma_p",
    },
}

# Of whole modules, with what is in them.
MODULES: dict[str, str] = {
    _TENSORFLOW: "veery.experimental.jax2tf",
    _XLA: """
        veery.cloud_tpu_init veery.experimental.buffer_callback veery.experimental.topologies
        veery.experimental.transfer veery.extend.lowering veery.extend.mlir veery.extend.sharding veery.extend.xla
    """,
    _TESTS: "veery.experimental.sparse.test_util",
    _KERNELS: """
        veery.experimental.fused veery.experimental.mosaic veery.extend.pallas
    """,
    _TOOLS: """
        veery.collect_profile veery.experimental.roofline veery.experimental.source_mapper veery.tools
    """,
    _HINTS: "veery.experimental.control_deps",
    _TRACES: "veery.experimental.profiler",
}


# Of modules that can be imported, without what they have in JAX.
EMPTY = {"veery.experimental.pallas": _KERNELS}


def module_reason(name: str) -> str | None:
    """Why a module of JAX, named as one of veery's, is not there; None if that is not known."""
    return next((why for why, modules in MODULES.items() if any(_is_in(name, m) for m in modules.split())), None)


def empty_reason(name: str) -> str | None:
    """Why nothing is in a module that can be imported; None of others."""
    return next((why for module, why in EMPTY.items() if _is_in(name, module)), None)


def _is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def name_reason(module: str, name: str) -> str | None:
    """Why a name of a module is not there; None if JAX has none either."""
    groups = NAMES.get(module, {}).items()
    found = next((why for why, names in groups if name in names.split()), None)
    return found or module_reason(f"{module}.{name}") or empty_reason(module)


def attributes(module: str, lazy: str = "") -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a module.

    Args:
        module: its name.
        lazy: names of submodules that are imported when they are first used.

    Returns:
        A function that gives a submodule, or says why JAX's attribute of this name is not there, and one that lists all
        attributes.
    """
    submodules = lazy.split()

    def get(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{module}.{name}")
        why = name_reason(module, name)
        message = f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else "")
        raise AttributeError(message, name=name, obj=sys.modules[module])

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *submodules})

    return get, names
