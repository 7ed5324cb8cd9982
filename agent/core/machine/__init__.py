"""What the kernel and kubelet of one machine should hold, and whether they do: audit and checkup.

May import orders, cluster and numbers.
Never changes a value: it compares.
"""
