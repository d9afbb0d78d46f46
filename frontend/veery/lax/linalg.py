"""Factorisations of matrices, which may be stacked in leading dimensions."""

from veery._core.absent import attributes as _attributes
from veery.lax._linalg_orthogonal import (
    householder_product as householder_product,
    householder_product_p as householder_product_p,
    qr as qr,
    qr_p as qr_p,
)
from veery.lax._linalg_reductions import (
    hessenberg as hessenberg,
    hessenberg_p as hessenberg_p,
    ormqr as ormqr,
    ormqr_p as ormqr_p,
    schur as schur,
    schur_p as schur_p,
    tridiagonal as tridiagonal,
    tridiagonal_p as tridiagonal_p,
    tridiagonal_solve as tridiagonal_solve,
    tridiagonal_solve_p as tridiagonal_solve_p,
)
from veery.lax._linalg_spectral import (
    EighImplementation as EighImplementation,
    EigImplementation as EigImplementation,
    SvdAlgorithm as SvdAlgorithm,
    eig as eig,
    eig_p as eig_p,
    eigh as eigh,
    eigh_p as eigh_p,
    svd as svd,
    svd_p as svd_p,
)
from veery.lax._linalg_triangular import (
    cholesky as cholesky,
    cholesky_p as cholesky_p,
    lu as lu,
    lu_p as lu_p,
    lu_pivots_to_permutation as lu_pivots_to_permutation,
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
    triangular_solve as triangular_solve,
    triangular_solve_p as triangular_solve_p,
)
from veery.lax._linalg_updates import (
    cholesky_update as cholesky_update,
    qdwh as qdwh,
    symmetric_product as symmetric_product,
)

__getattr__, __dir__ = _attributes(__name__)
