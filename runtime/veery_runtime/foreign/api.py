"""The functions that foreign functions may call back: errors, types, states, memory, tasks.

They are given numbers for objects of ours: contexts, errors and futures are such to them. Nothing that is raised may
reach foreign code, which gets an error to hand on.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from veery_runtime.foreign import abi

T = TypeVar("T")


class ForeignError(Exception):
    """What a foreign function returned as its error.

    Attributes:
        code: the name of its kind, as "INVALID_ARGUMENT".
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Table:
    """Objects by the numbers under which foreign code knows them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._objects: dict[int, Any] = {}

    def add(self, thing: Any) -> int:
        number = next(self._numbers)
        self._objects[number] = thing
        return number

    def get(self, number: int) -> Any:
        return self._objects[number]

    def take(self, number: int) -> Any:
        return self._objects.pop(number)


class Context:
    """One execution of a foreign function: the states of its stages and the memory that it was given."""

    def __init__(self, states: dict[int, State]) -> None:
        self.run = next(_runs)
        self.states = states
        self.memory: dict[int, Any] = {}


class State:
    """What a foreign function keeps from one stage to later ones; freed with this object, by its type's function."""

    def __init__(self, type_id: int, address: int) -> None:
        self.type_id = type_id
        self.address = address
        self._delete = types.deleters.get(type_id)

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self.address)


