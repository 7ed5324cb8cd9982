"""What stays open: lists and watches kept in step through outages, and the election of a leader.

May import client and objects; not calls.
Never decides: no policy, and no retries but the ones that a watch or an election is made of.
"""
