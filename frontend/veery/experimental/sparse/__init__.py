"""Sparse arrays: BCOO, BCSR, and the matrices COO, CSR and CSC.

They are pytrees of the arrays that they store, so that `jit`, `vmap` and loops take them. Operators and `sparsify`
apply operations to what is stored: products gather rows of the other operand and sum them by index.
"""

from veery._core.absent import attributes as _attributes
from veery.experimental.sparse import (
    ad as ad,
    api as api,
    bcoo as bcoo,
    bcsr as bcsr,
    coo as coo,
    csr as csr,
    random as random,
    transform as transform,
    util as util,
)
from veery.experimental.sparse._base import JAXSparse as JAXSparse
from veery.experimental.sparse._reshaping import (
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_squeeze as bcoo_squeeze,
)
from veery.experimental.sparse.ad import (
    grad as grad,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    value_and_grad as value_and_grad,
)
from veery.experimental.sparse.api import empty as empty, eye as eye, todense as todense
from veery.experimental.sparse.bcoo import (
    BCOO as BCOO,
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_gather as bcoo_gather,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_transpose as bcoo_transpose,
    bcoo_update_layout as bcoo_update_layout,
)
from veery.experimental.sparse.bcsr import (
    BCSR as BCSR,
    bcsr_broadcast_in_dim as bcsr_broadcast_in_dim,
    bcsr_concatenate as bcsr_concatenate,
    bcsr_dot_general as bcsr_dot_general,
    bcsr_extract as bcsr_extract,
    bcsr_fromdense as bcsr_fromdense,
    bcsr_sum_duplicates as bcsr_sum_duplicates,
    bcsr_todense as bcsr_todense,
)
from veery.experimental.sparse.coo import (
    COO as COO,
    coo_fromdense as coo_fromdense,
    coo_matmat as coo_matmat,
    coo_matvec as coo_matvec,
    coo_todense as coo_todense,
)
from veery.experimental.sparse.csr import (
    CSC as CSC,
    CSR as CSR,
    csr_fromdense as csr_fromdense,
    csr_matmat as csr_matmat,
    csr_matvec as csr_matvec,
    csr_todense as csr_todense,
)
from veery.experimental.sparse.random import random_bcoo as random_bcoo
from veery.experimental.sparse.transform import sparsify as sparsify
from veery.experimental.sparse.util import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
)

__getattr__, __dir__ = _attributes(__name__, "linalg")
