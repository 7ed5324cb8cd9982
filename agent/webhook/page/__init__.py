"""The page under /ui/: its files, and how they are served. Webhook.

The files are in ``static``: HTML, CSS and modules of JavaScript as a browser takes them, nothing is built. They hold no
data; that comes from /v1, under the same rights as for anybody. Imports no other room; asks, stores and logs nothing.
"""
