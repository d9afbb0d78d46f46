"""Which tests test which source files: those of the file's name, or those that ROWS names."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ROOTS = [ROOT / "frontend", ROOT / "lowering", ROOT / "runtime"]

# Where the test of a file's name is: tests/core/test_tree.py is that of veery/_core/tree.py. Files of the same name in
# several folders of an area have a row each.
AREAS = {
    "veery/_core/": "core",
    "veery/_transforms/": "transforms",
    "veery/_api/": "transforms",
    "veery/_reference/": "reference",
    "veery/_cli/": "cli",
    "veery/lax/": "transforms",
    "veery/nn/": "nn",
    "veery/scipy/": "scipy",
    "veery/numpy/": "numpy",
    "veery/": "aot",
    "veery_lowering/": "lowering",
    "veery_runtime/": "runtime",
}

# Of the other files: a pattern of their names, without folders that may change ("*"), and the tests that run through
# them. Each of these runs functions of each of the files, or starts the processes that do.
ROWS = {
    # The frontend: what users call.
    "veery/_distributed": "sharding/test_shard_map sharding/test_layouts transforms/test_pmap",
    "veery/_dispatch": "dispatch/test_calls dispatch/test_placement dispatch/test_processes",
    "veery/profiler": "dispatch/test_profiler",
    "veery/_api/chrome_trace": "dispatch/test_profiler",
    "veery/_api/memory_profile": "dispatch/test_profiler",
    "veery/_core/recording": "dispatch/test_profiler",
    "veery/_in_place": "interface/test_as_jax",
    "veery/_startup/sitecustomize": "interface/test_as_jax",
    "veery/version": "interface/test_as_jax",
    "veery/experimental/jet": "experimental/test_jet",
    "veery/experimental/rnn": "experimental/test_rnn",
    "veery/experimental/sparse/*": "experimental/test_sparse",
    "veery/experimental/compilation_cache/*": "experimental/test_compilation_cache",
    "veery/experimental/compute_on": "experimental/test_hints",
    "veery/_core/memory": "dispatch/test_memories",
    "veery/_api/shard_values": "sharding/test_shard_map",
    "veery/_core/slices": "numpy/test_dynamic_slices",
    "veery/_transforms/spaces": "dispatch/test_memories",
    "veery/experimental/scheduling_groups": "experimental/test_hints",
    "veery/experimental/random": "experimental/test_stateful_rng",
    "veery/experimental/shard_alike": "experimental/test_hints",
    "veery/experimental/serialize_executable": "dispatch/test_serialized",
    "veery/_api/serialized": "dispatch/test_serialized",
    "veery/experimental/xla_metadata": "experimental/test_xla_metadata",
    "veery/experimental/ode": "experimental/test_ode",
    "veery/example_libraries/*": "experimental/test_example_libraries",
    "veery/_src/*": "interface/test_private",
    "veery/api_util": "interface/test_private",
    "veery/_transforms/partial": "interface/test_private",
    "veery/ffi": "dispatch/test_ffi",
    "veery/lax/_ffi": "dispatch/test_ffi",
    "veery_runtime/foreign/*": "dispatch/test_ffi",
    "veery/distributed": "sharding/test_layouts",
    "veery/experimental/custom_partitioning": "sharding/test_layouts",
    "veery/experimental/layout": "sharding/test_recorded_shardings sharding/test_layouts",
    "veery/experimental/mesh_utils": "sharding/test_recorded_shardings",
    "veery/experimental/multihost_utils": "sharding/test_recorded_shardings",
    "veery/experimental/pjit": "sharding/test_recorded_shardings",
    "veery/experimental/shard_map": "sharding/test_recorded_shardings",
    "veery/dlpack": "numpy/test_segments numpy/test_input_output",
    "veery/flatten_util": "test_flatten_util",
    "veery/ops": "numpy/test_segments",
    "veery/experimental/colocated_python/*": "experimental/test_colocated_python",
    "veery/core": "transforms/test_extending",
    "veery/extend/*": "transforms/test_extending",
    "veery/interpreters/*": "transforms/test_extending",
    "veery/_api/__init__": "reference/test_verification cli/test_commands",
    "veery/_api/arguments": "transforms/test_staging dispatch/test_calls",
    "veery/_api/meshes": "sharding/test_recorded_shardings sharding/test_shard_map",
    "veery/_api/placed": "sharding/test_recorded_shardings",
    "veery/_api/shard_map": "sharding/test_shard_map sharding/test_recorded_shardings",
    "veery/_api/sharded_arrays": "sharding/test_recorded_shardings sharding/test_layouts",
    "veery/_api/sharding_pictures": "sharding/test_layouts",
    "veery/_api/artifacts": "aot/test_artifact",
    "veery/_api/autodiff": "transforms/test_compositions transforms/test_custom_rules",
    "veery/_api/autotune": "dispatch/test_compiler_options",
    "veery/_api/cache_misses": "transforms/test_debugging",
    "veery/_api/checker": "transforms/test_checkify",
    "veery/_api/checkpoint": "transforms/test_remat",
    "veery/_api/custom_*": "transforms/test_custom_rules",
    "veery/_api/linear_call": "transforms/test_custom_rules",
    "veery/_api/entries": "aot/test_artifact aot/test_symbolic",
    "veery/_api/environment": "transforms/test_debugging",
    "veery/_api/gradient_checks": "transforms/test_extending transforms/test_ragged",
    "veery/_api/highlighting": "cli/test_highlighting",
    "veery/_api/inspection": "transforms/test_staging",
    "veery/_api/jit": "dispatch/test_calls transforms/test_staging",
    "veery/_api/named_call": "transforms/test_extending",
    "veery/_api/page": "cli/test_page",
    "veery/_api/visualization": "cli/test_page",
    "veery/_api/platforms": "dispatch/test_placement",
    "veery/_api/pmap": "transforms/test_pmap",
    "veery/_api/placement": "dispatch/test_placement",
    "veery/_api/rule_tables": "transforms/test_extending",
    "veery/_api/shape_structs": "transforms/test_staging aot/test_export",
    "veery/_api/source_lines": "cli/test_commands cli/test_page",
    "veery/_api/stages": "aot/test_export dispatch/test_compiler_options",
    "veery/_api/structures": "aot/test_artifact aot/test_export",
    "veery/_api/fast_calls": "dispatch/test_calls",
    "veery/_api/vectorize": "transforms/test_compositions transforms/test_transform_errors",
    "veery/_api/verify": "reference/test_verification",
    "veery/_cli/libraries": "cli/test_libraries",
    "veery/_cli/as_jax": "interface/test_as_jax",
    "veery/_cli/*": "cli/test_commands",
    # Its middle.
    "veery/_core/ad": "transforms/test_custom_rules transforms/test_extending",
    "veery/_core/array": "numpy/test_array_methods numpy/test_input_output",
    "veery/_core/absent": "interface/test_names",
    "veery/_core/avals": "primitives/test_elementwise primitives/test_structural",
    "veery/_core/cost": "cli/test_commands dispatch/test_compiler_options",
    "veery/_core/flat": "transforms/test_custom_rules transforms/test_compositions",
    "veery/_core/device": "vulkan/test_lost_devices",
    "veery/_core/host": "dispatch/test_host_evaluation",
    "veery/_core/compiler_options": "dispatch/test_compiler_options",
    "veery/_core/effects": "transforms/test_callbacks",
    "veery/_core/jaxpr": "transforms/test_compositions transforms/test_control_flow",
    "veery/_core/leaks": "transforms/test_debugging",
    "veery/_core/pretty": "transforms/test_staging transforms/test_control_flow",
    "veery/_core/primitive": "transforms/test_extending",
    "veery/_core/promotion": "core/test_dtypes numpy/test_promotion",
    "veery/_core/hitypes": "transforms/test_hijax",
    "veery/_core/refs": "transforms/test_refs",
    "veery/_core/shapes": "primitives/test_structural numpy/test_functions",
    "veery/_core/layout": "sharding/test_recorded_shardings sharding/test_layouts",
    "veery/_core/mesh": "sharding/test_recorded_shardings",
    "veery/_core/partition_spec": "sharding/test_recorded_shardings",
    "veery/_core/sharding": "sharding/test_layouts dispatch/test_placement",
    "veery/_core/trace": "transforms/test_extending transforms/test_compositions",
    "veery/_core/transfers": "transforms/test_debugging",
    "veery/_core/tree_*": "core/test_tree",
    "veery/_eager/*": "dispatch/test_host_evaluation dispatch/test_library_programs",
    "veery/_reference/*": "reference/test_evaluation reference/test_verification",
    "veery/_reference/agreement": "xla/test_second_opinion",
    "veery/_transforms/batching": "transforms/test_compositions transforms/test_collectives",
    "veery/_transforms/calls": "transforms/test_compositions",
    "veery/_transforms/costs": "cli/test_commands dispatch/test_compiler_options",
    "veery/_transforms/dce": "transforms/test_remat transforms/test_callbacks",
    "veery/_transforms/expansion": "transforms/test_extending",
    "veery/_transforms/float0": "transforms/test_float0 aot/test_export",
    "veery/_transforms/foreign": "aot/test_stablehlo",
    "veery/_transforms/high": "transforms/test_hijax",
    "veery/_transforms/discharge": "transforms/test_refs",
    "veery/_transforms/jvp": "transforms/test_custom_rules transforms/test_control_flow",
    "veery/_transforms/linearize": "transforms/test_custom_rules transforms/test_control_flow",
    "veery/_transforms/parts": "sharding/test_shard_map",
    "veery/_transforms/explicit": "sharding/test_explicit",
    "veery/lax/_explicit": "sharding/test_explicit",
    "veery/_transforms/varying": "sharding/test_recorded_shardings sharding/test_shard_map",
    "veery/_transforms/transpose": "transforms/test_custom_rules transforms/test_control_flow",
    # Its operations.
    "veery/lax/_samples": "primitives/test_elementwise random/test_recorded",
    "veery/lax/_arithmetic": "primitives/test_elementwise",
    "veery/lax/_associative": "transforms/test_control_flow",
    "veery/lax/_barrier": "primitives/test_structural lowering/test_barriers",
    "veery/lax/_bit_generator": "experimental/test_bit_generators",
    "veery/lax/_bitwise": "primitives/test_elementwise",
    "veery/lax/_bodies": "transforms/test_control_flow",
    "veery/lax/_callback": "transforms/test_callbacks",
    "veery/lax/_carry": "transforms/test_control_flow transforms/test_transform_errors",
    "veery/lax/_check": "transforms/test_checkify",
    "veery/lax/_compare": "primitives/test_elementwise",
    "veery/lax/_cond": "transforms/test_control_flow transforms/test_nestings",
    "veery/lax/_contract": "primitives/test_structural",
    "veery/lax/_conv": "primitives/test_structural",
    "veery/lax/_conv_dims": "primitives/test_structural",
    "veery/lax/_convert": "primitives/test_elementwise",
    "veery/lax/_ragged_exchange": "sharding/test_ragged_exchange",
    "veery/lax/_custom_partitioning": "sharding/test_layouts",
    "veery/lax/_exchange": "transforms/test_pmap sharding/test_shard_map",
    "veery/lax/_placement": "sharding/test_recorded_shardings",
    "veery/lax/_shard_map": "sharding/test_recorded_shardings sharding/test_shard_map",
    "veery/lax/_cumulative": "primitives/test_structural",
    "veery/lax/_computation": "primitives/test_structural",
    "veery/lax/_custom_vmap": "transforms/test_custom_rules",
    "veery/lax/_debug": "transforms/test_callbacks",
    "veery/lax/_declare": "primitives/test_elementwise",
    "veery/lax/_dimension": "transforms/test_ordering core/test_dimensions aot/test_symbolic",
    "veery/lax/_fft": "numpy/test_fft",
    "veery/lax/_complex_reference": "primitives/test_complex_reference",
    "veery/lax/_fft_reference": "primitives/test_fft_reference",
    "veery_lowering/addresses": "lowering/test_routines",
    "veery/lax/_lapack": "primitives/test_lapack",
    "veery/lax/_openblas": "primitives/test_openblas",
    "veery/lax/_blas": "primitives/test_blas",
    "veery/lax/_threads": "primitives/test_threads",
    "veery/lax/_linalg_reference": "primitives/test_lapack primitives/test_linalg_primitives",
    "veery/lax/_scipy_extensions": "primitives/test_fft_reference",
    "veery/lax/_fill": "primitives/test_structural",
    "veery/lax/_gather_scatter*": "primitives/test_structural",
    "veery/lax/_linalg_*": "primitives/test_linalg_primitives",
    "veery/lax/_map": "transforms/test_control_flow",
    "veery/lax/_matrix": "numpy/test_linalg primitives/test_linalg_primitives",
    "veery/lax/_on_host": "dispatch/test_host_evaluation",
    "veery/lax/_host_reductions": "dispatch/test_host_reductions",
    "veery/lax/_operands": "primitives/test_elementwise",
    "veery/lax/_operations": "transforms/test_control_flow numpy/test_linalg",
    "veery/lax/_parallel": "transforms/test_collectives",
    "veery/lax/_pmap": "transforms/test_pmap",
    "veery/lax/_platform": "transforms/test_control_flow",
    "veery/lax/_reduce": "primitives/test_structural",
    "veery/lax/_refs": "transforms/test_refs",
    "veery/lax/_ref_indexing": "transforms/test_refs",
    "veery/lax/_control_refs": "transforms/test_refs",
    "veery/lax/_reference": "primitives/test_elementwise",
    "veery/lax/_rng": "random/test_recorded",
    "veery/lax/_scan": "transforms/test_control_flow transforms/test_nestings",
    "veery/lax/_scan_residuals": "transforms/test_control_flow transforms/test_remat",
    "veery/lax/_shape": "primitives/test_structural",
    "veery/lax/_slicing": "primitives/test_structural",
    "veery/lax/_solve": "transforms/test_control_flow",
    "veery/lax/_sort": "primitives/test_structural",
    "veery/lax/_special*": "primitives/test_elementwise",
    "veery/lax/_stop_gradient": "transforms/test_custom_rules",
    "veery/lax/_transcendental": "primitives/test_elementwise",
    "veery/lax/_while": "transforms/test_control_flow transforms/test_nestings",
    "veery/lax/_window": "primitives/test_structural",
    "veery/nn/*": "nn/test_activations",
    "veery/numpy/*": "numpy/test_function_table numpy/test_function_gradients numpy/test_functions",
    "veery/numpy/_at": "numpy/test_indexing",
    "veery/numpy/_index_expressions": "numpy/test_indexing",
    "veery/numpy/_interchange": "numpy/test_input_output",
    "veery/numpy/_operators": "numpy/test_array_methods",
    "veery/numpy/_promotion": "numpy/test_promotion",
    "veery/image": "scipy/test_against_scipy scipy/test_compiled_functions scipy/test_recorded_functions",
    "veery/scipy/*": "scipy/test_against_scipy scipy/test_compiled_functions scipy/test_recorded_functions",
    "veery/scipy/special/*": "scipy/test_special",
    "veery/scipy/stats/*": "scipy/test_stats",
    "veery/scipy/__init__": "scipy/test_special",
    "veery/random/_continuous": "random/test_distributions",
    "veery/random/_discrete": "random/test_distributions",
    "veery/random/_gamma": "random/test_distributions",
    "veery/random/_keys": "random/test_recorded",
    "veery/random/_sampling": "random/test_recorded",
    "veery/random/_uniform": "random/test_recorded",
    # The lowering.
    "veery_lowering/__init__": "lowering/test_compiler",
    "veery_lowering/errors": "lowering/test_isolation lowering/test_donation",
    "veery_lowering/host": "lowering/test_links lowering/test_sort",
    "veery_lowering/lowered": "lowering/test_inspection lowering/test_contract",
    "veery_lowering/mlir": "lowering/test_compiler lowering/test_translation",
    "veery_lowering/program": "lowering/test_compiler lowering/test_links",
    "veery_lowering/reading": "lowering/test_translation aot/test_stablehlo",
    "veery_lowering/spelling": "lowering/test_float8 lowering/test_isolation",
    "veery_lowering/types": "lowering/test_shape lowering/test_float8",
    "veery_lowering/*compile": "lowering/test_compiler",
    "veery_lowering/*helper": "lowering/test_isolation",
    "veery_lowering/*sessions": "lowering/test_isolation",
    "veery_lowering/*progress": "lowering/test_steps",
    "veery_lowering/*tuning": "dispatch/test_compiler_options",
    "veery_lowering/*composition": "lowering/test_kernels",
    "veery_lowering/emit/foreign": "lowering/test_translation aot/test_stablehlo",
    "veery_lowering/emit/narrow": "experimental/test_narrow_dtypes",
    "veery_lowering/*registry": "lowering/test_module",
    "veery_lowering/*symbolic": "aot/test_symbolic",
    "veery_lowering/emit/vhlo": "lowering/test_portable",
    "veery_lowering/*versioned": "aot/test_stablehlo",
    "veery_lowering/*single": "gpu/test_primitives",
    "veery_lowering/*numerics/*": "lowering/test_elementwise_numerics primitives/test_elementwise_compiled",
    "veery_lowering/*rules/*": "primitives/test_structural_compiled primitives/test_elementwise_compiled",
    "veery_lowering/*rules/callback": "transforms/test_callbacks",
    "veery_lowering/*rules/contract": "lowering/test_contract",
    "veery_lowering/*rules/convert": "lowering/test_elementwise_numerics",
    "veery_lowering/*rules/control_flow": "lowering/test_control_flow_lowering",
    "veery_lowering/*rules/foreign": "lowering/test_translation aot/test_stablehlo",
    "veery_lowering/*rules/linalg": "numpy/test_linalg lowering/test_kernels",
    "veery_lowering/*rules/parallel": "transforms/test_pmap",
    "veery_lowering/*rules/stop_gradient": "lowering/test_fusion lowering/test_kernels",
    "veery_lowering/kernels/*": "lowering/test_kernels lowering/test_kernel_bodies lowering/test_moves",
    "veery_lowering/*effects": "lowering/test_passes",
    "veery_lowering/*pipeline": "lowering/test_passes",
    "veery_lowering/passes/changes": "lowering/test_isolation",
    "veery_lowering/*stablehlo/constants": "lowering/test_kernels lowering/test_aliasing",
    "veery_lowering/*crossings": "lowering/test_translation lowering/test_gather_scatter",
    "veery_lowering/*lookups": "lowering/test_slicing",
    "veery_lowering/*paddings": "lowering/test_slicing aot/test_stablehlo",
    "veery_lowering/*strides": "lowering/test_slicing",
    "veery_lowering/*stablehlo/loops": "lowering/test_loops",
    "veery_lowering/*widened": "lowering/test_races lowering/test_passes",
    "veery_lowering/*shaders/*": "gpu/test_primitives gpu/test_programs gpu/test_modules",
    "veery_lowering/passes/spirv/nan": "vulkan/test_targets",
    "veery_lowering/*overwriting": "lowering/test_donation lowering/test_passes",
    "veery_lowering/*captures": "lowering/test_carries",
    "veery_lowering/passes/stream/arguments": "lowering/test_donation",
    "veery_lowering/*allocation": "lowering/test_passes",
    "veery_lowering/*vm/calls": "lowering/test_passes lowering/test_queues",
    "veery_lowering/*vm/dispatches": "lowering/test_passes lowering/test_isolation",
    "veery_lowering/stablehlo/*": "primitives/test_structural_compiled aot/test_symbolic lowering/test_translation",
    "veery_lowering/*fingerprint": "lowering/test_links",
    "veery_lowering/*machine": "lowering/test_cache lowering/test_aliasing",
    "veery_lowering/targets/*": "lowering/test_compiler lowering/test_passes lowering/test_races",
    # The runtime.
    "veery_runtime/artifact": "runtime/test_container runtime/test_damage aot/test_artifact",
    "veery_runtime/buffer_protocol": "numpy/test_array_methods transforms/test_callbacks",
    "veery_runtime/completion": "runtime/test_executable",
    "veery_runtime/cpu": "aot/test_artifact",
    "veery_runtime/cpu_device": "runtime/test_process runtime/test_executable",
    "veery_runtime/device": "runtime/test_executable runtime/test_process dispatch/test_placement",
    "veery_runtime/discovery": "dispatch/test_placement runtime/test_process gpu/test_devices",
    "veery_runtime/flight": "runtime/test_executable dispatch/test_growth",
    "veery_runtime/gpu_device": "gpu/test_devices vulkan/test_lost_devices",
    "veery_runtime/cuda": "gpu/test_programs",
    "veery_runtime/dimensions": "aot/test_symbolic",
    "veery_runtime/donation": "runtime/test_executable",
    "veery_runtime/dynamic": "aot/test_symbolic dispatch/test_calls",
    "veery_runtime/effects": "runtime/test_hostcall transforms/test_callbacks",
    "veery_runtime/errors": "runtime/test_executable",
    "veery_runtime/evaluated": "dispatch/test_library_programs",
    "veery_runtime/inline": "runtime/test_executable",
    "veery_runtime/iree": "runtime/test_buffer dispatch/test_calls",
    "veery_runtime/loading": "runtime/test_executable",
    "veery_runtime/module": "runtime/test_container aot/test_artifact",
    "veery_lowering/compiler/places": "lowering/test_parts",
    "veery_lowering/compiler/handover": "xla/test_xla_devices",
    "veery_lowering/passes/stablehlo/donors": "xla/test_xla_devices",
    "veery_lowering/passes/stablehlo/drops": "lowering/test_gather_scatter lowering/test_moves",
    "veery_lowering/passes/stablehlo/factors": "lowering/test_products",
    "veery_lowering/passes/stablehlo/ordering": "xla/test_xla_callbacks",
    "veery_lowering/passes/stablehlo/overlaps": "xla/test_overlaps",
    "veery_lowering/store/executables": "xla/test_xla_devices",
    "veery_lowering/targets/xla": "xla/test_xla_devices",
    "veery_runtime/pjrt/beside": "xla/test_better",
    "veery_runtime/pjrt/better": "xla/test_better",
    "veery_runtime/pjrt/several": "xla/test_several",
    "veery_runtime/pjrt/*": "xla/test_xla_devices xla/test_xla_callbacks",
    "veery_runtime/pjrt/plugins": "xla/test_plugins",
    "veery_runtime/sharing": "runtime/test_executable dispatch/test_growth",
    "veery_runtime/spmd": "transforms/test_pmap",
    "veery_runtime/structure": "aot/test_artifact",
    "veery_runtime/vulkan": "vulkan/test_targets vulkan/test_lost_devices",
    "veery_runtime/weights": "aot/test_artifact",
    "veery_runtime/workers": "runtime/test_hostcall",
}


def name_of(path: Path) -> str:
    root = next(root for root in ROOTS if path.is_relative_to(root))
    return path.relative_to(root).with_suffix("").as_posix()


def has_functions(path: Path) -> bool:
    """Whether there is anything to test: doors only import, and the functions of protocols say what others do."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    bodies = [node.body for node in nodes if isinstance(node, ast.FunctionDef)]
    says = lambda body: all(isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in body)
    return not all(map(says, bodies)) or any(isinstance(node, ast.Lambda) for node in nodes)


