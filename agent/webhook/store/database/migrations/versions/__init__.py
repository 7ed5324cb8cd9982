"""One module per revision of the schema.

May import Alembic and SQLAlchemy, and nothing of ours.
Never changes once it was released: what it names is frozen here, as ``tables`` moves on.
"""
