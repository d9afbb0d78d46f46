"""Checks of derivatives against numerical differences."""

from veery._api.gradient_checks import check_grads as check_grads
from veery._api.gradient_checks import check_jvp as check_jvp
from veery._api.gradient_checks import check_vjp as check_vjp
