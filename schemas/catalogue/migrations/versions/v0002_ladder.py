"""The ladder: rungs and the marks on them, which no statement can change or delete."""

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"

TABLES = ("rungs", "rung_marks")


def upgrade() -> None:
    """Make both tables append-only, by triggers of the database itself."""
    op.create_table(
        "rungs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("ladder", sa.String(200), nullable=False, index=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("change", sa.String, nullable=False),
        sa.Column("difference", sa.JSON, nullable=False),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("gate", sa.String),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("links", sa.JSON, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "rung_marks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("rung_id", sa.Integer, sa.ForeignKey("rungs.id"), nullable=False, index=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("text", sa.String, nullable=False),
        sa.Column("created_ns", sa.BigInteger, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION ladder_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ladder is append-only'; END $$"
        )
    for table in TABLES:
        for verb in ("UPDATE", "DELETE"):
            op.execute(_trigger(op.get_bind().dialect.name, table, verb))


def _trigger(dialect: str, table: str, verb: str) -> str:
    head = f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} FOR EACH ROW"
    if dialect == "postgresql":
        return f"{head} EXECUTE FUNCTION ladder_is_append_only()"
    return f"{head} BEGIN SELECT RAISE(ABORT, 'the ladder is append-only'); END"


def downgrade() -> None:
    """Drop the tables, and with them their triggers."""
    for table in reversed(TABLES):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION ladder_is_append_only()")
