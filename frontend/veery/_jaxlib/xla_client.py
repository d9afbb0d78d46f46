from veery._core.device import Device as Device
