"""The process on the node: threads, clock, order of start and stop; it calls core and holds no rule."""
