from veery._core import source as _source

_exclude_paths = _source.hidden_paths
include_frame = _source.include_frame
api_boundary = _source.api_boundary
register_exclusion = _source.hide