class Future:
    """The end of work that goes on after a foreign function has returned."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: ForeignError | None = None


class Types:
    """The types of states that are registered, by name and by number."""

    def __init__(self) -> None:
        self.deleters: dict[int, Callable[[int], Any]] = {}
        self._named: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def register(self, name: str, type_id: int, type_info: int) -> None:
        """Give a type its number, which is written at `type_id`.

        Args:
            name: of the type.
            type_id: where its number is; 0 for one that has none yet.
            type_info: the address of a TypeInfo, or 0.

        Raises:
            ForeignError: the name has another number already.
        """
        place = ctypes.c_int64.from_address(type_id)
        known = self._named.get(name)
        if known is not None and place.value not in (0, known):
            raise ForeignError("INVALID_ARGUMENT", f"type {name!r} is registered as {known}, not as {place.value}")
        taken = set(self._named.values())
        place.value = self._named[name] = known or place.value or next(n for n in self._numbers if n not in taken)
        delete = abi.TypeInfo.from_address(type_info).deleter if type_info else None
        if delete:
            self.deleters[place.value] = abi.TASK(delete)


_runs = itertools.count(1)
contexts, errors, futures, types = Table(), Table(), Table(), Types()


def new_error(code: str, message: str) -> int:
    """An error as foreign code knows it."""
    return errors.add((code, ctypes.create_string_buffer(message.encode(errors="replace"))))


def taken_error(number: int) -> ForeignError:
    """The exception of an error that foreign code hands over."""
    code, message = errors.take(number)
    return ForeignError(code, message.value.decode(errors="replace"))


def _create_error(at: int) -> int:
    given = abi.ErrorCreate.from_address(at)
    code = abi.CODES[given.code] if 0 <= given.code < len(abi.CODES) else "UNKNOWN"
    return new_error(code, (given.message or b"").decode(errors="replace"))


def _error_message(at: int) -> None:
    given = abi.ErrorMessage.from_address(at)
    given.message = ctypes.addressof(errors.get(given.error)[1])


def _destroy_error(at: int) -> None:
    errors.take(abi.ErrorDestroy.from_address(at).error)


def _refuse(message: str) -> Callable[[int], int]:
    return lambda _: new_error("UNIMPLEMENTED", message)


def _register_type(at: int) -> None:
    given = abi.TypeRegister.from_address(at)
    name = ctypes.string_at(given.name.address, given.name.size).decode()
    types.register(name, given.type_id, given.type_info or 0)


def _state(at: int) -> tuple[Any, int, dict[int, State]]:
    """The struct of a call about a state, its stage, and the states of the execution."""
    sized = ctypes.c_size_t.from_address(at).value
    given: Any = (abi.State if sized >= ctypes.sizeof(abi.State) else abi.OldState).from_address(at)
    return given, getattr(given, "stage", abi.INSTANTIATE), contexts.get(given.context).states


def _set_state(at: int) -> None:
    given, stage, states = _state(at)
    if stage in states:
        raise ForeignError("FAILED_PRECONDITION", "the state is set already")
    states[stage] = State(ctypes.c_int64.from_address(given.type_id).value, given.state)


def _get_state(at: int) -> None:
    given, stage, states = _state(at)
    wanted = ctypes.c_int64.from_address(given.type_id).value
    if stage not in states:
        raise ForeignError("NOT_FOUND", "no state is set")
    if states[stage].type_id != wanted:
        raise ForeignError("INVALID_ARGUMENT", f"the state is of type {states[stage].type_id}, not {wanted}")
    given.state = states[stage].address


def _allocate(at: int) -> None:
    given = abi.Allocate.from_address(at)
    alignment = max(given.alignment, 1)
    block = ctypes.create_string_buffer(given.size + alignment)
    given.data = -(-ctypes.addressof(block) // alignment) * alignment
    contexts.get(given.context).memory[given.data] = block


def _free(at: int) -> None:
    given = abi.Free.from_address(at)
    contexts.get(given.context).memory.pop(given.data, None)


def _schedule(at: int) -> None:
    """Tasks run at once, in the thread that schedules them."""
    given = abi.Schedule.from_address(at)
    abi.TASK(given.task)(given.data)


def _count_threads(at: int) -> None:
    abi.NumThreads.from_address(at).count[0] = 1


def _create_future(at: int) -> None:
    abi.Future.from_address(at).future = futures.add(Future())


def _set_available(at: int) -> None:
    futures.get(abi.Future.from_address(at).future).done.set()


def _set_error(at: int) -> None:
    given = abi.Future.from_address(at)
    future = futures.get(given.future)
    future.error = taken_error(given.error)
    future.done.set()


def _run_id(at: int) -> None:
    given = abi.Number.from_address(at)
    given.value = contexts.get(given.context).run


def _device_ordinal(at: int) -> None:
    ctypes.c_int32.from_address(at + abi.Number.value.offset).value = 0


def _guarded(function: Callable[[int], int | None]) -> Callable[[int], int | None]:
    def call(at: int) -> int | None:
        try:
            return function(at)
        except ForeignError as error:
            return new_error(error.code, error.message)
        except BaseException as error:
            return new_error("INTERNAL", f"{type(error).__name__}: {error}")

    return call


_FUNCTIONS: dict[str, Callable[[int], int | None]] = {
    "Error_Create": _create_error,
    "Error_GetMessage": _error_message,
    "Error_Destroy": _destroy_error,
    "Handler_Register": _refuse("functions are registered by register_ffi_target"),
    "Stream_Get": _refuse("there are no streams on the host"),
    "Type_Register": _register_type,
    "ExecutionContext_Get": _refuse("there is no user data in the execution context"),
    "State_Set": _set_state,
    "State_Get": _get_state,
    "DeviceMemory_Allocate": _allocate,
    "DeviceMemory_Free": _free,
    "ThreadPool_Schedule": _schedule,
    "ThreadPool_NumThreads": _count_threads,
    "Future_Create": _create_future,
    "Future_SetAvailable": _set_available,
    "Future_SetError": _set_error,
    "RunId_Get": _run_id,
    "DeviceOrdinal_Get": _device_ordinal,
}
_held = [abi.HANDLER(_guarded(_FUNCTIONS[name])) for name in abi.FUNCTIONS]
API = abi.Api(
    ctypes.sizeof(abi.Api), None, abi.Version(ctypes.sizeof(abi.Version), None, abi.MAJOR, abi.MINOR), None,
    *(ctypes.cast(function, ctypes.c_void_p) for function in _held),
)  # fmt: skip
