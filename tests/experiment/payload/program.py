"""A program as the operation "run" starts it: imports so many modules, listens, and says so."""

from __future__ import annotations

import importlib
import socket
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent / "sources" / "modules"))
for number in range(int(sys.argv[1])):
    importlib.import_module(f"module{number}")
with socket.create_server(("127.0.0.1", 0)) as listening:
    sys.stdout.write("!")
    sys.stdout.flush()
    listening.accept()
