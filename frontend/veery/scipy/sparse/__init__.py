"""Linear systems whose matrices are functions."""

from veery.scipy.sparse import linalg as linalg
