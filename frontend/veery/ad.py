"""What becomes of the cotangent of an argument: what `with_refs` of a pullback takes, and what the pullback gives."""

from veery._api.pullback import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)
