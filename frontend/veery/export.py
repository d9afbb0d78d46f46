"""Functions as StableHLO that outlives the process: `export(jit(f))(*specs)`, serialised, loaded and called elsewhere.

>>> import veery, veery.numpy as jnp
>>> from veery import export
>>> exported = export.export(veery.jit(jnp.sin))(veery.ShapeDtypeStruct((3,), "float32"))
>>> data = exported.serialize()
>>> export.deserialize(data).call(jnp.zeros(3))
Array([0., 0., 0.], dtype=float32)

For files with machine code, which need no compiler, see `veery.aot`.

Symbolic shapes (`symbolic_shape`; also in `aot.compile` and `jit(dynamic_shapes=...)`) are for elementwise functions,
broadcasting, reshaping, joining, padding, reductions, contractions, convolutions, indexing, windows, sorting, running
folds, random numbers, loops, branches and their derivatives, on the CPU and on Vulkan. What cannot be dynamic says so
when it is traced or compiled:

- sizes of images and kernels of convolutions (their batch and features can); Fourier transforms, linear algebra,
  callbacks, general `reduce` and `reduce_window`, digamma, polygamma, zeta, incomplete and Bessel functions;
- bitcasts between widths and the words of a symbolic number of keys; `random.permutation`, and `choice` without
  replacement; `associative_scan` along a symbolic axis; `jnp.pad(reflect_type="odd")`;
- Python's use of a size: `range(b)`, `float(b)`, `if b > 8` where constraints do not decide it;
- shapes that depend on values (`x[x > 0]`, `nonzero` without size), as under `jit` anyway;
- `random.poisson`, `random.binomial`, `nanmedian`, `unique(size=)` and `union1d(size=)`: IREE fails on them, which
  raises CompileError.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veery import _dispatch
from veery._api.autodiff import vjp as vjp_of
from veery._api.custom_derivatives import custom_vjp
from veery._api.entries import refuse_refs
from veery._api.jit import JitFunction, jit
from veery._api.shape_structs import ShapeDtypeStruct
from veery._api.structures import (
    describe_with_types,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
    tree_of,
)
from veery._core import dtypes, tree
from veery._core.avals import ShapedArray, aval_of
from veery._core.dimensions import SymbolicScope, is_symbolic, is_symbolic_dim, may_fit, parse_shape, scope_of
from veery._core.jaxpr import eval_jaxpr
from veery._core.mesh import AbstractMesh, AxisType, Mesh
from veery._core.partition_spec import PartitionSpec
from veery._core.sharding import NamedSharding
from veery._core.tree import tree_leaves_with_path
from veery._core.tree_registry import keystr
from veery._transforms.foreign import Types, avals_of, call_module_p
from veery._transforms.staging import with_consts

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]

_PLATFORMS = ("cpu", "vulkan", "cuda")
_MAGIC = b"veery-export-4\n"

# JAX's numbers for modules whose functions take the arguments alone.
minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


@dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that `export`, and calls of what it exported, leave out. Made by `platform` and `custom_call`."""

    _text: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allows calls on other platforms than those that were exported for: the first one's module is taken."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allows a custom call. What is exported holds none, so that this changes nothing."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the custom call that is allowed; None for other checks."""
        kind, colon, name = self._text.partition(":")
        return name if colon and kind == "custom_call" else None

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


