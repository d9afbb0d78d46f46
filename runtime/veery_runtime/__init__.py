"""Execution of compiled programs on IREE devices. Needs NumPy, ml_dtypes and iree-base-runtime, nothing else."""

from veery_runtime.buffer import Buffer as Buffer
from veery_runtime.buffer import put as put
from veery_runtime.device import Device as Device
from veery_runtime.device import absent as absent
from veery_runtime.device import configure as configure
from veery_runtime.device import devices as devices
from veery_runtime.executable import Executable as Executable
from veery_runtime.executable import load as load
