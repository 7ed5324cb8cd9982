"""Small files replaced as a whole, their written form, and the clock that dates them.

Imports no other room of node.
Never leaves a half-written file.
"""
