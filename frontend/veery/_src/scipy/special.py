from veery.scipy.special import gammaln as gammaln, logsumexp as logsumexp
