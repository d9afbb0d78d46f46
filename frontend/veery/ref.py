"""References: arrays that can be written to."""

from veery._core.refs import AbstractRef as AbstractRef, Ref as Ref
from veery.lax._refs import (
    addupdate as addupdate,
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    get as get,
    new_ref as new_ref,
    set as set,
    swap as swap,
)