SOURCES = sorted(name_of(path) for root in ROOTS for path in root.rglob("*.py") if has_functions(path))


def test_of_its_name(source: str) -> Path:
    folder = next(folder for folder in AREAS if source.startswith(folder))
    return TESTS / AREAS[folder] / f"test_{source.rpartition('/')[2].strip('_')}.py"


test_of_its_name.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_file_has_its_tests(source):
    has_row = any(fnmatch(source, pattern) for pattern in ROWS)
    assert has_row or test_of_its_name(source).exists(), (
        f"write {test_of_its_name(source)}, or a row that says who does"
    )


@pytest.mark.parametrize("pattern", ROWS)
def test_rows_are_of_files_and_tests_that_are_there(pattern):
    assert any(fnmatch(source, pattern) for source in SOURCES), "no file is of this name any more"
    missing = [name for name in ROWS[pattern].split() if not (TESTS / f"{name}.py").exists()]
    assert not missing, "no tests are of these names any more"


def test_files_of_one_name_and_area_have_rows():
    """Since a test of that name is of one of them."""
    by_test: dict[Path, list[str]] = {}
    for source in SOURCES:
        if not any(fnmatch(source, pattern) for pattern in ROWS):
            by_test.setdefault(test_of_its_name(source), []).append(source)
    assert [sources for sources in by_test.values() if len(sources) > 1] == []


def test_files_of_tests_have_names_of_their_own() -> None:
    """Of two of one name pytest collects the first, whatever their folders are."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted({name for name in names if names.count(name) > 1})
