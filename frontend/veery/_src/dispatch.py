from veery._api import placement as _placement

wait_for_tokens = _placement.effects_barrier
