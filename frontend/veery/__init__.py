"""veery: JAX's programming model without jaxlib.

Functions written with `veery.numpy` are traced to jaxprs, transformed (`grad`, `vmap`, `jit`, ...), lowered to
StableHLO, compiled and run by IREE on CPUs, Vulkan GPUs and CUDA. Names are JAX's: `import veery as jax`.
"""

from veery._api.autodiff import (
    fwd_and_bwd as fwd_and_bwd,
    grad as grad,
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from veery._api.checkpoint import checkpoint as checkpoint, checkpoint_policies as checkpoint_policies, remat as remat
from veery._api.custom_derivatives import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
)
from veery._api.environment import print_environment_info as print_environment_info
from veery._api.inspection import eval_shape as eval_shape, make_jaxpr as make_jaxpr, typeof as typeof
from veery._api.jit import jit as jit
from veery._api.meshes import make_mesh as make_mesh, set_mesh as set_mesh
from veery._api.named_call import named_call as named_call
from veery._api.placement import (
    block_until_ready as block_until_ready,
    clear_caches as clear_caches,
    copy_to_host_async as copy_to_host_async,
    default_backend as default_backend,
    device_count as device_count,
    device_get as device_get,
    device_put as device_put,
    devices as devices,
    effects_barrier as effects_barrier,
    live_arrays as live_arrays,
    local_device_count as local_device_count,
    local_devices as local_devices,
    process_count as process_count,
    process_index as process_index,
    process_indices as process_indices,
)
from veery._api.pmap import pmap as pmap
from veery._api.shape_structs import ShapeDtypeStruct as ShapeDtypeStruct
from veery._api.shard_map import shard_map as shard_map, smap as smap
from veery._api.sharded_arrays import (
    make_array_from_callback as make_array_from_callback,
    make_array_from_process_local_data as make_array_from_process_local_data,
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    reshard as reshard,
)
from veery._api.vectorize import vmap as vmap
from veery._api.visualization import visualize as visualize
from veery._core.absent import attributes as _attributes
from veery._core.array import Array as Array, Shard as Shard
from veery._core.config import (
    check_tracer_leaks as check_tracer_leaks,
    checking_leaks as checking_leaks,
    config as config,
    debug_infs as debug_infs,
    debug_key_reuse as debug_key_reuse,
    debug_nans as debug_nans,
    default_device as default_device,
    default_matmul_precision as default_matmul_precision,
    default_prng_impl as default_prng_impl,
    disable_jit as disable_jit,
    enable_checks as enable_checks,
    enable_custom_prng as enable_custom_prng,
    enable_x64 as enable_x64,
    explain_cache_misses as explain_cache_misses,
    legacy_prng_key as legacy_prng_key,
    log_compiles as log_compiles,
    no_execution as no_execution,
    no_tracing as no_tracing,
    numpy_dtype_promotion as numpy_dtype_promotion,
    numpy_rank_promotion as numpy_rank_promotion,
    softmax_custom_jvp as softmax_custom_jvp,
    thread_guard as thread_guard,
    threefry_partitionable as threefry_partitionable,
    transfer_guard as transfer_guard,
    transfer_guard_device_to_device as transfer_guard_device_to_device,
    transfer_guard_device_to_host as transfer_guard_device_to_host,
    transfer_guard_host_to_device as transfer_guard_host_to_device,
)
from veery._core.device import Device as Device
from veery._core.dtypes import float0 as float0
from veery._core.partition_spec import PartitionSpec as P
from veery._core.refs import Ref as Ref
from veery._core.sharding import NamedSharding as NamedSharding
from veery._core.slices import ds as ds
from veery._core.source import named_scope as named_scope
from veery._core.trace import ensure_compile_time_eval as ensure_compile_time_eval
from veery._in_place import load_ipython_extension as load_ipython_extension
from veery.lax._callback import pure_callback as pure_callback
from veery.lax._refs import empty_ref as empty_ref, free_ref as free_ref, freeze as freeze, new_ref as new_ref
from veery.version import __version__ as __version__, __version_info__ as __version_info__

# isort: split
from veery import (
    ad as ad,
    ad_checkpoint as ad_checkpoint,
    aot as aot,
    core as core,
    custom_batching as custom_batching,
    custom_derivatives as custom_derivatives,
    debug as debug,
    distributed as distributed,
    dlpack as dlpack,
    dtypes as dtypes,
    errors as errors,
    experimental as experimental,
    export as export,
    extend as extend,
    image as image,
    interpreters as interpreters,
    lax as lax,
    memory as memory,
    monitoring as monitoring,
    nn as nn,
    numpy as numpy,
    ops as ops,
    profiler as profiler,
    random as random,
    ref as ref,
    scipy as scipy,
    sharding as sharding,
    stablehlo as stablehlo,
    stages as stages,
    test_util as test_util,
    tree as tree,
    tree_util as tree_util,
    typing as typing,
)

__getattr__, __dir__ = _attributes(__name__, "_src api_util ffi lib")
