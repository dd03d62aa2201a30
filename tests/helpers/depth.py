"""How far searches go: DEPTH is 1 in `make test` and 4 in `make test-slow`, which repeats the deep ones."""

import os

DEPTH = int(os.environ.get("TEST_DEPTH", "1"))
