"""Where the store is: its address, connections, tables, and how they are made or brought up to date.

May import the shapes alone. Webhook.
Never reads or writes a row.
"""
