"""What goes to the webhook and comes back: reports, directives, proposals, taint questions.

May import keepers and below.
Never holds up the control thread for the network.
"""
