"""How much property tests try: the hypothesis profiles dev, ci, thorough and debug, to load or to copy.

In a conftest.py:

    from tinygrad_seq.testing import profiles

    profiles.load()  # HYPOTHESIS_PROFILE, or dev
"""

from __future__ import annotations

import os
from typing import Any

try:
    from hypothesis import HealthCheck, Verbosity, settings
except ImportError:
    raise ImportError("the profiles need hypothesis: pip install 'tinygrad-seq[test]'") from None

# No deadline and no complaint about slow draws: a busy machine is no fault of the code. No database of examples: a
# failure prints its example, and a test run leaves nothing behind.
COMMON: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
EXAMPLES = 40
PROFILES: dict[str, dict[str, Any]] = {
    "dev": {"max_examples": EXAMPLES},
    "ci": {"max_examples": EXAMPLES, "derandomize": True, "print_blob": True},
    "thorough": {"max_examples": 25 * EXAMPLES},
    "debug": {"max_examples": 10, "verbosity": Verbosity.verbose},
}


def load(name: str | None = None) -> None:
    """Register the four profiles and load the one named; if none is, that of HYPOTHESIS_PROFILE, or dev.

    >>> load("dev")
    >>> settings().max_examples
    40
    """
    for profile, values in PROFILES.items():
        settings.register_profile(profile, **COMMON, **values)
    settings.load_profile(name or os.environ.get("HYPOTHESIS_PROFILE", "dev"))
