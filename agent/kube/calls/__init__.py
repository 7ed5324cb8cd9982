"""Single calls: a resize, an eviction, a taint, an Event, what can be scaled, a list within a bound.

May import client and objects; not watch.
Never waits, never keeps on trying: whoever calls decides what an answer means.
"""
