"""Programs compiled by XLA, through the C interface of PJRT plugins: a second compiler beside IREE's.

`plugins` finds and opens them, `api` and `abi` are the interface, `client` a plugin in use, `device`, `handle` and
`executable` what the rest of this package sees, `host` the Python functions that programs call.
"""
