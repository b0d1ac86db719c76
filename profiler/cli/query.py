"""`lanescope query`: SQL over many attributions."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from lanescope.profiler.cli.many import DEFAULT


@click.command("query")
@click.argument("sql", required=False)
@click.option(
    "--dataset",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    show_default=True,
    help="The dataset that attribute wrote.",
)
@click.option("--json", "form", flag_value="json", help="Rows as a JSON list.")
@click.option("--csv", "form", flag_value="csv", help="Rows as CSV.")
@click.option("--markdown", "form", flag_value="markdown", help="Rows as a Markdown table.")
@click.option("--views", is_flag=True, help="List the views and what one row of each is.")
@click.option("--plain", is_flag=True, help="No colour, no frames.")
def command(sql: str | None, dataset: Path, form: str | None, views: bool, plain: bool) -> None:
    """Answer a SELECT over all attributions of a dataset.

    SQL is DuckDB's, and reads only: `lanescope query "SELECT trace, exclusive_ms_per_step FROM
    buckets WHERE bucket = 'row_copy'"`. Views: attributions, failures, steps, step_buckets,
    buckets, ranks, phases, kernel_names, api_calls, prefill, ranges, layer_misses, layer_steps,
    kernels, warnings, abstained; each has the column trace. A view without files is absent.
    """
    from lanescope.attribution.many.query import VIEWS, query
    from lanescope.dashboards import query_text
    from lanescope.dashboards.terminal import console

    if views:
        query_text.views(VIEWS, console(plain=plain))
        return
    if not sql:
        raise click.UsageError('give a SELECT, for example "SELECT * FROM attributions"')
    rows = query(dataset, sql).rows
    if form:
        query_text.write(rows, form, sys.stdout)
    else:
        query_text.show(rows, console(plain=plain))
