"""Typed builders, one per StableHLO or CHLO operation: the only place that knows attribute syntax.

Import as `from veery_lowering import stablehlo as hlo`. Every builder uses the ambient insertion point and location.
Operands are `ir.Value`s, dtypes NumPy's (or ml_dtypes'), shapes tuples. Names are StableHLO's; those that are Python
keywords end in an underscore. A defect of IREE's implementation is told in the builder's docstring, closed in `rules/`.
"""

from veery_lowering.stablehlo._build import (
    Body as Body,
)
from veery_lowering.stablehlo._build import (
    Value as Value,
)
from veery_lowering.stablehlo._build import (
    dtype_of as dtype_of,
)
from veery_lowering.stablehlo._build import (
    shape_of as shape_of,
)
from veery_lowering.stablehlo._contract import (
    batch_norm_inference as batch_norm_inference,
)
from veery_lowering.stablehlo._contract import (
    composite as composite,
)
from veery_lowering.stablehlo._contract import (
    convolution as convolution,
)
from veery_lowering.stablehlo._contract import (
    dot_general as dot_general,
)
from veery_lowering.stablehlo._contract import (
    fft as fft,
)
from veery_lowering.stablehlo._contract import (
    gather as gather,
)
from veery_lowering.stablehlo._contract import (
    get_dimension_size as get_dimension_size,
)
from veery_lowering.stablehlo._contract import (
    product_axes as product_axes,
)
from veery_lowering.stablehlo._contract import (
    rng_bit_generator as rng_bit_generator,
)
from veery_lowering.stablehlo._contract import (
    top_k as top_k,
)
from veery_lowering.stablehlo._contract import (
    transposed_product as transposed_product,
)
from veery_lowering.stablehlo._dynamic import (
    Index as Index,
)
from veery_lowering.stablehlo._dynamic import (
    cast_shape as cast_shape,
)
from veery_lowering.stablehlo._dynamic import (
    clone as clone,
)
from veery_lowering.stablehlo._dynamic import (
    dimension_values as dimension_values,
)
from veery_lowering.stablehlo._dynamic import (
    extract_slice as extract_slice,
)
from veery_lowering.stablehlo._dynamic import (
    join_by_writing as join_by_writing,
)
from veery_lowering.stablehlo._dynamic import (
    overwrite as overwrite,
)
from veery_lowering.stablehlo._dynamic import (
    scalar_of_size as scalar_of_size,
)
from veery_lowering.stablehlo._dynamic import (
    sizes_of as sizes_of,
)
from veery_lowering.stablehlo._dynamic import (
    split_axis as split_axis,
)
from veery_lowering.stablehlo._dynamic import (
    tie_shape as tie_shape,
)
from veery_lowering.stablehlo._elementwise import (
    abs as abs,
)
from veery_lowering.stablehlo._elementwise import (
    acos as acos,
)
from veery_lowering.stablehlo._elementwise import (
    acosh as acosh,
)
from veery_lowering.stablehlo._elementwise import (
    add as add,
)
from veery_lowering.stablehlo._elementwise import (
    and_ as and_,
)
from veery_lowering.stablehlo._elementwise import (
    asin as asin,
)
from veery_lowering.stablehlo._elementwise import (
    asinh as asinh,
)
from veery_lowering.stablehlo._elementwise import (
    atan as atan,
)
from veery_lowering.stablehlo._elementwise import (
    atan2 as atan2,
)
from veery_lowering.stablehlo._elementwise import (
    atanh as atanh,
)
from veery_lowering.stablehlo._elementwise import (
    bessel_i1e as bessel_i1e,
)
from veery_lowering.stablehlo._elementwise import (
    bitcast_convert as bitcast_convert,
)
from veery_lowering.stablehlo._elementwise import (
    cbrt as cbrt,
)
from veery_lowering.stablehlo._elementwise import (
    ceil as ceil,
)
from veery_lowering.stablehlo._elementwise import (
    clamp as clamp,
)
from veery_lowering.stablehlo._elementwise import (
    compare as compare,
)
from veery_lowering.stablehlo._elementwise import (
    complex as complex,
)
from veery_lowering.stablehlo._elementwise import (
    convert as convert,
)
from veery_lowering.stablehlo._elementwise import (
    cosh as cosh,
)
from veery_lowering.stablehlo._elementwise import (
    cosine as cosine,
)
from veery_lowering.stablehlo._elementwise import (
    count_leading_zeros as count_leading_zeros,
)
from veery_lowering.stablehlo._elementwise import (
    digamma as digamma,
)
from veery_lowering.stablehlo._elementwise import (
    divide as divide,
)
from veery_lowering.stablehlo._elementwise import (
    erf as erf,
)
from veery_lowering.stablehlo._elementwise import (
    erf_inv as erf_inv,
)
from veery_lowering.stablehlo._elementwise import (
    erfc as erfc,
)
from veery_lowering.stablehlo._elementwise import (
    exponential as exponential,
)
from veery_lowering.stablehlo._elementwise import (
    exponential_minus_one as exponential_minus_one,
)
from veery_lowering.stablehlo._elementwise import (
    floor as floor,
)
from veery_lowering.stablehlo._elementwise import (
    imag as imag,
)
from veery_lowering.stablehlo._elementwise import (
    is_finite as is_finite,
)
from veery_lowering.stablehlo._elementwise import (
    lgamma as lgamma,
)
from veery_lowering.stablehlo._elementwise import (
    log as log,
)
from veery_lowering.stablehlo._elementwise import (
    log_plus_one as log_plus_one,
)
from veery_lowering.stablehlo._elementwise import (
    logistic as logistic,
)
from veery_lowering.stablehlo._elementwise import (
    maximum as maximum,
)
from veery_lowering.stablehlo._elementwise import (
    minimum as minimum,
)
from veery_lowering.stablehlo._elementwise import (
    mulhi as mulhi,
)
from veery_lowering.stablehlo._elementwise import (
    multiply as multiply,
)
from veery_lowering.stablehlo._elementwise import (
    negate as negate,
)
from veery_lowering.stablehlo._elementwise import (
    next_after as next_after,
)
from veery_lowering.stablehlo._elementwise import (
    not_ as not_,
)
from veery_lowering.stablehlo._elementwise import (
    or_ as or_,
)
from veery_lowering.stablehlo._elementwise import (
    polygamma as polygamma,
)
from veery_lowering.stablehlo._elementwise import (
    popcnt as popcnt,
)
from veery_lowering.stablehlo._elementwise import (
    power as power,
)
from veery_lowering.stablehlo._elementwise import (
    real as real,
)
from veery_lowering.stablehlo._elementwise import (
    reduce_precision as reduce_precision,
)
from veery_lowering.stablehlo._elementwise import (
    remainder as remainder,
)
from veery_lowering.stablehlo._elementwise import (
    round_nearest_afz as round_nearest_afz,
)
from veery_lowering.stablehlo._elementwise import (
    round_nearest_even as round_nearest_even,
)
from veery_lowering.stablehlo._elementwise import (
    rsqrt as rsqrt,
)
from veery_lowering.stablehlo._elementwise import (
    select as select,
)
from veery_lowering.stablehlo._elementwise import (
    shift_left as shift_left,
)
from veery_lowering.stablehlo._elementwise import (
    shift_right_arithmetic as shift_right_arithmetic,
)
from veery_lowering.stablehlo._elementwise import (
    shift_right_logical as shift_right_logical,
)
from veery_lowering.stablehlo._elementwise import (
    sign as sign,
)
from veery_lowering.stablehlo._elementwise import (
    sine as sine,
)
from veery_lowering.stablehlo._elementwise import (
    sinh as sinh,
)
from veery_lowering.stablehlo._elementwise import (
    sqrt as sqrt,
)
from veery_lowering.stablehlo._elementwise import (
    subtract as subtract,
)
from veery_lowering.stablehlo._elementwise import (
    tan as tan,
)
from veery_lowering.stablehlo._elementwise import (
    tanh as tanh,
)
from veery_lowering.stablehlo._elementwise import (
    uniform_convert as uniform_convert,
)
from veery_lowering.stablehlo._elementwise import (
    xor as xor,
)
from veery_lowering.stablehlo._elementwise import (
    zeta as zeta,
)
from veery_lowering.stablehlo._region import (
    call as call,
)
from veery_lowering.stablehlo._region import (
    case as case,
)
from veery_lowering.stablehlo._region import (
    if_ as if_,
)
from veery_lowering.stablehlo._region import (
    map_ as map_,
)
from veery_lowering.stablehlo._region import (
    reduce as reduce,
)
from veery_lowering.stablehlo._region import (
    reduce_window as reduce_window,
)
from veery_lowering.stablehlo._region import (
    scatter as scatter,
)
from veery_lowering.stablehlo._region import (
    select_and_scatter as select_and_scatter,
)
from veery_lowering.stablehlo._region import (
    sort as sort,
)
from veery_lowering.stablehlo._region import (
    while_ as while_,
)
from veery_lowering.stablehlo._shape import (
    broadcast_in_dim as broadcast_in_dim,
)
from veery_lowering.stablehlo._shape import (
    concatenate as concatenate,
)
from veery_lowering.stablehlo._shape import (
    constant as constant,
)
from veery_lowering.stablehlo._shape import (
    dynamic_slice as dynamic_slice,
)
from veery_lowering.stablehlo._shape import (
    dynamic_update_slice as dynamic_update_slice,
)
from veery_lowering.stablehlo._shape import (
    full as full,
)
from veery_lowering.stablehlo._shape import (
    full_like as full_like,
)
from veery_lowering.stablehlo._shape import (
    iota as iota,
)
from veery_lowering.stablehlo._shape import (
    optimization_barrier as optimization_barrier,
)
from veery_lowering.stablehlo._shape import (
    pad as pad,
)
from veery_lowering.stablehlo._shape import (
    reshape as reshape,
)
from veery_lowering.stablehlo._shape import (
    reverse as reverse,
)
from veery_lowering.stablehlo._shape import (
    scalar_of as scalar_of,
)
from veery_lowering.stablehlo._shape import (
    slice as slice,
)
from veery_lowering.stablehlo._shape import (
    spread as spread,
)
from veery_lowering.stablehlo._shape import (
    transpose as transpose,
)
