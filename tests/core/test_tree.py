"""Pytrees: JAX's semantics, structures, paths, prefixes, registration."""

import collections
import dataclasses
import functools
import operator
import pickle
import re
import time
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from veery import tree, tree_util
from veery._core import tree as core_tree
from veery._core.tree_errors import equality_errors, equality_errors_pytreedef, prefix_errors
from veery.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, Partial, SequenceKey, keystr


class Point(NamedTuple):
    x: Any
    y: Any


class Other(NamedTuple):
    x: Any


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), ("aux",)

    @classmethod
    def tree_unflatten(cls, aux, children):
        assert aux == ("aux",)
        return cls(*children)

    def __eq__(self, other):
        return isinstance(other, Pair) and (self.a, self.b) == (other.a, other.b)


@tree_util.register_pytree_with_keys_class
class Keyed(Pair):
    def tree_flatten_with_keys(self):
        return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), ("aux",)


@tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    weights: Any
    name: str = tree.static(default="model")


@tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    value: int


@tree_util.register_pytree_node_class
class Several(tuple):
    def tree_flatten(self):
        return tuple(self), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(children)


def ordered(*pairs):
    return collections.OrderedDict(pairs)


TREES = {
    "leaf": (1, "*", [1]),
    "none": (None, "None", []),
    "empty tuple": ((), "()", []),
    "tuple of one": ((1,), "(*,)", [1]),
    "tuple": ((1, (2, 3)), "(*, (*, *))", [1, 2, 3]),
    "list": ([1, None, []], "[*, None, []]", [1]),
    "dict in the order of keys": ({"b": 1, "a": (2, 3)}, "{'a': (*, *), 'b': *}", [2, 3, 1]),
    "namedtuple": (Point(1, (2,)), "CustomNode(namedtuple[Point], [*, (*,)])", [1, 2]),
    "OrderedDict": (ordered(("b", 1), ("a", 2)), "CustomNode(OrderedDict[('b', 'a')], [*, *])", [1, 2]),
    "defaultdict": (
        collections.defaultdict(list, {"b": 1, "a": {}}),
        "CustomNode(defaultdict[(<class 'list'>, ('a', 'b'))], [{}, *])",
        [1],
    ),
    "registered": (Pair(1, [2]), "CustomNode(Pair[('aux',)], [*, [*]])", [1, 2]),
    "with keys": (Keyed(1, 2), "CustomNode(Keyed[('aux',)], [*, *])", [1, 2]),
    "dataclass": (Model([1, 2], "m"), "CustomNode(Model[('m',)], [[*, *]])", [1, 2]),
    "static": (Static(3), "CustomNode(Static[Static(value=3)], [])", []),
    "Partial": (Partial(max, 1, k=2), "CustomNode(Partial[<built-in function max>], [(*,), {'k': *}])", [1, 2]),
    "string": ("ab", "*", ["ab"]),
}


@pytest.fixture(params=TREES, ids=lambda name: name.replace(" ", "-"))
def example(request):
    return TREES[request.param]


def test_flatten_and_print(example):
    value, text, leaves = example
    flat, treedef = tree_util.tree_flatten(value)
    assert flat == leaves == tree.leaves(value)
    assert repr(treedef) == str(treedef) == f"PyTreeDef({text})"
    assert treedef.num_leaves == len(leaves) and treedef == tree.structure(value)


def test_unflatten_and_pickle(example):
    value, _, leaves = example
    treedef = tree.structure(value)
    again = tree.unflatten(treedef, iter(leaves))
    assert type(again) is type(value) and tree.structure(again) == treedef and tree.leaves(again) == leaves
    assert pickle.loads(pickle.dumps(treedef)) == treedef and hash(pickle.loads(pickle.dumps(treedef))) == hash(treedef)


def test_structures_agree_on_their_parts(example):
    value, _, leaves = example
    treedef = tree.structure(value)
    children = treedef.children()
    assert sum(child.num_leaves for child in children) == (0 if treedef.is_leaf() else len(leaves))
    assert treedef.flatten_up_to(value) == leaves
    assert tree_util.treedef_children(treedef) == children
    assert tree_util.treedef_is_leaf(treedef) == (treedef.num_nodes == 1)
    assert tree_util.treedef_tuple([treedef, treedef]) == tree.structure((value, value))
    assert treedef.compose(tree.structure((0, 0))).num_leaves == 2 * len(leaves)


