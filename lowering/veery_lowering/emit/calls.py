"""Primitives that stand for a function whose derivative or memory is special: once lowered it is just that function."""

# From the primitive to the parameter that holds the function's jaxpr; no other parameter matters to the program.
INLINED = {
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "linear_call": "callee",
}
