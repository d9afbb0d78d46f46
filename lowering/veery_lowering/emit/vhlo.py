"""StableHLO's operations, types and attributes as their versioned copies, VHLO, in the text of MLIR's generic form.

VHLO has no default values and no symbols, a copy of each builtin attribute, and attributes that describe dimensions are
taken apart there (StableHLO's `VhloOps.td`, `VhloAttrs.td`). What was converted once is kept: most operations of a
program are like others but for the names of their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import ml_dtypes
import numpy as np

from veery_lowering.errors import LoweringError

Attributes: TypeAlias = dict[str, str]

# What is written here is read by this StableHLO, of January 2025, and by those of five years after it.
VERSION = "1.9.0"

# The operations that have a second version by then.
_SECOND = frozenset(("all_gather", "all_reduce", "all_to_all", "dot_general", "dynamic_conv", "dynamic_gather",
                     "exponential", "gather", "scatter"))  # fmt: skip
_FUNCTIONS = {"func.func": "func", "func.call": "call", "func.return": "return"}

_PRECISION = {"precision_config": "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"}
_CHANNEL = {"channel_id": "0 : i64"}
_REDUCTION = {**_CHANNEL, "use_global_device_ids": "false"}
_SORTED = {"indices_are_sorted": "false"}
_ACCURACY = "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>"

# What StableHLO's operations mean where they do not say it.
_DEFAULTS: dict[str, Attributes] = {
    "func": {"sym_visibility": '""', "arg_attrs": "[]", "res_attrs": "[]"},
    "all_gather": _REDUCTION,
    "all_reduce": _REDUCTION,
    "all_to_all": _CHANNEL,
    "cholesky": {"lower": "false"},
    "collective_broadcast": _CHANNEL,
    "collective_permute": _CHANNEL,
    "composite": {"version": "0 : i32", "composite_attributes": "{}"},
    "convolution": _PRECISION,
    "custom_call": {
        "has_side_effect": "false",
        "api_version": "1 : i32",
        **dict.fromkeys(("called_computations", "operand_layouts", "result_layouts", "output_operand_aliases"), "[]"),
    },
    "dot": _PRECISION,
    "dot_general": _PRECISION,
    "dynamic_broadcast_in_dim": {
        "known_expanding_dimensions": "array<i64>",
        "known_nonexpanding_dimensions": "array<i64>",
    },
    "dynamic_conv": _PRECISION,
    "dynamic_gather": _SORTED,
    "exponential": {"result_accuracy": _ACCURACY},
    "gather": _SORTED,
    "infeed": {"infeed_config": '""', "layout": "[]"},
    "outfeed": {"outfeed_config": '""'},
    "recv": {"is_host_transfer": "false"},
    "reduce_scatter": _REDUCTION,
    "scatter": {**_SORTED, "unique_indices": "false"},
    "send": {"is_host_transfer": "false"},
    "sort": {"dimension": "-1 : i64", "is_stable": "false"},
}
# The same of windows, which have an entry for each dimension of another attribute.
_WINDOWS = {
    "convolution": ("window_strides", "lhs_dilation", "rhs_dilation", "padding", "window_reversal"),
    "dynamic_conv": ("window_strides", "lhs_dilation", "rhs_dilation", "window_reversal"),
    "reduce_window": ("window_strides", "base_dilations", "window_dilations", "padding"),
    "select_and_scatter": ("window_strides", "padding"),
}
# What has become part of operations later, and may be left out where it is this.
_LATER = {
    "result_accuracy": _ACCURACY,
    "result_tilings": "[]",
    "source_target_pairs": "array<i64>",
}
_API_VERSIONS = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")

# The parts of attributes that describe dimensions: lists, and numbers.
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dot": (("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
             "rhs_contracting_dimensions"), ()),
    "gather": (("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
                "start_index_map"), ("index_vector_dim",)),
    "scatter": (("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
                 "scatter_dims_to_operand_dims"), ("index_vector_dim",)),
}  # fmt: skip
_ALGORITHM_TYPES = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
_ALGORITHM_COUNTS = ("lhs_component_count", "rhs_component_count", "num_primitive_operations")
_IMPRECISE = "allow_imprecise_accumulation"


def behind_regions(rest: str) -> str:
    """What follows the regions of an operation, up to its location."""
    _, attributes, kinds = read(rest)
    return _others(attributes) + types(kinds)


def read(rest: str) -> tuple[str, str, str]:
    """Of what follows operands or regions: the entries of an operation's own attributes, of others, and the types."""
    own, rest = _leading(rest, " <{", "}>")
    others, rest = _leading(rest, " {", "}")
    return own, others, rest


