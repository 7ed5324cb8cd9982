"""Runs vector files (cases computed by peers' own programs) against the real functions.

The command is ``python -m tests.conformance FILE.json...``.

``suites`` says which file belongs to which set of adapters, one module per set turns a case into a call, ``comparison``
compares, ``runner`` runs and counts. To add a peer: write a module of adapters and name it in ``suites.SUITES``.
"""
