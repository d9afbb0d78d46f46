"""The interface of what writes checkpoints while a program goes on."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """Writes and reads checkpoints; a library implements it."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong while it was written, without waiting."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait until all has been written."""

    @abc.abstractmethod
    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], None]) -> None:
        """Begin to write arrays.

        Args:
            arrays: the arrays.
            tensorstore_specs: where each goes.
            on_commit_callback: called when all has been written.
        """

    @abc.abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Any],
        tensorstore_specs: Sequence[dict[str, Any]],
        global_shapes: Sequence[Any] | None = None,
        dtypes: Sequence[Any] | None = None,
    ) -> Any:
        """Read arrays.

        Args:
            shardings: how each is laid out over devices.
            tensorstore_specs: where each is.
            global_shapes: their shapes, if they shall be other than those in the checkpoint.
            dtypes: their types, likewise.
        """
