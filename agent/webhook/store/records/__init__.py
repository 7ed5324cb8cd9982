"""What the store keeps beside the log and the sketches, a module a table: decisions, runs, the ledger, setbacks.

May import tables, entries and the snapshot; the caller's transaction is an argument. Webhook.
Never opens a connection, never decides how long anything is kept but by its own bounds.
"""
