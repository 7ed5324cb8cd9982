"""The central webhook: roll-ups in, directives out, and sizes for new pods. Never loaded by the agent."""
