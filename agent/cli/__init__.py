"""The face: one module per verb, loaded only when that verb is asked for.

May import everything. Every word that a person reads on a terminal is written here.
Never holds a rule: what it prints was decided below.
"""
