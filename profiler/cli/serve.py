"""`lanescope serve`: the dashboard over the catalogue."""

from __future__ import annotations

import rich_click as click

from lanescope.schemas.errors import UnusableInput, UsageError

_LOOPBACK = "127.0.0.1"


@click.command("serve")
@click.option("--port", default=8050, show_default=True, type=click.IntRange(0, 65535))
@click.option("--catalogue", metavar="FILE|URL", help="Another catalogue than the user's own.")
def command(port: int, catalogue: str | None) -> None:
    """Serve the dashboard: windows, attributions, ladder, gates, lanes, a running capture.

    Answers on loopback alone and changes nothing; from another machine, use an SSH tunnel.
    """
    try:
        from lanescope.dashboards.app import make_app
    except ModuleNotFoundError as exc:
        raise UsageError(
            f"the dashboard needs the package {exc.name}", "pip install 'lanescope[dashboard]'"
        ) from exc
    from werkzeug.serving import make_server

    from lanescope.profiler.window import live
    from lanescope.schemas.catalogue.store import open_catalogue

    opened = open_catalogue(catalogue)
    app = make_app(opened, live.running, live.gpus)
    try:
        try:
            server = make_server(_LOOPBACK, port, app.server, threaded=True)
        except (OSError, SystemExit) as exc:  # werkzeug exits where the port is taken
            raise UnusableInput(f"port {port} cannot be used", "choose another --port") from exc
        click.echo(f"{opened.name} on http://{_LOOPBACK}:{server.server_port}/ (Ctrl-C ends it)")
        server.serve_forever()
    finally:
        opened.close()
