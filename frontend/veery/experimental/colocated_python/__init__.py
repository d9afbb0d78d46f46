"""Python beside the devices of arrays: all are of this machine, so it is that of this process."""

from veery.experimental.colocated_python.func import (
    colocated_cpu_devices as colocated_cpu_devices,
    colocated_python as colocated_python,
    colocated_python_class as colocated_python_class,
)
