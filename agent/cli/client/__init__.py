"""One question to an agent's control socket or to the webhook, and its answer.

May import options, text and words.
Never waits without a bound.
"""
