from veery._core import tree_errors as _tree_errors, tree_registry as _tree_registry

_registry = _tree_registry.node_types
flatten_one_level = _tree_registry.flatten_one_level
prefix_errors = _tree_errors.prefix_errors
