"""Special functions."""

from veery._core.absent import attributes as _attributes
from veery.scipy.special._bessel import (
    bessel_jn as bessel_jn,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
)
from veery.scipy.special._error_functions import (
    dawsn as dawsn,
    erf as erf,
    erfc as erfc,
    erfcx as erfcx,
    erfinv as erfinv,
    log_ndtr as log_ndtr,
    ndtr as ndtr,
    ndtri as ndtri,
    owens_t as owens_t,
    wofz as wofz,
)
from veery.scipy.special._gamma import (
    bernoulli as bernoulli,
    beta as beta,
    betainc as betainc,
    betaln as betaln,
    comb as comb,
    digamma as digamma,
    factorial as factorial,
    gamma as gamma,
    gammainc as gammainc,
    gammaincc as gammaincc,
    gammaln as gammaln,
    gammasgn as gammasgn,
    loggamma as loggamma,
    multigammaln as multigammaln,
    poch as poch,
    polygamma as polygamma,
    zeta as zeta,
)
from veery.scipy.special._harmonics import lpmn as lpmn, lpmn_values as lpmn_values, sph_harm_y as sph_harm_y
from veery.scipy.special._hypergeometric import hyp1f1 as hyp1f1, hyp2f1 as hyp2f1
from veery.scipy.special._integrals import (
    exp1 as exp1,
    expi as expi,
    expn as expn,
    fresnel as fresnel,
    sici as sici,
    spence as spence,
)
from veery.scipy.special._logarithms import (
    boxcox as boxcox,
    boxcox1p as boxcox1p,
    entr as entr,
    expit as expit,
    kl_div as kl_div,
    log_softmax as log_softmax,
    logit as logit,
    logsumexp as logsumexp,
    rel_entr as rel_entr,
    softmax as softmax,
    xlog1py as xlog1py,
    xlogy as xlogy,
)

__getattr__, __dir__ = _attributes(__name__)
