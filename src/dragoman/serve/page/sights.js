// Attention over what is not text: a picture lit up word by word, or bars over frames and time.

import { label, make } from "./text.js";

const SIZE = 132; // pixels of a small picture

/** What can be shown of attention: [view, aim], or null. `preview` is the picture, if there is one. */
export function sight(attention, tokens, preview) {
  const part = attention.parts?.find((one) => one.over !== "tokens") ?? attention;
  if (part.over === "grid" && preview?.tagName === "IMG") return pictures(part, tokens, preview);
  if (["grid", "frames", "times", "points"].includes(part.over)) return bars(part, tokens);
  return null;
}

function pictures(part, tokens, preview) {
  const top = Math.max(...part.weights.flat(), 1e-9); // of all tokens: one that looks everywhere glows nowhere
  const [rows, columns] = part.shape.slice(-2);
  const figures = tokens.map((token, t) => {
    const canvas = make("canvas", { width: SIZE, height: SIZE, role: "img", "aria-label": `where the model looked for ${token}` });
    const paint = () => glow(canvas, preview, part.weights[t].map((weight) => weight / top), rows, columns);
    if (preview.complete) paint();
    else preview.addEventListener("load", paint, { once: true });
    return make("figure", { "data-at": t }, canvas, make("figcaption", {}, ...label(token)));
  });
  return make("div", { class: "glows" }, ...figures);
}

/** The picture in grey, and over it the weights in colour. */
function glow(canvas, preview, shares, rows, columns) {
  const ratio = (preview.naturalHeight || 1) / (preview.naturalWidth || 1);
  canvas.height = Math.round(SIZE * Math.min(2, Math.max(0.4, ratio)));
  const brush = canvas.getContext("2d");
  brush.filter = "grayscale(1) brightness(.75)";
  brush.drawImage(preview, 0, 0, canvas.width, canvas.height);
  brush.filter = "none";
  const small = new OffscreenCanvas(columns, rows);
  const dots = small.getContext("2d");
  const picture = dots.createImageData(columns, rows);
  shares.slice(-rows * columns).forEach((share, at) => {
    picture.data.set([255, 90 + 150 * share, 40 + 60 * share, 210 * share], 4 * at);
  });
  dots.putImageData(picture, 0, 0);
  brush.imageSmoothingEnabled = true;
  brush.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** A row of weights for each token, over frames or time. */
function bars(part, tokens) {
  const top = Math.max(...part.weights.flat(), 1e-9);
  const rows = tokens.map((token, t) => {
    const strip = make("canvas", { width: part.weights[t].length, height: 1, class: "strip", role: "img", "aria-label": `strongest at ${part.weights[t].indexOf(Math.max(...part.weights[t])) + 1} of ${part.weights[t].length}` });
    const brush = strip.getContext("2d");
    const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue("--wash").trim().split(/\s+/);
    part.weights[t].forEach((weight, at) => {
      brush.fillStyle = `rgb(${r} ${g} ${b} / ${(weight / top).toFixed(3)})`;
      brush.fillRect(at, 0, 1, 1);
    });
    return make("div", { class: "bar-row", "data-at": t }, make("span", { class: "bit" }, ...label(token)), strip);
  });
  return make("div", { class: "bars" }, ...rows, make("p", { class: "hint" }, { times: "time →", frames: "frames →", points: "points →" }[part.over] ?? ""));
}
