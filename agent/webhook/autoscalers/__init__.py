"""VerticalPodAutoscaler objects of the recommender ``plimsoll``: their status is written, and some are made.

Targets of HPAs are moved after the requests of their pods. May import cluster and admission.
Never decides what an object orders, what its status says or where a target belongs: ``core.autoscalers`` does.
"""
