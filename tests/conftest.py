"""Tests do not depend on who starts them: the same examples every time, and signals handled as in a terminal.

HYPOTHESIS_PROFILE=search draws new examples.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A background job, nohup and some services start programs with signals ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)
