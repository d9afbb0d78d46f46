from veery.numpy._promotion import (
    promote_dtypes_complex as promote_dtypes_complex,
    promote_dtypes_inexact as promote_dtypes_inexact,
)
