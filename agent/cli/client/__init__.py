"""One question to an agent's control socket, to the webhook or to a Prometheus, and its answer.

May import options, text and words.
Never waits without a bound.
"""
