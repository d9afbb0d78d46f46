"""Numerics in terms of StableHLO's arithmetic: what rules emit where IREE's own expansion is wrong, slow or missing."""
