"""Alembic's migrations of the catalogue, run by `open_catalogue` alone."""
