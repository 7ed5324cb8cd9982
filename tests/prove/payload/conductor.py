"""Write what each pod is to do, when it is due: ``python3 conductor.py SCRIPT`` on the node itself, as root.

SCRIPT is JSON: the moment of the kernel's monotonic clock at which all begins, and lines of second, path and content in
order. A file is replaced whole: who reads it never sees half a number.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Play the script to its end."""
    script = json.loads(Path(sys.argv[1]).read_text())
    begun = script["begins"]
    for second, path, content in script["lines"]:
        time.sleep(max(0.0, begun + second - time.monotonic()))
        new = f"{path}.new"
        try:
            Path(new).write_text(content)
            os.replace(new, path)
        except FileNotFoundError:  # the pod is gone: others go on
            continue


main()