@lru_cache(4096)
def operation(name: str, rest: str) -> tuple[str, str]:
    """The name of an operation in VHLO, and what follows its operands.

    Args:
        name: in StableHLO, or that of a function, call or return.
        rest: what follows the operands: attributes and types, up to the first region, or to the location.

    Raises:
        LoweringError: it is of another dialect, or came to StableHLO later, or has an attribute of such kind.
    """
    base = _FUNCTIONS.get(name) or name.removeprefix("stablehlo.")
    if base == name:
        raise LoweringError(f"portable: {name} is no operation of StableHLO or CHLO, of which portable artifacts are")
    own, others, kinds = read(rest)
    if base == "compare" and "compare_type" not in own:
        own = ", ".join((own, f"compare_type = #stablehlo<comparison_type {_comparison(kinds)}>"))
    try:
        converted = dict(_own(base, dictionary(own)))
        written = (_written(converted, " <{", "}>") if converted else "") + _others(others)
    except LoweringError as error:
        raise LoweringError(f"portable: {name} has {error}") from None
    return f"vhlo.{base}_v{2 if base in _SECOND else 1}", written + types(kinds)


def _comparison(kinds: str) -> str:
    """How elements of a type compare. XLA of November 2025 takes constants without that word for unsigned."""
    element = _ELEMENT.search(kinds)
    if element is None:
        return "NOTYPE"
    return "UNSIGNED" if element[1] in ("i1", "ui") else "SIGNED" if element[1] == "i" else "FLOAT"


_ELEMENT = re.compile(r"tensor<(?:[\d?]+x)*(i1(?!\d)|ui|i|f|bf|complex)")


def _others(text: str) -> str:
    entries = {key: attribute(value) for key, value in dictionary(text).items()}
    return _written(entries, " {", "}") if entries else ""


def _leading(text: str, opening: str, ending: str) -> tuple[str, str]:
    """The entries of the dictionary that a text begins with, if it does, and what follows."""
    if not text.startswith(opening):
        return "", text
    end = _closing(text)
    return text[len(opening) : end - len(ending)], text[end:]


def _written(attributes: Attributes, opening: str, ending: str) -> str:
    return f"{opening}{', '.join(f'{key} = {value}' for key, value in attributes.items())}{ending}"


def _own(name: str, attributes: Attributes) -> Iterator[tuple[str, str]]:
    """The attributes of an operation that VHLO defines for it."""
    given = {**_DEFAULTS.get(name, {}), **_window(name, attributes), **attributes}
    if "channel_handle" in given:
        given.pop("channel_id", None)
    if name == "custom_call":
        given.setdefault("backend_config", "{}" if given["api_version"].startswith("4 ") else '""')
    if name == "dot_general" and "algorithm" not in given:
        yield from dict.fromkeys((*_ALGORITHM_TYPES, *_ALGORITHM_COUNTS, _IMPRECISE), attribute("none")).items()
    for key, text in given.items():
        if key in _LATER and not (name == "exponential" or text.startswith("dense<")):
            if text != _LATER[key]:
                raise LoweringError(f"a {key} of {text}, which StableHLO {VERSION} does not have")
        elif key == "api_version":
            yield key, f"#vhlo<api_version_v1 API_VERSION_{_API_VERSIONS[int(text.split()[0])]}>"
        elif key == "use_global_device_ids" and text == "unit":
            yield key, attribute("true")
        elif key == "channel_handle":
            handle = _fields(text)
            yield "channel_id", _integer(handle["handle"])
            if name in ("send", "recv"):
                yield "channel_type", _integer(handle["type"])
        elif key == "algorithm":
            yield from _algorithm(_fields(text))
        elif text.startswith("#stablehlo.conv<"):
            yield from _layouts(text)
        elif text.startswith(("#stablehlo.dot<", "#stablehlo.gather<", "#stablehlo.scatter<")):
            yield from _dimensions(text)
        else:
            yield key, attribute(text)


def _window(name: str, attributes: Attributes) -> Attributes:
    """The default values of a window."""
    if name not in _WINDOWS:
        return {}
    if name in ("convolution", "dynamic_conv"):
        rank = attributes["dimension_numbers"].partition("x[")[0].count(",") - 1
    else:
        rank = len(split(attributes["window_dimensions"].partition(": ")[2].rstrip(">")))
    if not rank:  # of which there is no element to repeat
        empty = {"padding": "dense<> : tensor<0x2xi64>", "window_reversal": "array<i1>"}
        return {key: empty.get(key, "array<i64>") for key in _WINDOWS[name]}
    values = {"padding": f"dense<0> : tensor<{rank}x2xi64>", "window_reversal": f"dense<false> : tensor<{rank}xi1>"}
    return {key: values.get(key, f"dense<1> : tensor<{rank}xi64>") for key in _WINDOWS[name]}


