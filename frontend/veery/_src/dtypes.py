from veery._core.dtypes import (
    DType as DType,
    ExtendedDType as ExtendedDType,
    TypePromotionError as TypePromotionError,
    extended as extended,
    finfo as finfo,
    supports_inf as supports_inf,
    to_complex_dtype as to_complex_dtype,
)
