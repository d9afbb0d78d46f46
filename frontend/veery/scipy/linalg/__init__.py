"""Linear algebra as SciPy has it: factorisations, systems, functions of matrices, and matrices by formula."""

from veery.scipy.linalg._factorizations import (
    cho_factor as cho_factor,
    cholesky as cholesky,
    hessenberg as hessenberg,
    lu as lu,
    lu_factor as lu_factor,
    polar as polar,
    qr as qr,
    qr_multiply as qr_multiply,
    rsf2csf as rsf2csf,
    schur as schur,
    svd as svd,
)
from veery.scipy.linalg._matrix_functions import (
    expm as expm,
    expm_frechet as expm_frechet,
    funm as funm,
    sqrtm as sqrtm,
)
from veery.scipy.linalg._special_matrices import (
    block_diag as block_diag,
    circulant as circulant,
    companion as companion,
    convolution_matrix as convolution_matrix,
    dft as dft,
    fiedler as fiedler,
    fiedler_companion as fiedler_companion,
    hadamard as hadamard,
    hankel as hankel,
    helmert as helmert,
    hilbert as hilbert,
    invhilbert as invhilbert,
    invpascal as invpascal,
    leslie as leslie,
    pascal as pascal,
    toeplitz as toeplitz,
)
from veery.scipy.linalg._spectral import eigh as eigh, eigh_tridiagonal as eigh_tridiagonal
from veery.scipy.linalg._systems import (
    cho_solve as cho_solve,
    det as det,
    inv as inv,
    lu_solve as lu_solve,
    solve as solve,
    solve_sylvester as solve_sylvester,
    solve_triangular as solve_triangular,
)