@dataclass(frozen=True)
class Exported:
    """A function lowered to StableHLO for given types of arguments.

    Attributes:
        fun_name: the function's name.
        in_tree, in_avals: the structure of (args, kwargs) and the types of its leaves.
        out_tree, out_avals: of the result.
        platforms: what it was lowered for.
        disabled_safety_checks: what is not checked.
        nr_devices: how many devices the shardings of the arguments and results are over, abstract meshes among them.
            It runs on one.
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    platforms: tuple[str, ...]
    _modules: tuple[bytes, ...] = field(repr=False)
    _vjp: Callable[[], Exported] | None = field(default=None, repr=False, compare=False)
    _called: list[Any] = field(default_factory=list, repr=False, compare=False)
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...] = ()
    nr_devices: int = 1
    _in_named_shardings: tuple[NamedSharding | None, ...] = field(default=(), repr=False)
    _out_named_shardings: tuple[NamedSharding | None, ...] = field(default=(), repr=False)

    @property
    def mlir_module_serialized(self) -> bytes:
        """MLIR bytecode of the module for the first platform."""
        return self._modules[0]

    @property
    def uses_global_constants(self) -> bool:
        """Whether shapes are symbolic. (In JAX also whether there are several platforms: each has a module here.)"""
        return any(is_symbolic(a.shape) for a in self.in_avals)

    # What JAX's Exported says beside this: one device holds each array, all arguments are kept, and neither effects nor
    # unknown operations pass the exporter.

    calling_convention_version = property(lambda self: maximum_supported_calling_convention_version)
    ordered_effects = unordered_effects = property(lambda self: ())
    module_kept_var_idx = property(lambda self: tuple(range(len(self.in_avals))))
    in_shardings_hlo = property(lambda self: (None,) * len(self.in_avals))
    out_shardings_hlo = property(lambda self: (None,) * len(self.out_avals))

    _has_named_shardings = property(lambda self: True)

    def in_shardings_jax(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """How the flat arguments were divided over a mesh like this one; None where the function was not told so.

        Raises:
            ValueError: they were divided over a mesh of other axes.

        >>> import veery, veery.numpy as jnp
        >>> from veery import export
        >>> mesh = veery.make_mesh((1,), ("i",))
        >>> rows = veery.NamedSharding(mesh, veery.P("i"))
        >>> exported = export.export(veery.jit(jnp.add, in_shardings=(rows, None)))(jnp.ones(3), 1.0)
        >>> exported.in_shardings_jax(mesh) == (rows, None)
        True
        """
        return _over(mesh, self._in_named_shardings)

    def out_shardings_jax(self, mesh: Mesh) -> tuple[NamedSharding | None, ...]:
        """How the flat results were divided; see `in_shardings_jax`."""
        return _over(mesh, self._out_named_shardings)

    def mlir_module(self, platform: str | None = None) -> str:
        """The StableHLO module as text, for the first platform or the one named; ValueError for one without."""
        if platform not in (None, *self.platforms):
            raise ValueError(f"{self.fun_name} was exported for the platforms {self.platforms}, not for {platform!r}")
        index = 0 if platform is None else self.platforms.index(platform)
        return _dispatch.module_text(self._modules[index])

    def has_vjp(self) -> bool:
        """Whether the derivative is there."""
        return self._vjp is not None

    def vjp(self) -> Exported:
        """The derivative: a function of the flat arguments and the results' cotangents to the arguments' cotangents.

        Raises:
            ValueError: it was not serialised (see `serialize`).
        """
        if self._vjp is None:
            raise ValueError(f"No VJP is available for {self.fun_name}: serialize it with a greater vjp_order")
        return self._vjp()

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The exported function as bytes.

        Args:
            vjp_order: 1 to take the derivative with it, 2 the second one too, ...

        Raises:
            ValueError: containers that cannot be described, a negative order.

        The StableHLO within is bound to this version of IREE: its bindings do not offer versioned serialisation.
        """
        if vjp_order < 0:
            raise ValueError(f"serialize: vjp_order must not be negative, got {vjp_order}")
        content = {
            "name": self.fun_name,
            "trees": [describe_with_types(self.in_tree), describe_with_types(self.out_tree)],
            "disabled": list(map(str, self.disabled_safety_checks)),
            "in": [_described(a) for a in self.in_avals],
            "out": [_described(a) for a in self.out_avals],
            "constraints": scope_of(a.shape for a in self.in_avals).constraints,
            "platforms": self.platforms,
            "devices": self.nr_devices,
            "shardings": [
                list(map(_described_sharding, x)) for x in (self._in_named_shardings, self._out_named_shardings)
            ],
            "modules": [base64.b64encode(m).decode() for m in self._modules],
            "vjp": base64.b64encode(self.vjp().serialize(vjp_order - 1)).decode() if vjp_order else None,
        }
        body = json.dumps(content, separators=(",", ":")).encode()
        return bytearray(_MAGIC + hashlib.sha256(body).digest() + body)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function. It may be called in functions under jit, and differentiated where the vjp is there.

        Raises:
            ValueError: the arguments differ in structure or type, or this platform was not exported for.
        """
        leaves, treedef = tree.tree_flatten((args, kwargs))
        if treedef != self.in_tree:
            raise ValueError(
                f"The invocation args and kwargs must have the same pytree structure as when the function "
                f"'{self.fun_name}' was exported, but they have {treedef} instead of {self.in_tree}"
            )
        self._check(leaves, args, kwargs)
        if not self._called:
            self._called.append(self._callable())
        return tree.tree_unflatten(self.out_tree, self._called[0](*leaves))

    def _check(self, leaves: Sequence[Any], args: Any, kwargs: Any) -> None:
        """Raise ValueError for arguments of other types; sizes of symbolic dimensions are checked by the program."""
        for i, (given, wanted) in enumerate(zip(map(aval_of, leaves), self.in_avals)):
            if given.dtype == wanted.dtype and may_fit(given.shape, wanted.shape):
                continue
            (which, *rest), _ = tree_leaves_with_path((args, kwargs))[i]
            what, *types = "Shape", tuple(wanted.shape), tuple(given.shape)
            if given.dtype != wanted.dtype:
                what, *types = "Dtype", wanted.dtype, given.dtype
            raise ValueError(
                f"{what} mismatch for {('args', 'kwargs')[which.idx]}{keystr(tuple(rest))} of {self.fun_name}: "
                f"expected {types[0]} and called with {types[1]}"
            )

    def _callable(self) -> Callable[..., Any]:
        modules = dict(zip(self.platforms, self._modules))
        if DisabledSafetyCheck.platform() in self.disabled_safety_checks:
            modules = {**modules, **{name: self._modules[0] for name in _PLATFORMS if name not in modules}}
        module = _dispatch.read_modules(modules)
        types = Types(self.in_avals, self.out_avals)

        def plain(*leaves: Any) -> tuple[Any, ...]:
            return tuple(call_module_p.bind(*leaves, module=module, types=types))

        plain.__name__ = plain.__qualname__ = f"call_{self.fun_name}"
        differentiable = custom_vjp(plain)

        def backward(leaves: tuple[Any, ...], cts: Any) -> tuple[Any, ...]:
            return tuple(self.vjp().call(*leaves, *_cotangents(cts, self.out_avals)))

        # Itself, not plain: for derivatives of the derivative.
        differentiable.defvjp(lambda *leaves: (differentiable(*leaves), leaves), backward)
        return jit(differentiable)


def _cotangents(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Integers have no cotangents: theirs are of dtype float0."""
    return [g if _has_tangent(a) else np.zeros(a.shape, dtypes.float0) for g, a in zip(values, avals)]


