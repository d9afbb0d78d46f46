"""Where Keras imports Pallas from, whose kernels it calls on TPUs alone: each of its names says that there is none."""

from veery._core.absent import attributes as _attributes

__getattr__, __dir__ = _attributes(__name__, "ops")
