"""Typed documents, errors, findings, units, catalogue models: what every other room shares."""
