"""VerticalPodAutoscaler objects of the recommender ``plimsoll``: their status is written, and some are made.

May import cluster and admission.
Never decides what an object orders or what its status says: ``core.autoscalers`` does.
"""
