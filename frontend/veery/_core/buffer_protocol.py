"""The buffer protocol on Python 3.11, whose classes cannot define it; from 3.12 on `__buffer__` does.

`memoryview(x)`, `bytes(x)` and their like look into a table of C functions, which the type of every class has and
Python code fills only since 3.12. Here ctypes writes a function into it that passes the request on to the NumPy array
of the values; that array becomes the owner of the view, so that nothing needs to be released here. Python 3.11 gets no
changes any more: where a type keeps the table is a constant.

A callback of ctypes cannot raise. For dtypes that the protocol does not know (bfloat16, keys) and for arrays that were
deleted or whose computation failed, the request is refused without a reason, which `memoryview` reports as SystemError.
NumPy goes on to `__array__` then, which says what happened. `numpy.asarray(x)` asks here first: 1.6 us, without this
0.7 us (JAX: 0.7 us).
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

_AS_BUFFER = 160  # bytes before `tp_as_buffer` in the type objects of 64-bit CPython 3.11


def install(cls: Any) -> None:
    """Give `cls`, a class with a method `_numeric`, the buffer protocol where Python itself offers no way."""
    if sys.version_info >= (3, 12) or sys.implementation.name != "cpython" or sys.maxsize < 2**32:
        return
    signature = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    get_buffer = signature(("PyObject_GetBuffer", ctypes.pythonapi))
    raise_later = ctypes.pythonapi.PyThreadState_SetAsyncExc
    raise_later.argtypes = [ctypes.c_ulong, ctypes.py_object]

    @signature
    def export(array: Any, view: int, flags: int) -> int:
        try:
            return get_buffer(array._numeric("memoryview"), view, flags)
        except Exception:
            return -1
        except BaseException as error:  # Ctrl-C during the wait
            # `map` makes this call: after one of Python's own, the exception would be raised in this function already.
            [*map(raise_later, [threading.get_ident()], [type(error)])]
            return -1

    cls._export = export  # what C code calls must stay alive
    table = ctypes.c_size_t.from_address(id(cls) + _AS_BUFFER).value
    ctypes.c_void_p.from_address(table).value = ctypes.cast(export, ctypes.c_void_p).value
