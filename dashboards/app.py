"""The dashboard: the catalogue, lanes side by side, a running window. Read-only, loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dash
import flask
from dash import Input, Output, dash_table, dcc, html

from lanescope.dashboards import catalogue_rows, live_view
from lanescope.dashboards.figures.lanes import lanes_bar
from lanescope.dashboards.figures.look import figure
from lanescope.dashboards.names import shown
from lanescope.schemas.catalogue.store import Catalogue
from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.livewindow import LiveGpu, LiveWindow

PAGE = 25
#: A page of another site that resolves its own name to loopback must not read this one.
HOSTS = ("127.0.0.1", "localhost", "[::1]")
_TABS = {
    "windows": "Windows",
    "attributions": "Attributions",
    "ladder": "Ladder",
    "gates": "Gates",
    "running": "Running",
}


def make_app(
    catalogue: Catalogue,
    live: Callable[[], list[LiveWindow]] = list,
    gpus: Callable[[], list[LiveGpu]] = list,
) -> dash.Dash:
    """The application over one catalogue. Nothing is asked of any other host.

    live, gpus: this machine's running windows and GPUs now; asked only while somebody looks.
    """
    app = dash.Dash("lanescope", title="lanescope", serve_locally=True, update_title="")
    app.layout = html.Div(
        style={"maxWidth": "76rem", "margin": "0 auto", "fontFamily": "system-ui, sans-serif"},
        children=[
            html.H1("lanescope", style={"fontSize": "1.3rem"}),
            dcc.Tabs(
                id="tab",
                value="windows",
                children=[dcc.Tab(label=text, value=name) for name, text in _TABS.items()],
            ),
            *(_panel(name) for name in catalogue_rows.LISTS),
            html.Div(id="panel-compare", children=dcc.Graph(id="lanes", figure=figure(120).spec())),
            html.Div(id="panel-running", children=html.Div(id="running")),
            dcc.Interval(id="tick", interval=2_000),
        ],
    )
    app.server.before_request(_refuse_strangers)
    _show_tabs(app)
    for name in catalogue_rows.LISTS:
        _fill(app, catalogue, name)
    _compare(app, catalogue)
    _running(app, catalogue, live, gpus)
    return app


def _refuse_strangers() -> flask.Response | None:
    host = flask.request.host.rsplit(":", 1)[0] if "]" not in flask.request.host else "[::1]"
    if host in HOSTS:
        return None
    return flask.Response("this dashboard answers on loopback only", 403)


def _panel(name: str) -> html.Div:
    _, columns = catalogue_rows.LISTS[name]
    table = dash_table.DataTable(  # type: ignore[attr-defined]
        id=name,
        columns=[{"id": c, "name": catalogue_rows.heading(c)} for c in columns],
        page_action="custom",
        page_current=0,
        page_size=PAGE,
        sort_action="custom",
        sort_by=[],
        row_selectable="multi" if name == "attributions" else False,
        selected_row_ids=[],
        style_table={"overflowX": "auto"},
        style_cell={"textAlign": "left", "fontFamily": "inherit", "maxWidth": "22rem",
                    "overflow": "hidden", "textOverflow": "ellipsis"},
    )  # fmt: skip
    hint = " Select two or more to see them side by side." if name == "attributions" else ""
    return html.Div(id=f"panel-{name}", children=[html.P(id=f"says-{name}"), html.P(hint), table])


def _show_tabs(app: dash.Dash) -> None:
    panels = [*catalogue_rows.LISTS, "compare", "running"]

    @app.callback([Output(f"panel-{p}", "style") for p in panels], Input("tab", "value"))
    def show(tab: str) -> list[dict[str, str]]:
        wanted = {tab, "compare"} if tab == "attributions" else {tab}
        return [{} if p in wanted else {"display": "none"} for p in panels]


def _fill(app: dash.Dash, catalogue: Catalogue, name: str) -> None:
    @app.callback(
        [Output(name, "data"), Output(name, "page_count"), Output(f"says-{name}", "children")],
        [Input(name, "page_current"), Input(name, "sort_by")],
    )
    def fill(page: int, sort: list[dict[str, str]]) -> tuple[list[dict[str, Any]], int, str]:
        first = sort[0] if sort else {"column_id": "id", "direction": "desc"}
        with catalogue.read() as session:
            found, total = catalogue_rows.rows(
                session,
                name,
                max(0, page or 0),
                PAGE,
                first["column_id"],
                first["direction"] == "desc",
            )
        return found, max(1, -(-total // PAGE)), f"{total:,} rows"


def _compare(app: dash.Dash, catalogue: Catalogue) -> None:
    @app.callback(Output("lanes", "figure"), Input("attributions", "selected_row_ids"))
    def lanes(ids: list[int] | None) -> dict[str, Any]:
        with catalogue.read() as session:
            chosen = catalogue_rows.folders(session, [int(i) for i in ids or []])
        documents = [(shown(lane), _document(Path(folder))) for lane, folder in chosen]
        return lanes_bar([(lane, doc) for lane, doc in documents if doc and doc.steps]).spec()


def _document(folder: Path) -> AttributionDocument | None:
    try:
        text = (folder / "attribution.json").read_bytes()
        return AttributionDocument.model_validate_json(text)
    except (OSError, ValueError):  # moved away or of another version: the row stays, the bar goes
        return None


def _running(
    app: dash.Dash,
    catalogue: Catalogue,
    live: Callable[[], list[LiveWindow]],
    gpus: Callable[[], list[LiveGpu]],
) -> None:
    @app.callback(
        Output("running", "children"), [Input("tick", "n_intervals"), Input("tab", "value")]
    )
    def running(_n: int | None, tab: str) -> Any:
        if tab != "running":
            return dash.no_update
        found = live()
        with catalogue.read() as session:
            others = catalogue_rows.running(session, {w.run for w in found})
        if not found and not others:
            return [html.P("No window is running.")]
        # this machine's sensors belong to this machine's window
        shown_now = [part for w in found for part in live_view.window(w)]
        if any(w.runner_alive for w in found):
            shown_now += live_view.sensors(gpus())
        return shown_now + [part for w in others for part in live_view.catalogued(w)]
