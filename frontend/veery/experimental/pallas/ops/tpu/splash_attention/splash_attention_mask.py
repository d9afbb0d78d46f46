from veery._core.absent import attributes as _attributes

__getattr__, __dir__ = _attributes(__name__)
