"""StableHLO modules as portable artifacts: versioned operations (VHLO) in MLIR bytecode, which every XLA reads.

The bindings have VHLO, but not the passes that write it. It takes them longer to make operations than MLIR to parse
them, so it is MLIR's own text in generic form that is converted, an operation a line, and parsed as VHLO.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from veery_lowering.emit import vhlo
from veery_lowering.errors import LoweringError
from veery_lowering.mlir import PassManager, context, ir

_BYTECODE_VERSION = 6  # MLIR's, of StableHLO since 0.15

# Of CHLO's operations those that XLA has of its own, some only since lately. JAX sends them as composites, whose
# functions are for a compiler that does not know them.
_COMPOSITES = frozenset(f"chlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "erfc",
                                                    "mulhi", "sinh", "top_k"))  # fmt: skip
_EXPANSION = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
_ELEMENTS, _MARK = re.compile('(?<=")(0x[^"]{256,})'), "\0"
_NAME, _PLACE = "veery.function", " loc(veery)"  # in what is kept of a function


def portable(module: ir.Module) -> bytes:
    """A module of StableHLO and CHLO as a portable artifact.

    Args:
        module: as rules make it, or read from elsewhere: functions, and operations of both dialects. Attributes of
            arguments and of the module stay, and so do locations.

    Returns:
        MLIR bytecode of VHLO 1.9, which StableHLO's readers of that version and later ones take. Operations of CHLO
        are composites where XLA has such an operation, and calls of functions that compute them else.

    Raises:
        LoweringError: there is something in it that is neither, or that StableHLO 1.9 did not have.
    """
    choices = dict(print_generic_op_form=True, enable_debug_info=True, assume_verified=True)
    printed = module.operation.get_asm(binary=True, **choices).decode("ascii")  # a fifth faster than as text
    short, *elements = _apart(printed)
    short = "\n".join(_Conversion(short).lines(short.split("\n")))
    text = "".join(elements[int(part)] if i % 2 else part for i, part in enumerate(short.split(_MARK)))
    stream = io.BytesIO()
    with context():
        try:
            ir.Module.parse(text).operation.write_bytecode(stream, _BYTECODE_VERSION)
        except ir.MLIRError as error:
            raise LoweringError(f"portable: not a module that VHLO can say: {error}") from None
    return _signed(stream.getvalue())


def _apart(printed: str) -> list[str]:
    """A text in which long constants are their numbers between marks, and those constants."""
    parts = _ELEMENTS.split(printed)
    places = (f"{_MARK}{i}{_MARK}" for i in range(len(parts) // 2))
    return ["".join(part for pair in zip(parts[::2], (*places, ""), strict=True) for part in pair), *parts[1::2]]


def _signed(code: bytes) -> bytes:
    """Bytecode with StableHLO named as what made it, by which readers know its version."""
    end = code.index(b"\0")  # behind four magic bytes, the version in one, and MLIR's name
    return code[:5] + f"StableHLO_v{vhlo.VERSION}".encode() + code[end:]


class _Conversion:
    """Of the lines of a module.

    Attributes:
        printed: the text that has all names which functions must not have.
        functions: those that operations of CHLO call, by name, what follows the operands, and location.
    """

    def __init__(self, printed: str = "") -> None:
        self.printed = printed
        self.functions: dict[tuple[str, str, str], str] = {}

    def lines(self, lines: Iterable[str]) -> Iterator[str]:
        """VHLO's lines for those of StableHLO."""
        for line in lines:
            start = line.lstrip()[:1]
            if start in ("%", '"'):
                yield line if line.startswith('"builtin.module"') else self._operation(line)
            elif start == "^":
                yield vhlo.types(line)
            elif line.startswith("})"):
                yield from self._functions()
                yield line
            elif start == "}" and line.endswith(")"):
                regions, place = line.index(")") + 1, line.rindex(" loc(")
                yield line[:regions] + vhlo.behind_regions(line[regions:place]) + line[place:]
            else:
                yield line

    def _operation(self, line: str) -> str:
        start = line.index('"') + 1
        end = line.index('"', start)
        operands = line.index(")", end) + 1
        place = len(line) - len(" ({") if line.endswith(" ({") else line.rindex(" loc(")
        name, rest = line[start:end], line[operands:place]
        if name.startswith("chlo."):
            name, rest = self._function_call(name, rest, line[place:])
        name, rest = vhlo.operation(name, rest)
        return f"{line[:start]}{name}{line[end:operands]}{rest}{line[place:]}"

    def _function_call(self, name: str, rest: str, place: str) -> tuple[str, str]:
        """The StableHLO that an operation of CHLO becomes."""
        known = (name, rest, place)
        symbol = self.functions.get(known)
        if symbol is None:
            symbol = f"{name}.impl_{len(self.functions)}"
            while f'"{symbol}"' in self.printed:
                symbol += "_"
            self.functions[known] = symbol
        own, others, kinds = vhlo.read(rest)
        if name not in _COMPOSITES:
            return "func.call", f' <{{callee = @"{symbol}"}}>{kinds}'
        attributes = ", ".join(filter(None, (own, others)))
        fields = (
            f'composite_attributes = {{{attributes}}}, decomposition = @"{symbol}", name = "{name}", version = 1 : i32'
        )
        return "stablehlo.composite", f" <{{{fields}}}>{kinds}"

    def _functions(self) -> Iterator[str]:
        for (name, rest, place), symbol in self.functions.items():
            yield _function(name, rest).replace(_NAME, symbol).replace(_PLACE, place)


@lru_cache(1024)
def _function(name: str, rest: str) -> str:
    """VHLO's text of a function that computes what an operation of CHLO does, with marks for its name and locations."""
    kinds = vhlo.read(rest)[2].removeprefix(" : ")
    inputs, outputs = (vhlo.split(part.strip("()")) for part in kinds.split(" -> "))
    arguments = ", ".join(f"%arg{i}: {kind}" for i, kind in enumerate(inputs))
    operands = ", ".join(f"%arg{i}" for i in range(len(inputs)))
    results = ", ".join(f"%0#{i}" for i in range(len(outputs)))
    with context():
        module = ir.Module.parse(f"""
            "builtin.module"() ({{
              "func.func"() <{{function_type = {kinds}, sym_name = "{_NAME}", sym_visibility = "private"}}> ({{
              ^bb0({arguments}):
                %0:{len(outputs)} = "{name}"({operands}){rest}
                "func.return"({results}) : ({", ".join(outputs)}) -> ()
              }}) : () -> ()
            }}) : () -> ()""")
        try:
            PassManager.parse(_EXPANSION).run(module.operation)
        except ir.MLIRError as error:
            raise LoweringError(
                f"portable: {name} of {kinds} is not known to XLA, nor how to compute it: {error}"
            ) from None
        printed = module.operation.get_asm(print_generic_op_form=True)
    whole = (line + ("" if line.endswith(("{", ":")) else _PLACE) for line in printed.strip().splitlines()[1:-1])
    return "\n".join(_Conversion().lines(whole))
