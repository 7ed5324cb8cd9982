"""From the kernel to values: cgroups, their counters, the machine.

May import core and named_file; ``sampler`` alone calls the C extension.
Never decides, and never writes to a cgroup.
"""
