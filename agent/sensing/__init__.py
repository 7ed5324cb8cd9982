"""From the kernel to values: cgroups, their counters, the machine. Nothing here decides."""
