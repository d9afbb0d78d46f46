"""Execution of compiled programs on IREE devices. Needs NumPy, ml_dtypes and iree-base-runtime, nothing else."""

from veery_runtime import effects as effects
from veery_runtime import spmd as spmd
from veery_runtime.artifact import Artifact as Artifact
from veery_runtime.artifact import Entry as Entry
from veery_runtime.artifact import load_artifact as load_artifact
from veery_runtime.artifact import save_artifact as save_artifact
from veery_runtime.artifact import to_bytes as to_bytes
from veery_runtime.buffer import Buffer as Buffer
from veery_runtime.buffer import put as put
from veery_runtime.device import Device as Device
from veery_runtime.device import absent as absent
from veery_runtime.device import configure as configure
from veery_runtime.device import devices as devices
from veery_runtime.device import synchronize as synchronize
from veery_runtime.errors import ArtifactError as ArtifactError
from veery_runtime.errors import CorruptArtifactError as CorruptArtifactError
from veery_runtime.errors import DeletedBufferError as DeletedBufferError
from veery_runtime.errors import DeviceLostError as DeviceLostError
from veery_runtime.errors import DeviceUnavailableError as DeviceUnavailableError
from veery_runtime.errors import ExecutionError as ExecutionError
from veery_runtime.errors import ForkedProcessError as ForkedProcessError
from veery_runtime.errors import IncompatibleArtifactError as IncompatibleArtifactError
from veery_runtime.executable import Executable as Executable
from veery_runtime.module import Function as Function
from veery_runtime.module import Module as Module
from veery_runtime.module import load as load
