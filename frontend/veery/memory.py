"""The memories that arrays are in: `device_put(x, veery.memory.Space.Host)` moves one."""

from veery._core.memory import MemorySpace as Space

__all__ = ["Space"]
