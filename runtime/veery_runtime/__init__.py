"""Execution of compiled programs on IREE devices. Needs NumPy, ml_dtypes and iree-base-runtime, nothing else."""

from veery_runtime import effects as effects, flight as flight, foreign as foreign, spmd as spmd
from veery_runtime.artifact import (
    Artifact as Artifact,
    Entry as Entry,
    load_artifact as load_artifact,
    read_program as read_program,
    save_artifact as save_artifact,
    to_bytes as to_bytes,
)
from veery_runtime.buffer import Buffer as Buffer, put as put
from veery_runtime.device import Device as Device
from veery_runtime.discovery import (
    absent as absent,
    beside as beside,
    better as better,
    configure as configure,
    device_of as device_of,
    devices as devices,
    plugins as plugins,
    several as several,
    synchronize as synchronize,
)
from veery_runtime.errors import (
    ArtifactError as ArtifactError,
    CorruptArtifactError as CorruptArtifactError,
    DeletedBufferError as DeletedBufferError,
    DeviceLostError as DeviceLostError,
    DeviceUnavailableError as DeviceUnavailableError,
    ExecutionError as ExecutionError,
    ForkedProcessError as ForkedProcessError,
    IncompatibleArtifactError as IncompatibleArtifactError,
)
from veery_runtime.executable import Executable as Executable
from veery_runtime.module import Function as Function, Module as Module, load as load
