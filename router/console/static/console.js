// What a page does beyond its text: charts, the sign that it is live, copying a command, keys. Without it everything can be read.
"use strict";

const charts = new Map();
document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

function readColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function buildOptions(element, lines) {
  const axis = { stroke: readColour("--soft"), grid: { stroke: readColour("--line"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
  const clock = (_, seconds) => seconds.map((at) => new Date(at * 1000).toISOString().slice(11, 19));
  return {
    width: element.clientWidth, height: 150, legend: { show: false }, padding: [8, 14, 0, 0], cursor: { points: { size: 5 }, y: false },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.15 : 1] } },
    axes: [{ ...axis, grid: { show: false }, values: clock, space: 90, size: 26 }, { ...axis, size: 46, space: 34 }],
    series: [{}, ...lines.map((line) => ({ stroke: readColour(line.colour), width: 1.5, fill: line.fill && readColour(line.fill), points: { show: false } }))],
  };
}

function draw(id, data, lines) {
  const element = document.getElementById(id);
  if (!element || !window.uPlot || !data[0] || data[0].length < 2) return;
  const chart = charts.get(id);
  if (chart) { chart.setData(data); return; }
  element.replaceChildren();
  charts.set(id, new uPlot(buildOptions(element, lines), data, element));
}

function drawAll() {
  const holder = document.getElementById("series");
  if (!holder) return;
  const series = JSON.parse(holder.dataset.series);
  if (!series.length) return;
  const [at, rate, p50, p99] = series;
  draw("chart-rate", [at, rate], [{ colour: "--accent", fill: "--accent-wash" }]);
  draw("chart-latency", [at, p50, p99], [{ colour: "--accent" }, { colour: "--soft" }]);
}

function redraw() {
  for (const chart of charts.values()) chart.destroy();
  charts.clear();
  drawAll();
}

function showLive(state, text) {
  const live = document.getElementById("live");
  if (live) { live.dataset.live = state; live.textContent = text; }
}

// An EventSource that is closed while its tab is hidden: nothing is asked for a page that is not looked at.
class TabSource {
  #source = null;
  #listeners = [];
  #follow = () => (document.hidden ? this.#pause() : this.#resume());

  constructor(url) {
    this.url = url;
    document.addEventListener("visibilitychange", this.#follow);
    this.#follow();
  }

  get readyState() { return this.#source ? this.#source.readyState : EventSource.CONNECTING; }

  addEventListener(name, listener) {
    this.#listeners.push([name, listener]);
    this.#source?.addEventListener(name, listener);
  }

  removeEventListener(name, listener) {
    this.#listeners = this.#listeners.filter((one) => one[0] !== name || one[1] !== listener);
    this.#source?.removeEventListener(name, listener);
  }

  close() {
    document.removeEventListener("visibilitychange", this.#follow);
    this.#pause();
  }

  #resume() {
    if (this.#source) return;
    const source = this.#source = new EventSource(this.url);
    source.onopen = (event) => this.onopen?.(event);
    source.onerror = (event) => {
      if (source.readyState === EventSource.CLOSED) document.removeEventListener("visibilitychange", this.#follow); // htmx makes another
      this.onerror?.(event);
    };
    for (const [name, listener] of this.#listeners) source.addEventListener(name, listener);
  }

  #pause() {
    this.#source?.close();
    this.#source = null;
    showLive("no", "paused while this tab is hidden");
  }
}
if (window.htmx) htmx.createEventSource = (url) => new TabSource(url);

document.addEventListener("htmx:sseOpen", () => showLive("on", "live"));
document.addEventListener("htmx:sseError", () => showLive("off", "not live: the console does not answer; it is asked again"));
document.addEventListener("htmx:sseMessage", () => {
  const holder = document.getElementById("series");
  showLive("on", holder ? `live, ${holder.dataset.at} UTC` : "live");
  drawAll();
});

document.addEventListener("htmx:afterSwap", () => { // the editor's findings, while it is typed in
  const field = document.querySelector("[aria-describedby~=findings]");
  if (!field) return;
  if (document.querySelector("#findings[data-wrong]")) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
});

for (const button of document.querySelectorAll(".copy")) button.hidden = !navigator.clipboard;
for (const hint of document.querySelectorAll(".keys")) hint.hidden = false;

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
  if (event.key === "/") {
    const field = document.querySelector(".filters input[type=search], .filters input");
    if (field) { event.preventDefault(); field.focus(); }
  } else if (isGoing) {
    isGoing = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else if (event.key === "g") {
    isGoing = true;
    setTimeout(() => { isGoing = false; }, 1500);
  }
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let waiting = 0;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 200); });
drawAll();
