"""Public transformations. What the layers below need of each other is provided here, before anything is traced."""

from collections.abc import Sequence
from typing import Any

from veery import _dispatch, _distributed
from veery._core import provided
from veery.lax import _operations


class _Verifier:
    """`veery._reference`, imported when something is verified: it takes 25 ms."""

    def run_verified(self, *args: Any) -> Sequence[Any]:
        from veery._reference import verification

        return verification.run_verified(*args)

    def verify_pmap(self, *args: Any, **params: Any) -> None:
        from veery._reference import verification

        verification.verify_pmap(*args, **params)

    def verify_distributed(self, *args: Any) -> None:
        from veery._reference import verification

        verification.verify_distributed(*args)


provided.operations = _operations
provided.backend = _dispatch
provided.distribution = _distributed
provided.verifier = _Verifier()
