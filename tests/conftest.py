"""How much the property tests try: HYPOTHESIS_PROFILE is dev (the default), ci, thorough or debug."""

import os

from hypothesis import HealthCheck, Verbosity, settings

EXAMPLES = 40

# No deadline and no complaint about slow draws: a busy machine is no fault of the engine. No database of examples
# either: a failure prints the example, and the tests leave nothing behind.
settings.register_profile(
    "dev", max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=25 * EXAMPLES)
settings.register_profile("debug", settings.get_profile("dev"), max_examples=10, verbosity=Verbosity.verbose)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
