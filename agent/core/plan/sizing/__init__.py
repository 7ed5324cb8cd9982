"""From needs to what each container should have: the planner's working values, what fits, who shares which spike.

May import needs and the values of plan (``plan``, ``pod_facts``); not ``planner``, ``moves`` or ``steps``.
Never orders steps: what may be moved when is above.
"""
