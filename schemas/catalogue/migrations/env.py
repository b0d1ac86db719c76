"""Alembic's entry: runs the migrations on the connection that `open_catalogue` hands over."""

from alembic import context

from lanescope.schemas.catalogue.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
