"""The central webhook: takes roll-ups in, answers with directives, sizes pods at creation. Never loaded by the agent."""
