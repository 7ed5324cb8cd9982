"""What lies in the store as bytes: entries of the log, sketches, marks, and in which hours a node had a part. Pure.

May import core and the store's shapes; no statement, no connection.
Never guesses: what cannot be decoded is said to be so.
"""
