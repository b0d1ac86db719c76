"""The capture window: plan, state table, runner, receipts, failsafe, release."""
