"""The primitive operations: functions that map to one operation each, and control flow."""

from veery._core import lazy
from veery._core.shapes import broadcast_shapes as broadcast_shapes
from veery.lax import _shape
from veery.lax._shape import broadcast as broadcast
from veery.lax._shape import broadcast_in_dim as broadcast_in_dim
from veery.lax._shape import broadcast_in_dim_p as broadcast_in_dim_p
from veery.lax._shape import broadcast_like as broadcast_like
from veery.lax._shape import broadcast_to_rank as broadcast_to_rank
from veery.lax._shape import broadcasted_iota as broadcasted_iota
from veery.lax._shape import collapse as collapse
from veery.lax._shape import concatenate as concatenate
from veery.lax._shape import concatenate_p as concatenate_p
from veery.lax._shape import copy_p as copy_p
from veery.lax._shape import empty as empty
from veery.lax._shape import expand_dims as expand_dims
from veery.lax._shape import full as full
from veery.lax._shape import full_like as full_like
from veery.lax._shape import iota as iota
from veery.lax._shape import iota_p as iota_p
from veery.lax._shape import pad as pad
from veery.lax._shape import pad_p as pad_p
from veery.lax._shape import reshape as reshape
from veery.lax._shape import reshape_p as reshape_p
from veery.lax._shape import rev as rev
from veery.lax._shape import rev_p as rev_p
from veery.lax._shape import split as split
from veery.lax._shape import split_p as split_p
from veery.lax._shape import squeeze as squeeze
from veery.lax._shape import squeeze_p as squeeze_p
from veery.lax._shape import stack as stack
from veery.lax._shape import tile as tile
from veery.lax._shape import transpose as transpose
from veery.lax._shape import transpose_p as transpose_p
from veery.lax._shape import unstack as unstack
from veery.lax._shape import zeros_like_array as zeros_like_array

lazy.zeros = _shape.zeros
