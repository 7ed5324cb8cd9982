"""How much a container should request: policies with one signature, and the bounds that every answer passes through.

Core, pure. Each policy keeps its own state over many containers (one row each) and answers for all of them at once.
"""
