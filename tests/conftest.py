"""For all tests: whether they pass does not depend on how quick the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("plimsoll", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("plimsoll")
