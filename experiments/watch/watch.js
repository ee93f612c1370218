"use strict";
// Asks for a look every few seconds and shows it. A chart is made anew when its lines change names;
// else only its data is put in.
const config = JSON.parse(document.getElementById("config").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const place = (id) => document.getElementById(id);
const charts = new Map();

const make = (tag, text, kind) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const figure = (value) => {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) || Math.abs(value) >= 999.5) return Math.round(value).toLocaleString("en");
  const text = value.toPrecision(3);
  return Math.abs(value) < 1e-3 ? Number(text).toString() : text;
};
const clock = (ms) => new Date(ms).toISOString().slice(11, 19);
const day = (ms) => new Date(ms).toISOString().slice(0, 10);

function table(id, heads, rows) {
  const [head, body] = [place(id).tHead, place(id).tBodies[0]];
  const line = make("tr");
  heads.forEach((one, at) => line.append(make("th", one, at && one ? "n" : "")));
  head.replaceChildren(line);
  body.replaceChildren(...rows.map(({ cells, kind }) => {
    const row = make("tr", undefined, kind);
    cells.forEach((cell, at) => {
      const [text, mood, below] = Array.isArray(cell) ? cell : [cell, "n"];
      const made = make(at ? "td" : "th", text, mood);
      if (below) made.append(make("small", below));
      if (!at) { made.scope = "row"; made.className = ""; }
      row.append(made);
    });
    return row;
  }));
}

const latencyCells = (name, row, slo) => [name, figure(row.requests),
  [figure(row.failed), row.failed ? "n bad" : "n"],
  ...["mean", "p50", "p90", "p95", "p99", "max"].map((key) => {
    const few = { p95: 200, p99: 1000 }[key] > row.requests;
    const limit = slo[key];
    const mood = limit === undefined ? "" : row[key] > limit ? " bad" : " good";
    return [figure(row[key]) + (few ? " ?" : ""), `n${mood}`];
  })];

function latency({ arms, slo }) {
  const limit = (key) => slo[key] === undefined ? key : `${key} ≤ ${slo[key].toLocaleString("en")}`;
  const heads = ["arm", "requests", "failed", "mean", "p50", "p90", limit("p95"), limit("p99"), "max"];
  table("latency", heads, arms.flatMap((one) => [
    { cells: latencyCells(one.arm, one, slo) },
    ...(one.last_minute
      ? [{ cells: latencyCells("last minute", one.last_minute, slo), kind: "recent" }] : []),
  ]));
}

const MOODS = { burns: "bad", "begins to burn": "unknown", "has burnt": "unknown", within: "good" };
const rate = ({ said, ...now }) => [said ? `${figure(now["1 min"])} / ${figure(now["5 min"])}` : "–", `n ${MOODS[said] ?? ""}`, said];
function burn({ arms }) {
  const limits = [...new Set(arms.flatMap((one) => Object.keys(one.burn)))];
  table("burn", ["arm", ...limits], arms.map((one) => (
    { cells: [one.arm, ...limits.map((limit) => one.burn[limit] ? rate(one.burn[limit]) : "–")] })));
  place("burn").parentElement.hidden = !limits.length;
}

function facts(look) {
  const costs = look.arms.filter((one) => one.usd_per_million !== null)
    .map((one) => `${one.arm} ${figure(one.usd_per_million)}`).join(", ");
  const copies = Object.entries(look.extra_work_percent)
    .map(([tier, percent]) => `${tier} ${figure(percent)} %`).join(", ");
  const faults = look.faults.map((one) =>
    `${one.title} for ${Math.round((look.to_ms - one.start_ms) / 1000)} s`).join(", ");
  const rows = [
    ["Active", look.live && (faults || "no fault, no neighbour")],
    ["Failed", Object.entries(look.failures).map(([name, count]) => `${count} ${name}`).join(", ")],
    ["USD", look.usd_per_hour === null ? "" :
      `${figure(look.usd_per_hour)} an hour; per million good requests: ${costs || "–"}`],
    ["Copies", look.live && copies && `beyond the first, now: ${copies}`],
    ["Verdicts", Object.values(look.verdicts).map((one) => one.title).join("; ")],
  ].filter(([, text]) => text);
  place("facts").replaceChildren(...rows.map(([name, text]) => {
    const row = make("div");
    row.append(make("dt", name), make("dd", text));
    return row;
  }));
}

const GAP_MS = 30000; // a line is not drawn across a longer silence, as in Grafana
const rows = (panel) => panel.lines.flatMap(({ name, points }) => points.flatMap(([t, v], at) => {
  const row = { name, t, v: panel.log && v <= 0 ? null : v };
  return at && t - points[at - 1][0] > GAP_MS ? [{ name, t: t - 1, v: null }, row] : [row];
}));
// Windows that overlap are one shade: on top of each other they would hide the lines.
const windows = (look) => look.windows.reduce((found, one) => {
  const [last, to] = [found.at(-1), one.end_ms ?? look.to_ms];
  if (!last || one.start_ms > last.to) return [...found, { from: one.start_ms, to, active: one.title }];
  last.to = Math.max(last.to, to);
  if (!last.active.split(", ").includes(one.title)) last.active += `, ${one.title}`;
  return found;
}, []);

