from veery.api_util import safe_map as safe_map
