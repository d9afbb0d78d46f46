from typing import TypeVar

from veery._api.checkify import (
    Error as Error,
    JaxException as JaxException,
    checkify as checkify,
    user_checks as user_checks,
)

Out = TypeVar("Out")
