"""A plugin of pytest: programs are evaluated by their operations' NumPy references instead of being compiled."""

from __future__ import annotations

from support.interpreted_programs import install

install()
