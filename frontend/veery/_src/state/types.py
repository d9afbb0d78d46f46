from veery._core.refs import AbstractRef as AbstractRef
