"""Plimsoll: sizes Kubernetes pods from the node.

Layers, top to bottom: ``cli`` (the face), ``node`` (the DaemonSet process), ``sensing``, ``kube``, ``metrics`` and
``settings`` (the outside world to values and back), ``core`` (pure rules). Imports point down only.
"""
