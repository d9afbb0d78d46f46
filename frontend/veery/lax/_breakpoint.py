"""`debug.breakpoint`: a prompt for the values of a program where the program is."""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
import traceback
from types import FrameType
from typing import Any, TextIO

from veery._core import source, tree
from veery._core.trace import Tracer
from veery.lax._debug import debug_callback


def debug_breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
) -> None:
    """Stop the program here and prompt for commands: the variables of the functions that led here have their values.

    At the prompt `p x` prints an expression, `pp x` prettily; `u` and `d` go to the caller and back, `bt` shows the
    callers, `l` the lines around, `c` goes on, `q` stops the program with an exception.

    Args:
        backend: accepted for compatibility ("cli" or None).
        filter_frames: whether veery's own functions are left out.
        num_frames: of how many functions, from the innermost, the variables can be seen; by default of all.
        ordered: whether it comes after the ordered debugging callbacks before it.
        token: accepted for compatibility.
        stdin, stdout: where commands are read and answers written.

    Raises:
        ValueError: backend is another one.

    >>> import io, veery, veery.numpy as jnp
    >>> commands = io.StringIO("p y.sum() + 1 \\n c \\n")
    >>> f = veery.jit(lambda y: veery.debug.breakpoint(stdin=commands))
    >>> f(jnp.ones(3)); veery.effects_barrier()  # doctest: +NORMALIZE_WHITESPACE
    Entering jdb:
    (jdb) Array(4., dtype=float32)
    (jdb)
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: the backend must be 'cli', got {backend!r}")
    frames = _frames(filter_frames)[:num_frames]
    places = [(f.f_code.co_filename, f.f_lineno, f.f_code.co_name) for f in frames]
    spaces = [{**f.f_globals, **f.f_locals} for f in frames]
    traced = [{name: x for name, x in f.f_locals.items() if _is_traced(x)} for f in frames]

    def stop(values: list[dict[str, Any]]) -> None:
        found = [{**space, **value} for space, value in zip(spaces, values)]
        Prompt(places, found, stdin or sys.stdin, stdout or sys.stdout).cmdloop()

    debug_callback(stop, traced, ordered=ordered)


class BreakpointQuit(Exception):
    """The program was stopped at the prompt of `debug.breakpoint`."""


def _frames(filtered: bool) -> list[FrameType]:
    """The functions that led to the caller's caller, innermost first."""
    found = [frame for frame, _ in traceback.walk_stack(sys._getframe(2))]
    return [f for f in found if not (filtered and source.is_internal(f.f_code))]


def _is_traced(value: Any) -> bool:
    try:
        return any(isinstance(leaf, Tracer) for leaf in tree.tree_leaves(value))
    except ValueError:  # a dictionary whose keys cannot be sorted is no tree
        return False


class Prompt(cmd.Cmd):
    """Reads and answers commands about the frames of a stopped program."""

    prompt = "(jdb) "
    use_rawinput = False

    def __init__(
        self, places: list[tuple[str, int, str]], spaces: list[dict[str, Any]], stdin: TextIO, stdout: TextIO
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is sys.__stdin__ and stdin.isatty()  # with it comes line editing
        self.places, self.spaces, self.at = places, spaces, 0
        self.intro = "Entering jdb:"

    def say(self, text: str) -> None:
        print(text, file=self.stdout)

    def evaluate(self, expression: str) -> Any:
        return eval(expression, self.spaces[self.at])

    def show(self, expression: str, form: Any) -> None:
        try:
            self.say(form(self.evaluate(expression)))
        except Exception as error:  # whatever the expression does wrong is answered
            self.say(f"*** {type(error).__name__}: {error}")

    def do_p(self, expression: str) -> None:
        """p EXPRESSION: print its value."""
        self.show(expression, repr)

    def do_pp(self, expression: str) -> None:
        """pp EXPRESSION: print its value prettily."""
        self.show(expression, pprint.pformat)

    def do_bt(self, _: str) -> None:
        """bt: the functions that led here, innermost last."""
        for i, (file, line, name) in reversed([*enumerate(self.places)]):
            self.say(f'{">" if i == self.at else " "} File "{file}", line {line}, in {name}')
            self.say(f"    {linecache.getline(file, line).strip()}")

    def do_u(self, _: str) -> None:
        """u: to the caller."""
        self.go(self.at + 1)

    def do_d(self, _: str) -> None:
        """d: back to the function called."""
        self.go(self.at - 1)

    def go(self, to: int) -> None:
        if not 0 <= to < len(self.places):
            return self.say("*** There is no such function")
        self.at = to
        file, line, name = self.places[to]
        self.say(f"> {file}({line}){name}()")

    def do_l(self, _: str) -> None:
        """l: the lines around."""
        file, line, _name = self.places[self.at]
        for number in range(max(1, line - 4), line + 5):
            if text := linecache.getline(file, number):
                self.say(f"{'->' if number == line else '  '} {number:4} {text.rstrip()}")

    def do_c(self, _: str) -> bool:
        """c: go on."""
        return True

    def do_q(self, _: str) -> None:
        """q: stop the program."""
        raise BreakpointQuit("the program was stopped at a breakpoint")

    def do_EOF(self, _: str) -> bool:
        """At the end of the input the program goes on."""
        return True

    def default(self, line: str) -> None:
        self.say(f"*** There is no command {line!r}; see help")

    def emptyline(self) -> bool:
        return False

    do_up, do_down, do_where, do_list = do_u, do_d, do_bt, do_l
    do_cont = do_continue = do_c
    do_quit = do_exit = do_q