def _dimensions(text: str) -> Iterator[tuple[str, str]]:
    """The parts of an attribute that describes dimensions."""
    fields = _fields(text)
    lists, numbers = _PARTS[text[len("#stablehlo.") : text.index("<")]]
    for key in lists:
        yield key, _integers(split(fields.get(key, "[]")[1:-1]))
    for key in numbers:
        yield key, _integer(fields.get(key, "0"))


def _layouts(text: str) -> Iterator[tuple[str, str]]:
    """The parts of the layouts of a convolution: `#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>`."""
    layouts = [part.split(", ") for part in re.findall(r"\[([^]]*)\]", text)]
    letters = (("batch", "b"), ("feature", "f")), (("input_feature", "i"), ("output_feature", "o"))
    for side, layout, named in zip(("input", "kernel", "output"), layouts, (letters[0], *letters[::-1]), strict=True):
        for meaning, letter in named:
            yield f"{side}_{meaning}_dimension", _integer(layout.index(letter))
        spatial = sorted(int(mark) for mark in layout if mark.isdigit())
        yield f"{side}_spatial_dimensions", _integers([layout.index(str(mark)) for mark in spatial])


def _algorithm(fields: Attributes) -> Iterator[tuple[str, str]]:
    for key in _ALGORITHM_TYPES:
        yield key, attribute(fields[key])
    for key in _ALGORITHM_COUNTS:
        yield key, _integer(fields[key])
    yield _IMPRECISE, attribute(fields[_IMPRECISE])


def _fields(text: str) -> Attributes:
    """The fields of `#stablehlo.name<key = value, ...>`."""
    return dictionary(text[text.index("<") + 1 : -1])


def _integer(number: int | str) -> str:
    return f"#vhlo.integer_v1<{number} : i64>"


def _integers(numbers: list[int] | list[str], kind: str = "i64") -> str:
    elements = f"[{', '.join(map(str, numbers))}]" if numbers else ""
    return f"#vhlo.tensor_v1<dense<{elements}> : tensor<{len(numbers)}x{kind}>>"


def attribute(text: str) -> str:
    """An attribute that may be one of any operation.

    Raises:
        LoweringError: VHLO has none like it.
    """
    first = text[0]
    if first == '"':
        return f"#vhlo.string_v1<{text}>"
    if first == "@":
        return f"#vhlo.string_v1<{_quoted(text[1:])}>"
    if first == "[":
        return f"#vhlo.array_v1<[{', '.join(map(attribute, split(text[1:-1])))}]>"
    if first == "{":
        entries = (f"{attribute(_quoted(key))} = {attribute(value)}" for key, value in dictionary(text[1:-1]).items())
        return f"#vhlo.dict_v1<{{{', '.join(entries)}}}>"
    if text in ("true", "false"):
        return f"#vhlo.bool_v1<{text}>"
    if text.startswith("dense<"):
        return f"#vhlo.tensor_v1<{text}>"
    if match := _ARRAY.fullmatch(text):
        return _integers(split(match[2] or ""), match[1])
    if match := _ENUM.fullmatch(text):
        return f"#vhlo<{match[1]}_v1 {match[2]}>"
    if text.startswith("#stablehlo.output_operand_alias<"):
        fields = _fields(text)
        names = {"outputTupleIndices": "output_tuple_indices", "operandIndex": "operand_index",
                 "operandTupleIndices": "operand_tuple_indices"}  # fmt: skip
        return f"#vhlo.output_operand_alias_v1<{', '.join(f'{k} = {fields[v]}' for k, v in names.items())}>"
    if text.startswith("#stablehlo.result_accuracy<"):
        fields = {"atol": "0.0", "rtol": "0.0", "ulps": "0", **_fields(text)}
        mode = fields.pop("mode").partition("<")[2].rstrip(">")
        numbers = ", ".join(f"{key} = {fields[key]}" for key in ("atol", "rtol", "ulps"))
        return f"#vhlo.result_accuracy_v1<{numbers}, mode = #vhlo<result_accuracy_mode_v1 {mode}>>"
    if match := _NUMBER.fullmatch(text):
        number, kind = match.groups()
        return _float(number, kind) if kind.startswith(("f", "b")) else f"#vhlo.integer_v1<{text}>"
    if match := _FUNCTION.fullmatch(text):
        return f"#vhlo.type_v1<!vhlo.func_v1<({_several(match[1])}) -> {_several(match[2])}>>"
    if _TYPE.match(text):
        return f"#vhlo.type_v1<{types(text)}>"
    raise LoweringError(f"the attribute {text[:200]}, which StableHLO's portable artifacts do not have")


