"""Requests and limits in a checkout of Git: where they stand in files, what they should be, the smallest edit.

The face of ``plimsoll gitops``. Imports client, words, options and text, the rules of core, and the bodies of the
webhook's answers. It runs no program, knows no forge and no token, and never writes outside the directory it is given.
"""
