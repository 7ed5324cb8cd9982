"""The process on the node: threads, clock, order of start and stop.

May import core, sensing, kube, metrics, settings and the ground floor.
Never holds a rule, which are core's, and never loads anything of the webhook.
"""
