// Training as curves: the loss of both sets, and what the model writes, by step.

import { make, svg } from "./text.js";

const [WIDE, HIGH, BOTTOM, TOP] = [250, 150, 24, 10];
const NAMES = {
  bits: "bits per character", bleu: "BLEU", bleu1: "BLEU-1", bleu4: "BLEU-4", chrf: "chrF", cider: "CIDEr", cer: "CER", wer: "WER", per: "PER", exact: "exact match",
  "rouge-captions": "ROUGE-L", "f1-macro": "macro F1", "f1-entity": "entity F1", tour: "tour length", "tour-valid": "valid tours", "hull-area": "hull area",
};
const PERCENT = new Set(["cer", "wer", "per", "exact", "accuracy", "f1-macro", "f1-entity", "tour", "tour-valid"]);

export function charts(rows) {
  const seen = new Set(rows.flatMap((row) => Object.keys(row)));
  const metrics = [...seen].filter((name) => name.startsWith("dev_") && !/_(loss|perplexity)$/.test(name));
  const first = chart("loss per token", rows, [["train_loss", "training"], ["dev_loss", "held out"]]);
  return [first, ...metrics.map((name) => {
    const plain = name.slice(4);
    const unit = PERCENT.has(plain) ? " (%)" : "";
    return chart((NAMES[plain] ?? plain) + unit + ", held out", rows, [[name, ""]]);
  })];
}

function chart(title, rows, series) {
  const lines = series.map(([name, about]) => ({ about, points: rows.filter((row) => name in row).map((row) => [row.step, row[name]]) }));
  const all = lines.flatMap((line) => line.points);
  const keys = lines.filter((line) => line.about).map((line, at) => make("span", { class: at ? "key second" : "key" }, line.about));
  const last = lines.at(-1).points.at(-1);
  const caption = make("figcaption", {}, make("span", {}, title), ...(keys.length ? [make("span", {}, ...keys)] : [make("span", {}, last ? round(last[1]) : "")]));
  return make("figure", { class: "chart", role: "img", "aria-label": `${title}: ${last ? round(last[1]) + " at step " + last[0] : "no figures yet"}` }, caption, plot(all, lines));
}

function plot(all, lines) {
  const right = Math.max(1, ...all.map(([x]) => x));
  const ys = all.map(([, y]) => y);
  let [low, high] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
  if (low > 0 && low < high * 0.6) low = 0;
  if (low === high) [low, high] = low < 0 ? [low, 0] : [0, high || 1];
  const ticks = nice(low, high);
  [low, high] = [Math.min(low, ticks[0]), Math.max(high, ticks.at(-1))];
  const named = ticks.map((value) => tick(value, ticks[1] - ticks[0]));
  const left = Math.max(32, 10 + 7 * Math.max(...named.map((name) => name.length)));
  const x = (step) => left + (step / right) * (WIDE - left - 12);
  const y = (value) => HIGH - BOTTOM - ((value - low) / (high - low)) * (HIGH - BOTTOM - TOP);
  const rules = ticks.flatMap((value, at) => [
    svg("line", { class: "rule", x1: left, x2: WIDE - 12, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 3.5, "text-anchor": "end" }, named[at]),
  ]);
  const feet = [[0, "start"], [right, "end"]].map(([step, anchor]) =>
    svg("text", { x: x(step), y: HIGH - 8, "text-anchor": anchor }, step ? `${step.toLocaleString("en")} steps` : "0"));
  const drawn = lines.map(({ points }, at) => points.length === 1
    ? svg("circle", { cx: x(points[0][0]), cy: y(points[0][1]), r: 3, class: at ? "second" : "first", fill: "currentColor" })
    : svg("polyline", { class: at ? "second" : "first", points: points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
  return svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" }, ...rules, ...feet, ...drawn);
}

function nice(low, high) {
  const rough = (high - low) / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= rough);
  const ticks = [];
  for (let value = Math.floor(low / step + 1e-9) * step; value < high + step * (1 - 1e-6); value += step) ticks.push(Number(value.toPrecision(12)));
  return ticks;
}

/** As many digits as tell a tick from the next. */
const tick = (value, step) => value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
const round = (value) => Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
