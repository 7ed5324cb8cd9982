"""Plimsoll's own policy: hours like this one, at the price of being short.

May import what recommender may, and cruise, whose memory of kills and limits it shares.
Never another policy's alcove.
"""
