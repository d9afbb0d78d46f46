"""BCOO and the functions of such arrays."""

from veery._core.absent import attributes as _attributes
from veery.experimental.sparse._bcoo import (
    BCOO as BCOO,
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_eliminate_zeros as bcoo_eliminate_zeros,
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_transpose as bcoo_transpose,
    bcoo_update_layout as bcoo_update_layout,
)
from veery.experimental.sparse._convolution import bcoo_conv_general_dilated as bcoo_conv_general_dilated
from veery.experimental.sparse._indexing import bcoo_gather as bcoo_gather
from veery.experimental.sparse._reshaping import (
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_squeeze as bcoo_squeeze,
)

__getattr__, __dir__ = _attributes(__name__)
