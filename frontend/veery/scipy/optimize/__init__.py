"""Minima of functions."""

from veery.scipy.optimize._minimize import OptimizeResults as OptimizeResults, minimize as minimize
