"""Property tests draw the same examples every time; HYPOTHESIS_PROFILE=search draws new ones."""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
