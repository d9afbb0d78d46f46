"""Rewrites for GPUs that are programmed by SPIR-V shaders, whose drivers do not compute what is written."""
