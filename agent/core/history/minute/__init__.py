"""What one node keeps of its own cgroups, by the minute: keys, rows, time axis, codec; and how good sizing was.

May import window and below, and no other room of history.
Never looks at other nodes, never writes a file: that is node/history's.
"""
