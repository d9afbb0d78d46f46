"""A plugin of pytest: a failing example is reported as it was found, as smaller ones would have to be compiled."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

# The suite's own profile inherits from this one.
settings.register_profile("quick", phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
settings.load_profile("quick")
