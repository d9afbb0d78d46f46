"""Checks of derivatives against numerical differences."""

from veery._api.gradient_checks import check_grads as check_grads, check_jvp as check_jvp, check_vjp as check_vjp
