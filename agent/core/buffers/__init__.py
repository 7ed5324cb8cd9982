"""CapacityBuffers, and the placeholder pods that keep their room.

May import resize and below; not admission.
Never counts a placeholder as a need.
"""