def _has_tangent(aval: ShapedArray) -> bool:
    return dtypes.issubdtype(aval.dtype, np.inexact)


def _described(aval: ShapedArray) -> Any:
    name = "float0" if aval.dtype == dtypes.float0 else aval.dtype.name
    return [[str(d) if is_symbolic_dim(d) else d for d in aval.shape], name]


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """A shape with dimensions that get their sizes when the program runs.

    Args:
        shape_spec: dimensions between commas: integers, names, and expressions of both with +, -, *, ^,
            floordiv(a, b), mod(a, b), max(a, b), min(a, b). With `like`, "_" is its dimension there and "..." all that
            are left; None is `like` itself. Names stand for integers of at least 1.
        constraints: what holds of them, e.g. "b >= 8", "b <= 2*c", "mod(b, 4) == 0". Assumed when tracing, checked
            when called.
        scope: where the names are defined: one scope for the arguments of one function. By default a new one.
        like: the shape that placeholders are filled from.

    Returns:
        A tuple of ints and dimension expressions, for ShapeDtypeStruct.

    Raises:
        ValueError: the text is no shape.

    >>> from veery import export
    >>> twice, b = export.symbolic_shape("2*b, b")
    >>> twice // 2 == b, 3 * b + 1, twice % 3
    (True, 3*b + 1, mod(2*b, 3))
    """
    if scope is not None and constraints:
        raise ValueError("symbolic_shape: constraints belong to the scope: pass SymbolicScope(constraints)")
    spec = "..." if shape_spec is None else shape_spec
    return parse_shape(spec, scope or SymbolicScope(constraints), None if like is None else tuple(like))


