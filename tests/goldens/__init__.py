"""What the programs say, written down, so that two trees can be compared: every verb, metric, setting and form.

Everything goes through the programs as people call them; nothing here but ``inputs`` imports the agent, so it
works on any tree of the project, before and after modules have moved.
"""
