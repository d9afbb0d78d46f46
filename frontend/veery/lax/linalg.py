"""Factorisations of matrices, which may be stacked in leading dimensions."""

from veery.lax._linalg_orthogonal import householder_product as householder_product
from veery.lax._linalg_orthogonal import householder_product_p as householder_product_p
from veery.lax._linalg_orthogonal import qr as qr
from veery.lax._linalg_orthogonal import qr_p as qr_p
from veery.lax._linalg_spectral import EighImplementation as EighImplementation
from veery.lax._linalg_spectral import EigImplementation as EigImplementation
from veery.lax._linalg_spectral import SvdAlgorithm as SvdAlgorithm
from veery.lax._linalg_spectral import eig as eig
from veery.lax._linalg_spectral import eig_p as eig_p
from veery.lax._linalg_spectral import eigh as eigh
from veery.lax._linalg_spectral import eigh_p as eigh_p
from veery.lax._linalg_spectral import svd as svd
from veery.lax._linalg_spectral import svd_p as svd_p
from veery.lax._linalg_triangular import cholesky as cholesky
from veery.lax._linalg_triangular import cholesky_p as cholesky_p
from veery.lax._linalg_triangular import lu as lu
from veery.lax._linalg_triangular import lu_p as lu_p
from veery.lax._linalg_triangular import lu_pivots_to_permutation as lu_pivots_to_permutation
from veery.lax._linalg_triangular import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from veery.lax._linalg_triangular import triangular_solve as triangular_solve
from veery.lax._linalg_triangular import triangular_solve_p as triangular_solve_p
