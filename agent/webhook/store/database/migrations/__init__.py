"""Alembic's scripts: each revision of the store's tables, in order. Run by `store_schema`, never by hand.

A revision leaves the statements of the Plimsoll before it working: replicas are replaced one after the other.
"""
