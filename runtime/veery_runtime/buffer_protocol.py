"""The buffer protocol of arrays, in C as soon as their values have been read.

`memoryview(x)`, `bytes(x)` and `numpy.asarray(x)` look into a table of C functions that the type of x has. Since 3.12 a
class can fill it with `__buffer__`, which is called each time: `numpy.asarray(x)` takes 1.4 us. So the table gets a
function that is there already, that of `pickle.PickleBuffer`. It passes the request on to the object at 24 bytes in its
instance: for classes of ours, the object in their first slot. `numpy.asarray(x)` takes 0.3 us so (JAX: 0.7).

On Python 3.11, where there is no `__buffer__`, ctypes stands in for it until the values have been read. What is assumed
of CPython is looked at first; where it is different nothing is done.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

_TABLE = 160  # where type objects of 64-bit CPython have `tp_as_buffer`; its first entry is `bf_getbuffer`
_TYPE_SIZE: int = type.__getattribute__(type, "__basicsize__")
_FIRST_SLOT = 24  # of an instance of a class with weak references in its base


def redirect(cls: type, slot: str) -> bool:
    """Have instances of `cls` export the buffer of the object in their attribute `slot`.

    An object without a buffer there makes TypeError; none at all, ValueError.

    Args:
      cls: a class of which `slot` is the first of its `__slots__` by name; those of its base are `("__weakref__",)`.
      slot: the name.

    Returns:
      Whether it could be done.
    """
    target: Any = np.zeros(1)
    probe: Any = object.__new__(cls)
    known = pickle.PickleBuffer(target)
    setattr(probe, slot, target)
    if not _is_known(cls) or any(_word(id(x) + _FIRST_SLOT) != id(target) for x in (known, probe)):
        return False
    _set_getbuffer(cls, _word(_word(id(pickle.PickleBuffer) + _TABLE)))
    return True


def provide(cls: type, array_of: Callable[[Any], Any]) -> None:
    """Have instances of `cls` export the buffer of `array_of(instance)`, on Python 3.11.

    A callback of ctypes cannot raise: where `array_of` does, or its result has no buffer, `memoryview` raises
    SystemError. NumPy goes on to `__array__` then.
    """
    if sys.version_info >= (3, 12) or not _is_known(cls):
        return
    signature = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    get_buffer = signature(("PyObject_GetBuffer", ctypes.pythonapi))
    raise_later = ctypes.pythonapi.PyThreadState_SetAsyncExc
    raise_later.argtypes = [ctypes.c_ulong, ctypes.py_object]

    @signature  # type: ignore[untyped-decorator]
    def export(instance: Any, view: int, flags: int) -> int:
        try:
            result: int = get_buffer(array_of(instance), view, flags)
            return result
        except Exception:
            return -1
        except BaseException as error:  # Ctrl-C during a wait
            # `map` makes this call: after one of Python's own, the exception would be raised in this function already.
            [*map(raise_later, [threading.get_ident()], [type(error)])]
            return -1

    _callbacks.append(export)
    _set_getbuffer(cls, ctypes.cast(export, ctypes.c_void_p).value or 0)


_callbacks: list[Any] = []  # what C code calls must stay alive


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _is_known(cls: type) -> bool:
    """Whether classes are laid out as assumed: with the table inside of their type object."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32 or hasattr(sys, "gettotalrefcount"):
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return id(cls) < _word(id(cls) + _TABLE) < id(cls) + _TYPE_SIZE


def _set_getbuffer(cls: type, function: int) -> None:
    ctypes.c_size_t.from_address(_word(id(cls) + _TABLE)).value = function
