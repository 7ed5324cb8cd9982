"""For all unit tests: no terminal's width, neither of whoever runs them nor what pytest-xdist tells its workers."""

import os

for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
