"""Run-time checks of traced functions."""

from veery._api.checkify import Error as Error
from veery._api.checkify import ErrorCategory as ErrorCategory
from veery._api.checkify import JaxRuntimeError as JaxRuntimeError
from veery._api.checkify import all_checks as all_checks
from veery._api.checkify import automatic_checks as automatic_checks
from veery._api.checkify import check as check
from veery._api.checkify import check_error as check_error
from veery._api.checkify import checkify as checkify
from veery._api.checkify import debug_check as debug_check
from veery._api.checkify import div_checks as div_checks
from veery._api.checkify import float_checks as float_checks
from veery._api.checkify import index_checks as index_checks
from veery._api.checkify import init_error as init_error
from veery._api.checkify import nan_checks as nan_checks
from veery._api.checkify import user_checks as user_checks
