from veery._api.jit import PjitFunction as PjitFunction
