"""Exceptions that veery raises, by JAX's names."""

from veery._core.errors import ConcretizationTypeError as ConcretizationTypeError
from veery._core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from veery._core.errors import JAXIndexError as JAXIndexError
from veery._core.errors import JaxprTypeError as JaxprTypeError
from veery._core.errors import JaxRuntimeError as JaxRuntimeError
from veery._core.errors import JAXTypeError as JAXTypeError
from veery._core.errors import KeyReuseError as KeyReuseError
from veery._core.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from veery._core.errors import TracerArrayConversionError as TracerArrayConversionError
from veery._core.errors import TracerBoolConversionError as TracerBoolConversionError
from veery._core.errors import TracerIntegerConversionError as TracerIntegerConversionError
from veery._core.errors import UnexpectedTracerError as UnexpectedTracerError
from veery._core.errors import VerificationError as VerificationError
