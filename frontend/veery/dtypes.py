"""Element types: promotion, classes, canonical forms."""

from veery._core.dtypes import TypePromotionError as TypePromotionError
from veery._core.dtypes import bfloat16 as bfloat16
from veery._core.dtypes import canonicalize_dtype as canonicalize_dtype
from veery._core.dtypes import extended as extended
from veery._core.dtypes import finfo as finfo
from veery._core.dtypes import float0 as float0
from veery._core.dtypes import iinfo as iinfo
from veery._core.dtypes import issubdtype as issubdtype
from veery._core.dtypes import itemsize_bits as itemsize_bits
from veery._core.dtypes import prng_key as prng_key
from veery._core.dtypes import result_type as result_type
from veery._core.dtypes import scalar_type_of as scalar_type_of
