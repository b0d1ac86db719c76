"""Windows, their artifacts, attributions and gate verdicts."""

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None


def upgrade() -> None:
    """Make the four tables."""
    op.create_table(
        "windows",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run", sa.String(200), nullable=False, unique=True),
        sa.Column("incumbent", sa.String),
        sa.Column("candidate", sa.String, nullable=False),
        sa.Column("axis", sa.String),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("outcome", sa.String),
        sa.Column("exit_code", sa.Integer),
        sa.Column("started_ns", sa.BigInteger, nullable=False),
        sa.Column("ended_ns", sa.BigInteger),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
    )
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "window_id",
            sa.Integer,
            sa.ForeignKey("windows.id", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("private", sa.Boolean, nullable=False),
    )
    op.create_table(
        "attributions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "window_id", sa.Integer, sa.ForeignKey("windows.id", ondelete="SET NULL"), index=True
        ),
        sa.Column("lane", sa.String, nullable=False),
        sa.Column("trace_sha256", sa.String(64), nullable=False, index=True),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("steps", sa.Integer),
        sa.Column("wall_ms", sa.Double),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
    )
    op.create_table(
        "gates",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "window_id", sa.Integer, sa.ForeignKey("windows.id", ondelete="SET NULL"), index=True
        ),
        sa.Column("rules_sha256", sa.String(64), nullable=False),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("post_hoc", sa.Boolean, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Drop them again."""
    for table in ("gates", "attributions", "artifacts", "windows"):
        op.drop_table(table)
