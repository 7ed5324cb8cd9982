"""From history to a recommendation; the policies have alcoves: cruise, vpa, crane, plimsoll; simulation replays them.

May import history and below.
Never knows what other pods of the node want: that is the plan's.
"""