def symbolic_args_specs(
    args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None
) -> Any:
    """The types of arguments, with symbolic dimensions.

    Args:
        args: a pytree of arrays or ShapeDtypeStructs.
        shapes_specs: texts as for `symbolic_shape`: one for all arrays, or a pytree whose leaves stand for the parts of
            `args`. None leaves the shapes as they are.
        constraints, scope: as for `symbolic_shape`.

    Returns:
        The pytree of ShapeDtypeStructs.

    Raises:
        ValueError: a text is no shape, or does not fit the array's.

    >>> import veery.numpy as jnp
    >>> from veery import export
    >>> export.symbolic_args_specs((jnp.ones((8, 3)), jnp.ones(3)), ("b, ...", None))
    (ShapeDtypeStruct(shape=(b, 3), dtype=float32), ShapeDtypeStruct(shape=(3,), dtype=float32))
    """
    scope = scope or SymbolicScope(constraints)

    def specify(spec: str | None, part: Any) -> Any:
        return tree.tree_map(lambda x: _specified(aval_of(x), spec, scope), part)

    return tree.tree_map(specify, shapes_specs, args, is_leaf=lambda x: x is None or isinstance(x, str))


def _specified(aval: ShapedArray, spec: str | None, scope: SymbolicScope) -> ShapeDtypeStruct:
    shape = aval.shape if spec is None else parse_shape(spec, scope, aval.shape)
    return ShapeDtypeStruct(shape, aval.dtype)


def default_export_platform() -> str:
    """The platform that is exported for when none is named."""
    return _dispatch.default_device().platform


def export(
    fun_jit: Callable[..., Any], *, platforms: Sequence[str] | None = None, disabled_checks: Sequence[Any] = ()
) -> Callable[..., Exported]:
    """Export a function.

    Args:
        fun_jit: `jit` of a function, with its options.
        platforms: "cpu", "vulkan", "cuda", "tpu", "rocm", "metal", any targets of `veery.aot.compile`; they need not be
            here. By default the one that is.
        disabled_checks: what is not to be checked: `DisabledSafetyCheck`s.

    Returns:
        A function of the arguments' types (arrays or ShapeDtypeStructs, static arguments as values), which returns an
        `Exported`.

    Raises:
        ValueError: the function is not the result of `jit`.
        LoweringError: the function needs Python at run time (callbacks), or an operation lacks on a platform.

    >>> import veery, veery.numpy as jnp
    >>> from veery import export
    >>> exported = export.export(veery.jit(jnp.cos), platforms=["cpu", "vulkan"])(jnp.ones(3))
    >>> exported.platforms, exported.in_avals
    (('cpu', 'vulkan'), (ShapedArray(float32[3]),))
    """
    function = _jitted(fun_jit)
    chosen = (platforms,) if isinstance(platforms, str) else tuple(platforms or (default_export_platform(),))

    def exporter(*args: Any, **kwargs: Any) -> Exported:
        traced = function.trace(*args, **kwargs)
        avals = tuple(traced._signature.avals)
        inner = traced._traced
        refuse_refs(inner)
        closed = with_consts(inner.program, list(map(_constant, inner.consts)))
        keep = (False,) * len(avals)
        lower = lambda platform: _dispatch.lower_jaxpr(closed, inner.name, platform, keep, self_contained=True)
        modules = tuple(lower(platform).as_bytecode() for platform in chosen)
        flat = lambda *leaves: eval_jaxpr(inner.program.jaxpr, (), *inner.consts, *leaves)
        outs = tuple(closed.out_avals)
        checks = tuple(disabled_checks)
        vjp = lambda: _export_vjp(flat, inner.name, avals, outs, platforms=chosen, disabled_checks=checks)
        return Exported(
            inner.name, traced.in_tree, avals, traced.out_tree, outs, chosen, modules, vjp,
            disabled_safety_checks=checks, nr_devices=_device_count(traced),
            _in_named_shardings=_named(traced.in_shardings), _out_named_shardings=_named(_out_shardings(traced)),
        )  # fmt: skip

    return exporter


def _out_shardings(traced: Any) -> list[Any]:
    return [getattr(x, "sharding", None) for x in tree.tree_leaves(traced.out_info)]


def _device_count(traced: Any) -> int:
    """How many devices the shardings of a traced function are over."""
    return max((s.num_devices for s in (*traced.in_shardings, *_out_shardings(traced)) if s is not None), default=1)


