"""What the lowering raises."""


class LoweringError(NotImplementedError):
    """A primitive has no lowering for the target, or not for these dtypes or shapes."""


class CompileError(RuntimeError):
    """IREE's compiler refused a program; the message names the primitive and the user's line where they are known."""


class Rejected(Exception):
    """A check refuses what the compiler made of a module.

    Attributes:
        arguments: those that must not be overwritten.
    """

    def __init__(self, reason: str, arguments: frozenset[int] = frozenset()):
        super().__init__(reason, arguments)
        self.reason = reason
        self.arguments = arguments

    def __str__(self) -> str:
        return self.reason


CRASHED = "the compiler crashed"
STOPPED = "the compiler was stopped"


class CompilerCrash(CompileError):
    """IREE's compiler crashed, in a process of its own; the message says of what, as far as it is known."""


class CompilerTimeout(CompilerCrash):
    """IREE's compiler took longer than the settings allow, and was stopped."""


class CacheError(RuntimeError):
    """The folder of compiled programs cannot be used, or an entry in it was damaged, and the settings forbid that."""


class CacheWarning(UserWarning):
    """The folder of compiled programs cannot be used, or an entry in it was damaged; results are not affected."""


class UnknownTargetError(ValueError):
    """There is no target of this name."""