def test_deques_struct_sequences_and_subclasses_are_leaves():
    class Names(dict):
        pass

    for leaf in (collections.deque([1]), time.localtime(0), Names(a=1), range(2), {1, 2}):
        assert tree.leaves([leaf, 1]) == [leaf, 1] and tree.structure(leaf) == tree.structure(0)
        assert tree.map(lambda x: x, {"a": leaf}) == {"a": leaf}


def test_subclasses_of_namedtuples_are_nodes():
    class Special(Point):
        pass

    assert tree.leaves(Special(1, 2)) == [1, 2] and type(tree.map(abs, Special(1, 2))) is Special


def test_incomparable_keys():
    for value in ({1: 2, "a": 3}, collections.defaultdict(int, {1: 2, "a": 3})):
        with pytest.raises(ValueError, match="Comparator raised exception while sorting pytree dictionary keys"):
            tree.flatten([value])
        with pytest.raises(ValueError, match="Comparator raised exception"):
            tree_util.tree_leaves_with_path(value)
    assert tree.leaves({1.5: 2, True: 3}) == [3, 2]


def test_is_leaf():
    assert tree.leaves([1, None], is_leaf=lambda x: x is None) == [1, None]
    assert tree.map(len, {"a": [1, 2]}, is_leaf=lambda x: isinstance(x, list)) == {"a": 2}
    assert repr(tree.structure([(1, 2), [3]], is_leaf=lambda x: isinstance(x, tuple))) == "PyTreeDef([*, [*]])"
    assert tree.leaves([collections.deque(), (1, 2)], is_leaf=lambda x: isinstance(x, tuple)) == [
        collections.deque(),
        (1, 2),
    ]


@pytest.mark.parametrize(
    "leaves, words", [([1], "Too few leaves for PyTreeDef; expected 2"), ([1] * 3, "Too many leaves")]
)
def test_wrong_number_of_leaves(leaves, words):
    with pytest.raises(ValueError, match=words):
        tree.unflatten(tree.structure([1, 2]), leaves)


def test_map():
    assert tree.map(operator.add, {"a": 1, "b": [2]}, {"a": 10, "b": [20]}) == {"a": 11, "b": [22]}
    assert tree.map(lambda x, y: (x, y), [1, 2], [(1, 2), {"a": 3}]) == [(1, (1, 2)), (2, {"a": 3})]
    assert tree.map(lambda x, y: (x, y), 1, None) == (1, None)
    assert tree.map(lambda x, y, z: x + y + z, Pair(1, 2), Pair(3, 4), Pair(5, 6)) == Pair(9, 12)
    assert tree.map(lambda x, y: (x, y), [(1, 2)], [[3]], is_leaf=lambda x: isinstance(x, tuple)) == [((1, 2), [3])]
    with pytest.raises(TypeError):
        tree.map(1, 2)


@pytest.mark.parametrize(
    "first, second, words",
    [
        ([1, 2], [3], r"different lengths of list at key path\n    tree_map tree\n.* of length 2, but .* of length 1"),
        ([1, 2], (3, 4), r"different types at key path\n    tree_map tree\n.*\n.*'list'.*\n.*\n    <class 'tuple'>"),
        ({"a": 1}, {"b": 3}, r"different pytree metadata at key path\n    tree_map tree"),
        ({"a": 1}, {"a": 1, "b": 3}, r"with 1 child keys\n    a\n.*2 child keys\n    a b\n.*\n    b"),
        ([1, (2,)], [1, 2], r"different types at key path\n    tree_map tree\[1\]"),
        ({"a": [None]}, {"a": [1]}, r"different types at key path\n    tree_map tree\['a'\]\[0\]"),
        (Point(1, 2), (1, 2), r"different types"),
        (ordered(("a", 1), ("b", 2)), ordered(("b", 1), ("a", 2)), r"\('a', 'b'\)\n.*\n    \('b', 'a'\)"),
        ({"a": 1}, ordered(("a", 1)), r"different types"),
        (Static(1), Static(2), r"Static\(value=1\)"),
    ],
)
def test_map_names_the_place_that_differs(first, second, words):
    with pytest.raises(ValueError, match=words):
        tree.map(lambda x, y: (x, y), first, second)


