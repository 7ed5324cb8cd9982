"""A new pod to a patch, or to a reason why it is left alone.

May import resize, machine and below; not buffers.
Never denies a pod for a fault of ours.
"""
