"use strict";
// The page's few behaviours: theme, figures, tables, step picker. No request is ever made.
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // -- theme: the reader's system decides, the button overrides ------------------------------
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const setTheme = (name) => {
    root.dataset.theme = name;
    all(".plot.drawn").forEach((div) => Plotly.relayout(div.firstElementChild, themed(div)));
  };
  const follow = () => setTheme(chosen || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", follow);
  const toggle = document.getElementById("theme");
  toggle.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    follow();
  });

  // -- figures ------------------------------------------------------------------------------
  const specs = new Map();
  const spec = (div) => {
    if (!specs.has(div)) {
      const found = JSON.parse(div.querySelector("script").textContent);
      // long lists of repeating texts come as an index into a list
      for (const trace of found.data) {
        if (trace.text && trace.text.of) trace.text = trace.text.at.map((i) => trace.text.of[i]);
      }
      specs.set(div, found);
    }
    return specs.get(div);
  };
  function themed(div) {
    const ink = css("--ink"), grid = css("--grid"), soft = css("--soft");
    const update = {
      "font.color": ink, "hoverlabel.bgcolor": css("--panel"), "hoverlabel.font.color": ink,
      "hoverlabel.bordercolor": css("--line"),
    };
    for (const key of Object.keys(spec(div).layout)) {
      if (/^[xy]axis\d*$/.test(key)) {
        Object.assign(update, {
          [`${key}.gridcolor`]: grid, [`${key}.zerolinecolor`]: grid,
          [`${key}.linecolor`]: grid, [`${key}.tickfont.color`]: soft, [`${key}.title.font.color`]: soft,
        });
      }
    }
    return update;
  }
  const assign = (target, path, value) => {
    const keys = path.split(".");
    const last = keys.pop();
    for (const key of keys) target = target[key] = target[key] || {};
    target[last] = value;
  };
  const draw = (div) => {
    if (div.classList.contains("drawn") || !window.Plotly) return;
    const { data, layout } = spec(div);
    for (const [path, value] of Object.entries(themed(div))) assign(layout, path, value);
    if (div.clientWidth < 560) { // a narrow screen: legends below, smaller margins
      layout.margin = Object.assign({}, layout.margin, { l: Math.min(layout.margin.l, 64), r: layout.yaxis2 && layout.yaxis2.side === "right" ? 40 : 6 });
      layout.font.size = 11;
      if (layout.meta && layout.meta.narrow) {
        for (const [path, value] of Object.entries(layout.meta.narrow)) assign(layout, path, value);
      }
    }
    const tools = layout.meta && layout.meta.tools;
    const target = document.createElement("div");
    target.id = div.dataset.plot;
    div.querySelectorAll(".off").forEach((note) => note.remove());
    div.prepend(target);
    div.classList.add("drawn");
    Plotly.newPlot(target, data, layout, { displaylogo: false, responsive: true, displayModeBar: tools ? "hover" : false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"], scrollZoom: false });
    if (tools) keys(target, div);
    target.on("plotly_click", (event) => {
      const id = event.points.map((p) => p.customdata).find((c) => typeof c === "string" && /^odd-\d+$/.test(c));
      if (id) openDetail(id);
    });
  };
  // a timeline by keyboard: arrows move, + and - zoom, 0 shows all
  const keys = (target, div) => {
    const home = [...target.layout.xaxis.range];
    div.tabIndex = 0;
    div.addEventListener("keydown", (event) => {
      const [low, high] = target.layout.xaxis.range;
      const width = high - low, middle = (low + high) / 2;
      const to = {
        ArrowLeft: [low - width / 4, high - width / 4], ArrowRight: [low + width / 4, high + width / 4],
        "+": [middle - width / 4, middle + width / 4], "=": [middle - width / 4, middle + width / 4],
        "-": [middle - width, middle + width], 0: home,
      }[event.key];
      if (!to || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      Plotly.relayout(target, { "xaxis.range": to });
    });
  };
  const openDetail = (id) => {
    const detail = document.getElementById(id);
    detail.open = true;
    detail.scrollIntoView({ block: "center" });
    detail.querySelector("summary").focus({ preventScroll: true });
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  all(".plot").forEach((div) => watcher.observe(div));
  // what is on the page but not yet in view is drawn when the browser has nothing better to do
  const later = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  const rest = () => {
    const next = all(".plot:not(.drawn)").find((div) => div.offsetParent);
    if (next) { draw(next); later(rest); }
  };
  if (window.Plotly) later(rest);
  all("details").forEach((d) => d.addEventListener("toggle", () => { if (d.open) all(".plot", d).forEach(draw); }));
  addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    all(".plot").forEach((div) => { if (div.offsetParent) draw(div); });
    all(".plot.drawn").forEach((div) => Plotly.relayout(div.firstElementChild, themed(div)));
  });
  addEventListener("afterprint", follow);

  // -- step picker --------------------------------------------------------------------------
  all(".picker").forEach((picker) => picker.addEventListener("change", (event) => {
    for (const input of all("input", picker)) document.getElementById(input.value).hidden = input.value !== event.target.value;
    all(".plot", document.getElementById(event.target.value)).forEach(draw);
  }));

  // -- tables: sort, search, copy -----------------------------------------------------------
  const value = (row, column) => {
    const cell = row.cells[column];
    const raw = cell.dataset.v;
    if (raw === undefined) return cell.textContent.trim().toLowerCase();
    return raw === "" ? null : Number(raw);
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null); // what is missing stays last
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
  };
  all("thead th button").forEach((button) => button.addEventListener("click", () => {
    const th = button.parentElement;
    const body = th.closest("table").tBodies[0];
    const numeric = th.classList.contains("n");
    const now = th.getAttribute("aria-sort");
    const down = now ? now === "ascending" : numeric; // numbers start with the largest
    all("th", th.parentElement).forEach((other) => other.removeAttribute("aria-sort"));
    th.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row, i) => [value(row, th.cellIndex), i, row]);
    rows.sort((a, b) => {
      if (a[0] === null || b[0] === null) return compare(a[0], b[0]) || a[1] - b[1];
      return (down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1];
    });
    body.append(...rows.map((r) => r[2]));
  }));
  all("input[type=search]").forEach((input) => input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const table = document.getElementById(input.getAttribute("aria-controls"));
    let left = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += !row.hidden;
    }
    say(table, words.length ? `${left} of ${table.tBodies[0].rows.length} rows` : "");
  }));
  const say = (table, text) => { table.closest(".table").querySelector(".says").textContent = text; };
  const quoted = (text) => {
    const safe = /^[=+\-@]/.test(text) && isNaN(Number(text)) && text !== "-" ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = (table) => {
    const heads = all("thead th", table).map((th) => quoted(th.dataset.key));
    const rows = all("tbody tr, tfoot tr", table).filter((row) => !row.hidden).map((row) =>
      [...row.cells].map((cell) => quoted(cell.dataset.v ?? (cell.dataset.t ?? cell.textContent).trim())).join(","));
    return `${[heads.join(","), ...rows].join("\n")}\n`;
  };
  const copyText = async (text) => {
    try { await navigator.clipboard.writeText(text); return; } catch { /* not allowed here: the old way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  all("button.copy").forEach((button) => button.addEventListener("click", async () => {
    const table = document.getElementById(button.getAttribute("aria-controls"));
    const text = csv(table);
    await copyText(text);
    say(table, `copied ${text.trim().split("\n").length - 1} rows as CSV`);
  }));

  follow();
  root.classList.add("ready");
})();