@pytest.mark.parametrize(
    "structure, value, words",
    [
        ([1, (2, 3)], 1, "Expected list, got 1."),
        ([1, (2, 3)], [1], "List arity mismatch: 1 != 2; list: [1]."),
        ([1, (2, 3)], [1, 2], "Expected tuple, got 2."),
        ((2, 3), (2,), "Tuple arity mismatch: 1 != 2; tuple: (2,)."),
        ({"a": 1, "b": 2}, {"a": 1}, "Dict key mismatch; expected keys: ['a', 'b']; present keys: ['a']."),
        ({"a": 1}, {"b": 1}, "Dict key mismatch; expected keys: ['a']; present keys: ['b']."),
        (Point(1, 2), (1, 2), "Expected named tuple, got (1, 2)."),
        (Point(1, 2), Other(1), "Named tuple type mismatch: expected type: "),
        (Static(1), Static(2), "Mismatch custom node data: "),
        (ordered(("a", 1)), ordered(("a", 1), ("b", 2)), "Mismatch custom node data: ('a',) != ('a', 'b'); value: "),
        (Several([1]), Several([1, 2]), "Custom type arity mismatch: 2 != 1; value: (1, 2)."),
        (Static(1), 5, "Custom node type mismatch: expected type: "),
        (None, 1, "Expected None, got 1.\nNone is a tree without leaves"),
    ],
)
def test_flatten_up_to_errors(structure, value, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        tree.structure(structure).flatten_up_to(value)


def test_reductions():
    assert tree.reduce(operator.add, [1, (2, 3)]) == 6 and tree.reduce(operator.add, [1, (2, 3)], 10) == 16
    assert tree.reduce(operator.add, [], 5) == 5
    with pytest.raises(TypeError, match="empty"):
        tree.reduce(operator.add, [])
    assert tree.reduce_associative(lambda x, y: (x, y), [1, 2, 3, 4, 5]) == ((1, 2), (3, (4, 5)))
    assert tree.reduce_associative(operator.add, [], identity=0) == 0
    with pytest.raises(TypeError, match="Must specify identity"):
        tree.reduce_associative(operator.add, [])
    assert tree.all([1, []]) and not tree.all([1, 0])


@tree_util.register_pytree_node_class
class Keeper:
    """A node whose children are the leaves of a tree that it keeps."""

    def __init__(self, value):
        self.value = value

    def tree_flatten(self):
        return tree.flatten(self.value)

    @classmethod
    def tree_unflatten(cls, treedef, leaves):
        return cls(tree.unflatten(treedef, leaves))


def test_transpose():
    value, pair, triple = [(1, 2, 3), (4, 5, 6)], tree.structure([0, 0]), tree.structure((0, 0, 0))
    assert tree.transpose(pair, triple, value) == tree.transpose(pair, None, value) == ([1, 4], [2, 5], [3, 6])
    with pytest.raises(TypeError, match="Mismatch"):
        tree.transpose(pair, tree.structure((0, 0)), value)
    # nodes whose structure depends on what they hold are made anew
    cached = tree.transpose(tree.structure(Keeper({"a": 1, "b": 2})), pair, Keeper({"a": [3, 4], "b": [5, 6]}))
    assert [each.value for each in cached] == [{"a": 3, "b": 5}, {"a": 4, "b": 6}]


def test_paths():
    value = {"a": [1, Point(2, Pair(3, 4))], "k": Keyed(5, Model(6)), "p": Partial(max, 7, k=8)}
    pairs, treedef = tree.flatten_with_path(value)
    assert [leaf for _, leaf in pairs] == [1, 2, 3, 4, 5, 6, 7, 8] and treedef == tree.structure(value)
    assert [keystr(path) for path, _ in pairs] == [
        *("['a'][0]", "['a'][1].x", "['a'][1].y[<flat index 0>]", "['a'][1].y[<flat index 1>]", "['k'].a"),
        *("['k'].b.weights", "['p'][<flat index 0>][0]", "['p'][<flat index 1>]['k']"),
    ]
    assert keystr(pairs[3][0], simple=True, separator="/") == "a/1/y/1"
    assert pairs[0][0] == (DictKey("a"), SequenceKey(0)) and repr(FlattenedIndexKey(1)) == "FlattenedIndexKey(key=1)"
    assert tree.map_with_path(lambda path, x, y: (keystr(path), x, y), [1], [2]) == [("[0]", 1, 2)]
    assert list(core_tree.generate_key_paths([1])) == [((SequenceKey(0),), 1)]


def test_leaves_that_a_path_decides_have_whole_trees_beside_them():
    x, y = ((1, 2), [3, 4, 5]), (([3], 0), ([0], 7, [5, 6]))
    out = tree.map_with_path(
        lambda path, *xs: (path[0].idx, *xs), x, y, is_leaf=lambda path, n: isinstance(n, list), is_leaf_takes_path=True
    )
    assert out == (((0, 1, [3]), (0, 2, 0)), (1, [3, 4, 5], ([0], 7, [5, 6])))


def test_paths_with_is_leaf():
    value = {"a": [1, 2], "b": [3]}
    assert tree.leaves_with_path(value, is_leaf=lambda x: isinstance(x, list)) == [
        ((DictKey("a"),), [1, 2]),
        ((DictKey("b"),), [3]),
    ]
    is_b = lambda path, x: path == (DictKey("b"),)
    pairs, treedef = tree.flatten_with_path(value, is_leaf=is_b, is_leaf_takes_path=True)
    assert [leaf for _, leaf in pairs] == [1, 2, [3]] and repr(treedef) == "PyTreeDef({'a': [*, *], 'b': *})"


def test_all_leaves_and_one_level():
    assert tree_util.all_leaves([1, "a"]) and not tree_util.all_leaves([1, [2]]) and not tree_util.all_leaves([None])
    assert tree_util.flatten_one_level({"b": 1, "a": [2]}) == (([2], 1), ("a", "b"))
    assert tree_util.flatten_one_level([1, (2,)]) == ([1, (2,)], None)
    assert tree_util.flatten_one_level_with_keys([5])[0] == ((SequenceKey(0), 5),)
    assert tree_util.default_registry.flatten_one_level(1) is None
    leaves, treedef = tree_util.default_registry.flatten([1, [2]], lambda x: x == [2])
    assert leaves == [1, [2]] and str(treedef) == "PyTreeDef([*, *])"
    for flatten in (tree_util.flatten_one_level, tree_util.flatten_one_level_with_keys):
        with pytest.raises(ValueError, match="can't tree-flatten type"):
            flatten(1)


def test_node_data_and_walk():
    assert tree.structure(1).node_data() is None and tree.structure([1]).node_data() == (list, None)
    assert tree.structure({"a": 1}).node_data() == (dict, ["a"])
    assert tree.structure(Pair(1, 2)).node_data() == (Pair, ("aux",))
    assert tree.structure([1, (2, 3)]).walk(lambda children, data: sum(children), lambda x: x, [1, 2, 3]) == 6


def test_auxiliary_data_without_a_hash():
    class Odd:
        pass

    tree_util.register_pytree_node(Odd, lambda odd: ((), [1]), lambda aux, children: Odd())
    assert tree.structure(Odd()) == tree.structure(Odd())
    assert hash(tree.structure(Odd())) == hash(tree.structure(Odd()))


def test_registration_errors():
    for kind in (Pair, list, type(None)):
        with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type registration"):
            tree_util.register_pytree_node(kind, lambda x: ((), None), lambda aux, children: None)
    with pytest.raises(TypeError, match="data_fields and meta_fields are required when nodetype is not a dataclass"):
        tree_util.register_dataclass(int)
    make = lambda: dataclasses.make_dataclass("Q", ["a", "b"])
    with pytest.raises(TypeError, match="must both be specified"):
        tree_util.register_dataclass(make(), ["a"])
    with pytest.raises(ValueError, match=r"Missing fields: {'b'}"):
        tree_util.register_dataclass(make(), ["a"], [])
    with pytest.raises(ValueError, match=r"Unexpected fields: {'c'}"):
        tree_util.register_dataclass(make(), ["a", "c"], ["b"])
    with pytest.raises(ValueError, match=r"must not overlap. Overlapping fields: {'b'}"):
        tree_util.register_dataclass(make(), ["a", "b"], ["b"])
    kind = tree_util.register_dataclass(
        dataclasses.make_dataclass("Q", ["a", ("b", int, dataclasses.field(default=0))]), ["a"], [], drop_fields=["b"]
    )
    assert tree.map(lambda x: x + 1, kind(1, 5)) == kind(2, 0)


def test_partial():
    partial = Partial(operator.add, 1)
    assert partial(2) == 3 and isinstance(partial, functools.partial)
    assert tree.map(lambda x: x + 1, partial)(2) == 4
    assert tree.structure(Partial(max, 1)) == tree.structure(Partial(max, 2))
    inner = functools.partial(pow, 2)
    outer = Partial(inner, 3)  # the inner arguments stay static
    assert tree.leaves(outer) == [3] and outer() == 8
    assert tree.structure(outer) == tree.structure(Partial(inner, 4)) and repr(outer).endswith(f"Partial({inner!r}, 3)")


def test_broadcast():
    assert tree.broadcast([1, 2], [0, (0, 0)]) == [1, (2, 2)]
    assert core_tree.broadcast_prefix([1, 2], [0, (0, 0)]) == [1, 2, 2]
    assert tree.broadcast([None, 1], [0, (0, 0)], is_leaf=lambda x: x is None) == [None, (1, 1)]
    with pytest.raises(ValueError, match=r"different types at key path\n    broadcast_prefix prefix_tree\[0\]"):
        tree.broadcast([None, 1], [0, (0, 0)])


def test_flatten_axes():
    treedef = tree.structure([1, (2, {"a": 3})])
    assert core_tree.flatten_axes("in_axes", treedef, 0) == [0, 0, 0]
    assert core_tree.flatten_axes("in_axes", treedef, None) == [None] * 3
    assert core_tree.flatten_axes("in_axes", treedef, [0, (1, None)]) == [0, 1, None]
    assert core_tree.flatten_axes("in_axes", tree.structure([None, 1]), [None, 2]) == [2]
    words = (
        r"in_axes specification must be a tree prefix.*\n.*1 found.*\n.*different lengths of tuple.*\n *in_axes\[1\]"
    )
    with pytest.raises(ValueError, match=words):
        core_tree.flatten_axes("in_axes", treedef, [0, (1, 2, 3)])
    with pytest.raises(ValueError, match="the tuple of all positional arguments"):
        core_tree.flatten_axes("in_axes", treedef, [0], tupled_args=True)
    for axes in ([0, [1, 2]], {"a": 0}, [0, (1, {"b": 2})]):
        with pytest.raises(ValueError, match="must be a tree prefix"):
            core_tree.flatten_axes("in_axes", treedef, axes)


def test_flatten_axes_makes_no_nodes():
    class Numbers:  # checks its leaves, as users' classes may
        def __init__(self, x):
            self.x = float(x)

    tree_util.register_pytree_node(Numbers, lambda node: ((node.x,), None), lambda _, children: Numbers(*children))
    assert core_tree.flatten_axes("in_axes", tree.structure((Numbers(1), 2)), (0, None)) == [0, None]


def test_prefix_errors_find_each_place():
    errors = prefix_errors([[1], (2,), {"a": 3}], [1, (2, 3), {"a": 4}])
    assert [str(error("axes")).splitlines()[1].strip() for error in errors] == ["axes[0]", "axes[1]"]


def test_equality_errors():
    found = list(equality_errors({"a": [1], "b": Pair(1, 2)}, {"a": (1,), "b": Pair(1, [2])}))
    assert [(keystr(path), why) for path, _, _, why in found] == [
        ("['a']", "their Python types differ"),
        ("['b'][<flat index 1>]", "their Python types differ"),
    ]
    differ = list(equality_errors_pytreedef(tree.structure([1, 2]), tree.structure([1])))
    assert differ[0][1:] == ("a list of length 2", "a list of length 1", "the lengths do not match")
    assert not list(equality_errors([1], ["x"])) and list(equality_errors(Static(1), Static(2)))


# Properties.

keys = st.text("abc", min_size=1, max_size=2)
trees = st.recursive(
    st.integers(0, 9) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3).map(collections.OrderedDict)
        | st.builds(Point, inner, inner)
        | st.builds(Pair, inner, inner)
        | st.builds(Model, inner, keys)
    ),
    max_leaves=12,
)


