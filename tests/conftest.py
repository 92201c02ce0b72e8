"""How much the property tests try: HYPOTHESIS_PROFILE is dev (the default), ci, thorough or debug."""

from tinygrad_seq.testing import profiles

profiles.load()
