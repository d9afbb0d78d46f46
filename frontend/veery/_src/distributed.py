from veery import distributed

global_state = distributed._state
