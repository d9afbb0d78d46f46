from veery.interpreters.partial_eval import dce_jaxpr as dce_jaxpr