function specification(panel, look) {
  const ink = dark.matches ? config.dark : config.light;
  const x = { field: "t", type: "temporal", scale: { type: "utc", domain: { signal: "range" } }, axis: { title: null, format: "%H:%M:%S", tickCount: 5, labelOverlap: true } };
  const colours = panel.lines.map((line) => (dark.matches ? line.dark : line.light));
  const named = { field: "name", type: "nominal", sort: null };
  const names = panel.lines.map((line) => line.name);
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width: "container", height: 190, background: null, autosize: { type: "fit-x", contains: "padding" },
    params: [{ name: "range", value: [look.from_ms, look.to_ms] }],
    datasets: { rows: rows(panel), windows: windows(look) },
    layer: [
      { data: { name: "windows" }, mark: { type: "rect", color: ink.window, opacity: 0.18, clip: true, tooltip: { content: "data" } },
        encoding: { x: { ...x, field: "from" }, x2: { field: "to" } } },
      ...(panel.limit === null ? [] : [{ data: { values: [{ v: panel.limit }] },
        mark: { type: "rule", color: ink.limit, strokeDash: [4, 3] }, encoding: { y: { field: "v", type: "quantitative" } } }]),
      { data: { name: "rows" }, mark: { type: "line", strokeWidth: 1.75, clip: true, tooltip: true, invalid: "break-paths-show-domains" },
        encoding: {
          x, y: { field: "v", type: "quantitative", title: panel.unit || null, scale: panel.log ? { type: "log", nice: true } : { zero: true, nice: true }, axis: { tickCount: 5 } },
          color: { ...named, scale: { domain: names, range: colours }, legend: { title: null, orient: "bottom", columns: innerWidth < 720 ? 2 : 3, symbolType: "stroke", symbolSize: 500, labelLimit: 170 } },
          strokeDash: { ...named, scale: { domain: names, range: panel.lines.map((line) => line.dash.length ? line.dash : [1, 0]) } },
        } },
    ],
    config: {
      font: config.font, view: { stroke: null },
      axis: { labelColor: ink.text, titleColor: ink.title, gridColor: ink.grid, domainColor: ink.axis, tickColor: ink.axis, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 },
      legend: { labelColor: ink.text, labelFontSize: 12, symbolStrokeWidth: 2 },
    },
  };
}

async function chart(panel, look) {
  const key = JSON.stringify([panel.lines.map((line) => [line.name, line.light]), panel.limit, dark.matches, innerWidth < 720]);
  let shown = charts.get(panel.title);
  if (!shown) {
    const holder = make("figure");
    shown = { holder, drawing: make("div", undefined, "vega") };
    const about = make("details");
    about.append(make("summary", "What it shows"), make("p", panel.about));
    holder.append(make("h2", panel.title), shown.drawing, about);
    place("charts").append(holder);
    charts.set(panel.title, shown);
  }
  if (shown.key !== key) {
    shown.view?.finalize();
    shown.view = null;
    shown.key = key;
    if (!panel.lines.length) {
      shown.drawing.replaceChildren(make("p", "nothing to draw", "none"));
      return;
    }
    const made = await vegaEmbed(shown.drawing, specification(panel, look), { actions: false, renderer: "svg" });
    shown.view = made.view;
  } else if (shown.view) {
    const put = (data) => vegaEmbed.vega.changeset().remove(() => true).insert(data);
    shown.view.signal("range", [look.from_ms, look.to_ms]);
    await shown.view.change("rows", put(rows(panel))).change("windows", put(windows(look))).runAsync();
  }
}

async function show() {
  const trouble = place("trouble");
  try {
    const answer = await fetch("/look.json");
    const look = await answer.json();
    if (!answer.ok) throw new Error(look.error);
    document.title = `${look.experiment} ${look.run}`;
    place("experiment").textContent = look.experiment;
    place("when").textContent = `run ${look.run}, ${day(look.from_ms)}, ${clock(look.from_ms)} to ${clock(look.to_ms)} UTC`;
    const now = [look.arm, look.phase].filter(Boolean).join(", ");
    place("state").textContent = look.live ? `Live${now && `: ${now}`}` : `Over since ${clock(look.to_ms)} UTC`;
    place("state").className = look.live ? "state live" : "state";
    latency(look);
    burn(look);
    facts(look);
    for (const panel of look.panels) await chart(panel, look);
    trouble.hidden = true;
    document.body.dataset.shown = String(look.to_ms);
  } catch (error) {
    trouble.textContent = `Nothing new to show: ${error.message}`;
    trouble.hidden = false;
  }
}

async function forever() {
  await show();
  setTimeout(forever, 5000);
}
forever();
