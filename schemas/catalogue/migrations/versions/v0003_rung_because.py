"""A rung may say by which rule it took incumbency in a tie; its name is its own."""

import sqlalchemy as sa
from alembic import op

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    """Add the column; rungs that are there said nothing. And one name a ladder."""
    op.add_column("rungs", sa.Column("because", sa.String, nullable=False, server_default=""))
    op.create_index("uq_rungs_ladder_name", "rungs", ["ladder", "name"], unique=True)


def downgrade() -> None:
    """Take both away again."""
    op.drop_index("uq_rungs_ladder_name", "rungs")
    op.drop_column("rungs", "because")
