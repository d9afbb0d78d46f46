"""veery: JAX's programming model without jaxlib.

Functions written with `veery.numpy` are traced to jaxprs, transformed (`grad`, `vmap`, `jit`, ...), lowered to
StableHLO, compiled and run by IREE on CPUs, Vulkan GPUs and CUDA. Names are JAX's: `import veery as jax`.
"""

from veery._api.autodiff import grad as grad
from veery._api.autodiff import hessian as hessian
from veery._api.autodiff import jacfwd as jacfwd
from veery._api.autodiff import jacobian as jacobian
from veery._api.autodiff import jacrev as jacrev
from veery._api.autodiff import jvp as jvp
from veery._api.autodiff import linear_transpose as linear_transpose
from veery._api.autodiff import linearize as linearize
from veery._api.autodiff import value_and_grad as value_and_grad
from veery._api.autodiff import vjp as vjp
from veery._api.checkpoint import checkpoint as checkpoint
from veery._api.checkpoint import checkpoint_policies as checkpoint_policies
from veery._api.checkpoint import remat as remat
from veery._api.custom_derivatives import closure_convert as closure_convert
from veery._api.custom_derivatives import custom_gradient as custom_gradient
from veery._api.custom_derivatives import custom_jvp as custom_jvp
from veery._api.custom_derivatives import custom_vjp as custom_vjp
from veery._api.inspection import ShapeDtypeStruct as ShapeDtypeStruct
from veery._api.inspection import eval_shape as eval_shape
from veery._api.inspection import make_jaxpr as make_jaxpr
from veery._api.inspection import typeof as typeof
from veery._api.jit import jit as jit
from veery._api.placement import block_until_ready as block_until_ready
from veery._api.placement import clear_caches as clear_caches
from veery._api.placement import copy_to_host_async as copy_to_host_async
from veery._api.placement import default_backend as default_backend
from veery._api.placement import device_count as device_count
from veery._api.placement import device_get as device_get
from veery._api.placement import device_put as device_put
from veery._api.placement import devices as devices
from veery._api.placement import local_device_count as local_device_count
from veery._api.placement import local_devices as local_devices
from veery._api.placement import process_count as process_count
from veery._api.placement import process_index as process_index
from veery._api.placement import process_indices as process_indices
from veery._api.pmap import pmap as pmap
from veery._api.vectorize import vmap as vmap
from veery._core.array import Array as Array
from veery._core.config import check_tracer_leaks as check_tracer_leaks
from veery._core.config import checking_leaks as checking_leaks
from veery._core.config import config as config
from veery._core.config import debug_infs as debug_infs
from veery._core.config import debug_nans as debug_nans
from veery._core.config import default_device as default_device
from veery._core.config import default_matmul_precision as default_matmul_precision
from veery._core.config import default_prng_impl as default_prng_impl
from veery._core.config import disable_jit as disable_jit
from veery._core.config import enable_x64 as enable_x64
from veery._core.config import explain_cache_misses as explain_cache_misses
from veery._core.config import log_compiles as log_compiles
from veery._core.config import numpy_dtype_promotion as numpy_dtype_promotion
from veery._core.config import numpy_rank_promotion as numpy_rank_promotion
from veery._core.dtypes import float0 as float0
from veery._core.source import named_scope as named_scope
from veery.version import __version__ as __version__
from veery.version import __version_info__ as __version_info__

# isort: split
from veery import ad_checkpoint as ad_checkpoint
from veery import aot as aot
from veery import custom_derivatives as custom_derivatives
from veery import dtypes as dtypes
from veery import errors as errors
from veery import lax as lax
from veery import nn as nn
from veery import numpy as numpy
from veery import random as random
from veery import stablehlo as stablehlo
from veery import stages as stages
from veery import tree as tree
from veery import tree_util as tree_util
from veery import typing as typing