@given(trees)
@settings(max_examples=150, deadline=None)
def test_flatten_is_undone_by_unflatten(value):
    leaves, treedef = tree.flatten(value)
    assert tree.unflatten(treedef, leaves) == value
    assert treedef.flatten_up_to(value) == leaves and tree.structure(value) == treedef
    assert hash(tree.structure(tree.map(lambda x: -x, value))) == hash(treedef)


@given(trees)
@settings(max_examples=100, deadline=None)
def test_paths_lead_to_the_leaves(value):
    pairs, treedef = tree.flatten_with_path(value)
    assert [leaf for _, leaf in pairs] == tree.leaves(value)
    for path, leaf in pairs:
        node = value
        for key in path:
            node = (
                getattr(node, key.name) if isinstance(key, GetAttrKey)
                else (node.a, node.b)[key.key] if isinstance(key, FlattenedIndexKey)
                else node[getattr(key, "idx", getattr(key, "key", None))]
            )  # fmt: skip
        assert node is leaf or node == leaf
    assert len({keystr(path) for path, _ in pairs}) == len(pairs)


@given(trees, trees)
@settings(max_examples=150, deadline=None)
def test_prefixes_and_their_errors_agree(prefix, value):
    try:
        leaves = core_tree.broadcast_prefix(prefix, value)
    except ValueError:
        assert prefix_errors(prefix, value)
    else:
        assert not prefix_errors(prefix, value) and len(leaves) == len(tree.leaves(value))


