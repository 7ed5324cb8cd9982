"""The way to the API server: credentials, requests, streams, paths, errors, our own rights; channels into a pod.

May import core and the ground floor, and no other room of kube.
Never makes values of pods or nodes: that is done by objects. Never retries.
"""