def _named(shardings: Sequence[Any]) -> tuple[NamedSharding | None, ...]:
    """Shardings over a mesh without its devices; None for others."""
    return tuple(s.update(mesh=s.mesh.abstract_mesh) if isinstance(s, NamedSharding) else None for s in shardings)


def _over(mesh: Mesh, shardings: Sequence[NamedSharding | None]) -> tuple[NamedSharding | None, ...]:
    for s in filter(None, shardings):
        if (s.mesh.shape_tuple, s.mesh.axis_types) != (mesh.shape_tuple, mesh.axis_types):
            raise ValueError(
                f"NamedSharding new mesh {mesh} does not match the mesh used for export {s.mesh}. Give one with axes "
                "of these names, sizes and types."
            )
    return tuple(s and s.update(mesh=mesh) for s in shardings)


def _described_sharding(s: NamedSharding | None) -> Any:
    """A sharding as JSON holds it."""
    if s is None:
        return None
    axes = [[name, size, kind.name] for (name, size), kind in zip(s.mesh.shape_tuple, s.mesh.axis_types)]
    entries = [list(x) if isinstance(x, tuple) else x for x in s.spec]
    names = [name for name, *_ in axes] + [name for x in entries for name in (x if isinstance(x, list) else [x])]
    if not all(name is None or isinstance(name, str) for name in names):
        raise ValueError(f"serialize: axes of a mesh are stored by names that are text, but {s} has others")
    return {"axes": axes, "spec": entries, "memory": s.memory_kind}


def _sharding_of(content: Any) -> NamedSharding | None:
    if content is None:
        return None
    names, sizes, kinds = zip(*content["axes"]) if content["axes"] else ((), (), ())
    mesh = AbstractMesh(tuple(sizes), tuple(names), axis_types=tuple(AxisType[kind] for kind in kinds))
    spec = PartitionSpec(*(tuple(x) if isinstance(x, list) else x for x in content["spec"]))
    return NamedSharding(mesh, spec, memory_kind=content["memory"])


def _constant(value: Any) -> np.ndarray:
    return value if aval_of(value).dtype == dtypes.float0 else _dispatch.as_array(value).to_numpy()


def _jitted(fun: Any) -> JitFunction:
    """A function that `jit` made, or one of veery's own, which need none."""
    if isinstance(fun, JitFunction):
        return fun
    if callable(fun) and str(getattr(fun, "__module__", "")).startswith("veery."):
        return jit(fun)
    raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun}")


def _export_vjp(
    flat: Callable[..., Any], name: str, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], **choices: Any
) -> Exported:
    spec = lambda a: ShapeDtypeStruct(a.shape, a.dtype)
    cotangent = lambda a: spec(a) if _has_tangent(a) else ShapeDtypeStruct(a.shape, dtypes.float0)
    count = len(avals)

    def derivative(*given: Any) -> tuple[Any, ...]:
        _, pullback = vjp_of(lambda *leaves: tuple(flat(*leaves)), *given[:count])
        return tuple(_cotangents(pullback(tuple(_cotangents(given[count:], outs))), avals))

    derivative.__name__ = f"{name}_vjp"
    return export(jit(derivative), **choices)(*map(spec, avals), *map(cotangent, outs))


def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported function of `Exported.serialize`.

    Raises:
        ValueError: the data are damaged, or something else.
    """
    data = bytes(blob)
    digest, body = data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC):
        raise ValueError("deserialize: the data are no function exported by veery (or by another version of it)")
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("deserialize: the data are damaged: their SHA-256 does not match")
    content = json.loads(body)
    in_tree, out_tree = map(tree_of, content["trees"])
    nested = content["vjp"]
    scope = SymbolicScope(content["constraints"])
    return Exported(
        content["name"], in_tree, tuple(avals_of(content["in"], scope)), out_tree,
        tuple(avals_of(content["out"], scope)),
        tuple(content["platforms"]), tuple(base64.b64decode(m) for m in content["modules"]),
        None if nested is None else lambda: deserialize(base64.b64decode(nested)),
        disabled_safety_checks=tuple(map(DisabledSafetyCheck, content["disabled"])), nr_devices=content["devices"],
        _in_named_shardings=tuple(map(_sharding_of, content["shardings"][0])),
        _out_named_shardings=tuple(map(_sharding_of, content["shardings"][1])),
    )  # fmt: skip