@given(trees, st.data())
@settings(max_examples=100, deadline=None)
def test_a_cut_tree_is_a_prefix(value, data):
    cut = tree.map(lambda x: x, value, is_leaf=lambda x: x is not value and data.draw(st.booleans()))
    prefix = tree.map(lambda x: 7, cut)
    assert set(core_tree.broadcast_prefix(prefix, value)) <= {7}
    assert core_tree.flatten_axes("axes", tree.structure(value), prefix) == core_tree.broadcast_prefix(prefix, value)


@given(trees, trees)
@settings(max_examples=100, deadline=None)
def test_structures_are_equal_when_nothing_differs(first, second):
    assert (tree.structure(first) == tree.structure(second)) == (not list(equality_errors(first, second)))


def test_named_tuples_may_be_nodes_of_their_own():
    class Pair(NamedTuple):
        first: object
        second: object

    unflatten = lambda first, rest: Pair(first, *rest)
    tree_util.register_pytree_node(Pair, lambda pair: ((pair.second,), pair.first), unflatten)
    assert tree_util.tree_map(lambda x: x + 1, Pair("a", 1)) == Pair("a", 2)
    assert str(tree_util.tree_structure(Pair("a", 1))) == "PyTreeDef(CustomNode(Pair[a], [*]))"


def test_dictionaries_are_made_in_the_order_of_their_sorted_keys():
    value = {"b": 1, "a": collections.defaultdict(int, {"d": 2, "c": [{"f": 3, "e": None}]})}
    expected = "{'a': defaultdict(<class 'int'>, {'c': [{'e': None, 'f': 3}], 'd': 2}), 'b': 1}"
    assert str(tree.map(lambda x: x, value)) == expected
    assert str(tree.map(lambda x: x, {"q": (), **value})) == expected[:-1] + ", 'q': ()}"
    assert str(tree.map(lambda x: x, collections.OrderedDict(value))) == str(
        collections.OrderedDict([("b", 1), ("a", tree.map(lambda x: x, value["a"]))])
    )


def test_nodes_whose_metadata_has_no_hash_hold_dictionaries_too():
    class Box:
        def __init__(self, held):
            self.held = held

    tree_util.register_pytree_node(Box, lambda box: ((box.held,), ["no hash"]), lambda _, held: Box(*held))
    assert list(tree.map(lambda x: x, Box({"b": 1, "a": 2})).held) == ["a", "b"]
