"""What a node reports of five minutes, and the directives that answer it: rows, schedule, JSON.

May import window and below, and no other room of history.
Never sends anything: node/reports posts, webhook/reports answers.
"""
