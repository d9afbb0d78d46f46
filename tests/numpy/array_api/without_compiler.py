"""A plugin of pytest: programs are evaluated by their operations' NumPy references instead of being compiled."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from support.interpreted_programs import install

install()
# The suite's own profile inherits from this one: a failing example is reported as it was found.
settings.register_profile("quick", phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
settings.load_profile("quick")