_ARRAY = re.compile(r"array<(i64|i1)(?:: ([^>]*))?>")
_ENUM = re.compile(r"#stablehlo<(\w+) (\w+)>")
_NUMBER = re.compile(r"(-?\d[\w.+-]*) : (\w+)")
_FUNCTION = re.compile(r"(\(.*\)) -> (.*)")


def _several(text: str) -> str:
    """The types of a function's arguments or results, which VHLO writes without parentheses."""
    return types(text[1:-1] if text.startswith("(") else text) or "()"


def _quoted(name: str) -> str:
    return name if name.startswith('"') else f'"{name}"'


_FLOATS = {"f32": (np.float32, np.uint32), "f16": (np.float16, np.uint16), "bf16": (ml_dtypes.bfloat16, np.uint16)}


def _float(number: str, kind: str) -> str:
    """A number of a kind of float.

    VHLO's parser makes a double of each, of which VHLO's writer writes the bits where its reader wants those of the
    kind, with the sign's in front. So this is the double with these bits.
    """
    if kind not in (*_FLOATS, "f64"):
        raise LoweringError(f"a number of type {kind}, for which portable artifacts have no room")
    if kind != "f64":
        dtype, unsigned = _FLOATS[kind]
        width = 8 * np.dtype(dtype).itemsize
        is_bits = number.startswith("0x")
        bits = int(number, 16) if is_bits else int(np.array(float(number)).astype(dtype).view(unsigned))
        number = f"0x{bits + (bits >> (width - 1)) * (2**64 - 2**width):016X}"
    return f"#vhlo.float_v1<{number} : !vhlo.{kind}_v1>"


@lru_cache(4096)
def types(text: str) -> str:
    """Types, within what surrounds them: `(tensor<2xf32>) -> i1`."""
    return _TYPE.sub(_type, text)


_TYPE = re.compile(
    r"""("[^"]*")
    | tensor<((?:(?:\d+|\?)x)*)(complex<\w+>|\w+)>
    | (complex<\w+>)
    | !stablehlo\.(token)
    | \b(tuple)<
    | \b(none|index|(?:i|ui|f|bf|tf)\d\w*)\b""",
    re.VERBOSE,
)
_ELEMENTS = {"i1": "bool", "tf32": "tf31"}


def _type(match: re.Match[str]) -> str:
    quoted, sizes, element, number, token, is_tuple, scalar = match.groups()
    if quoted:
        return str(quoted)
    if is_tuple:
        return "!vhlo.tuple_v1<"
    return f"!vhlo.tensor_v1<{sizes}{_element(element)}>" if element else _element(number or token or scalar)


def _element(name: str) -> str:
    if name.startswith("complex<"):
        return f"!vhlo.complex_v1<{_element(name[len('complex<') : -1])}>"
    return f"!vhlo.{_ELEMENTS.get(name, name)}_v1"


_MARK = re.compile(r'"[^"]*"|->|[][(){}<>,]')  # quotes within quotes are written as \22


def split(text: str) -> list[str]:
    """What commas separate that are in no brackets and no quotes."""
    parts, depth, start = [], 0, 0
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark == "," and not depth:
            parts.append(text[start : match.start()].strip())
            start = match.end()
        elif mark in "([{<":
            depth += 1
        elif mark in ")]}>":
            depth -= 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def dictionary(text: str) -> Attributes:
    """The entries of `name = value, ...`; those without a value are units."""
    entries = (_ENTRY.fullmatch(part) for part in split(text))
    return {entry[1]: entry[2] or "unit" for entry in entries if entry}


_ENTRY = re.compile(r'("[^"]*"|[^ ]*)(?: = (.*))?', re.DOTALL)


def _closing(text: str) -> int:
    """Where the bracket that is opened first is closed behind."""
    depth = 0
    for match in _MARK.finditer(text):
        if match[0] in "([{<":
            depth += 1
        elif match[0] in ")]}>":
            depth -= 1
            if not depth:
                return match.end()
    raise LoweringError(f"portable: a bracket is not closed in {text[:200]}")
