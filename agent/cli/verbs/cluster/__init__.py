"""Verbs about the whole cluster: the webhook and what it knows, manifests, imports, the end; and all settings.

May import every other room of cli, and no other room of verbs.
Never shows what one node alone has measured.
"""
