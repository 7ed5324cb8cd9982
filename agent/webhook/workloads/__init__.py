"""The index of workload histories in memory, and what feeds it: tailer, folder, rebuilder.

May import store.
Never loses a report that was acknowledged.
"""
