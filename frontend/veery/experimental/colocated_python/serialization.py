"""What travels to the machines of devices with a function of Python. There is one machine, so nothing does."""

from typing import Any


class DeviceList(tuple[Any, ...]):
    """Devices in an order.

    >>> import veery
    >>> len(DeviceList(veery.devices("cpu")[:1]))
    1
    """

    __slots__ = ()
