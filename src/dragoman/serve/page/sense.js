// Columns that are not text: pictures, sounds and clips are dropped, points are clicked.

import { make, svg } from "./text.js";

const TYPES = { image: "image/*", sound: "audio/*", video: "video/*,.npy" };
const NAMES = { image: "a picture", sound: "a sound", video: "a clip" };
const SIDE = 320; // of the square that points are clicked on

export const isFile = (kind) => kind in TYPES;

/** What people do until there is an answer. */
export function invitation(kinds) {
  const file = kinds.find(isFile);
  if (file) return `The answer grows here once there is ${NAMES[file]}.`;
  return `The answer grows here while you ${kinds.includes("points") ? "click" : "type"}.`;
}

/** A place for a file: `value` is null until there is one. */
export function fileField(kind, changed) {
  const show = make("div", { class: "shown" });
  const input = make("input", { type: "file", accept: TYPES[kind], class: "unseen" });
  const hint = make("span", { class: "drop-hint" }, `Drop ${NAMES[kind]} here, or choose a file`);
  const zone = make("label", { class: "drop" }, input, hint, show);
  const field = { node: zone, kind, value: null, preview: null };
  const take = (file) => {
    if (!file) return;
    if (field.url) URL.revokeObjectURL(field.url);
    [field.value, field.url] = [file, URL.createObjectURL(file)];
    const source = { src: field.url, alt: "what the model looks at", controls: true, class: "preview" };
    field.preview = file.name.endsWith(".npy") ? null : make({ image: "img", sound: "audio", video: "video" }[kind], source);
    hint.textContent = file.name;
    show.replaceChildren(...(field.preview ? [field.preview] : []));
    changed();
  };
  input.addEventListener("change", () => take(input.files[0]));
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  return field;
}

/** Points are clicked on a square; `value` is the text that a model reads. */
export function pointsField(changed) {
  const plane = svg("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, class: "plane", role: "img", "aria-label": "Points; click to add one, click one to remove it" });
  const area = make("textarea", { rows: 2, spellcheck: "false", placeholder: "0.1 0.2 0.9 0.4 …", "aria-label": "Points as numbers, x and y in turn" });
  const field = { node: make("div", { class: "points" }, plane, area, make("p", { class: "hint" }, "Click to add a point; click a point to take it away.")), kind: "points", area, order: [] };
  Object.defineProperty(field, "value", { get: () => area.value, set: (text) => { area.value = text; draw(); } });
  const numbers = () => area.value.replace(/[[\],]/g, " ").split(/\s+/).filter(Boolean).map(Number).filter(Number.isFinite);
  const points = () => numbers().reduce((found, n, at, all) => (at % 2 ? [...found, [all[at - 1], n]] : found), []);
  const place = ([x, y]) => [10 + x * (SIDE - 20), SIDE - 10 - y * (SIDE - 20)];

  function draw() {
    const all = points();
    const stops = field.order.map((stop) => all[stop - 1]).filter(Boolean);
    const path = stops.length > 1 ? [svg("polygon", { points: stops.map((stop) => place(stop).join()).join(" "), class: "way" })] : [];
    const dots = all.flatMap((point, at) => {
      const [x, y] = place(point);
      const dot = svg("circle", { cx: x, cy: y, r: 6, class: at + 1 === field.order[0] ? "dot first" : "dot", "data-at": at });
      return [dot, svg("text", { x: x + 8, y: y - 7 }, String(field.order.indexOf(at + 1) + 1 || ""))];
    });
    plane.replaceChildren(...path, ...dots);
  }

  function write(all) {
    area.value = all.map((point) => point.map((n) => Number(n.toFixed(3))).join(" ")).join("  ");
    field.order = [];
    draw();
    changed();
  }

  plane.addEventListener("click", (event) => {
    const all = points();
    if (event.target.dataset?.at) return write(all.filter((_, at) => at !== Number(event.target.dataset.at)));
    const box = plane.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    const inside = (share) => Math.min(1, Math.max(0, (share * SIDE - 10) / (SIDE - 20)));
    return write([...all, [inside(x), inside(1 - y)]]);
  });
  area.addEventListener("input", () => { field.order = []; draw(); changed(); });
  field.visit = (tokens) => { field.order = tokens.map(Number); draw(); };
  draw();
  return field;
}
