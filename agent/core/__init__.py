"""The rules: plain values in, plain values out.

Nothing here reads, sleeps, logs or talks, and none of it knows what time it is; import-linter holds that.
"""
