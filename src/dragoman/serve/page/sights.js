// Attention over what is not text: a picture lit up word by word, frames of a clip, a spectrogram.

import { label, make, named } from "./text.js";

const SIZE = 132; // pixels of a small picture
const LAST = 0.96; // of an axis: what is written further right would be cut off
const MOST = 40; // points that a table can hold
const TITLES = { grid: "picture", frames: "frames", times: "sound", points: "points", tokens: "text" };

/** What can be shown of attention. `preview` is the picture, if there is one; `seen` is what the
 * model sees of the file; `source` are the tokens of columns of text. */
export function sight(attention, tokens, preview, seen, source) {
  const parts = attention.parts?.length ? attention.parts : [attention];
  let begin = 0;
  const views = parts.map((part) => {
    const names = source.slice(begin, (begin += part.weights[0].length));
    return view(part, tokens, preview, seen, names);
  });
  if (views.length === 1) return views[0];
  return make("div", { class: "sights" }, ...views.map((node, at) =>
    make("section", {}, make("h3", {}, TITLES[parts[at].over] ?? parts[at].over), node)));
}

function view(part, tokens, preview, seen, names) {
  const image = seen?.find((one) => one.kind === "image");
  const clip = seen?.find((one) => one.kind === "video");
  const sound = seen?.find((one) => one.kind === "sound");
  if (part.over === "grid" && preview?.tagName === "IMG") return pictures(part, tokens, image && !image.whole ? load(image.picture) : preview);
  if (part.over === "frames" && clip) return film(part, tokens, clip);
  if (part.over === "times" && sound) return spectrogram(part, tokens, sound);
  if (part.over === "tokens") return words(part, tokens, names);
  if (part.over === "points" && names.length <= MOST) return words(part, tokens, names.map((_, at) => String(at + 1)));
  return make("div", { class: "bars" }, ...bars(part, tokens), make("p", { class: "hint" }, { times: "time →", frames: "frames →", points: "points →" }[part.over] ?? ""));
}

function load(address) {
  const image = new Image();
  image.src = address;
  return image;
}

/** The weight that is shown in full, of all tokens: one that looks everywhere glows nowhere. */
const strongest = (part) => Math.max(...part.weights.flat(), Math.min(1, 3 / part.weights[0].length));

function pictures(part, tokens, picture) {
  const top = strongest(part);
  const [rows, columns] = part.shape.slice(-2);
  const figures = tokens.map((token, t) => {
    const canvas = make("canvas", { width: SIZE, height: SIZE, role: "img", "aria-label": `where the model looked for ${named(token)}` });
    const paint = () => glow(canvas, picture, part.weights[t].map((weight) => weight / top), rows, columns);
    if (picture.complete && picture.naturalWidth) paint();
    else picture.addEventListener("load", paint, { once: true });
    return make("figure", { "data-at": t }, canvas, make("figcaption", {}, ...label(token)));
  });
  return make("div", { class: "glows" }, ...figures);
}

/** The picture in grey, and over it the weights in colour. */
function glow(canvas, picture, shares, rows, columns) {
  const ratio = picture.naturalHeight / picture.naturalWidth;
  canvas.height = Math.round(SIZE * Math.min(2, Math.max(0.4, ratio)));
  const brush = canvas.getContext("2d");
  brush.filter = "grayscale(1) brightness(.75)";
  brush.drawImage(picture, 0, 0, canvas.width, canvas.height);
  brush.filter = "none";
  const small = new OffscreenCanvas(columns, rows);
  const dots = small.getContext("2d");
  const colours = dots.createImageData(columns, rows);
  shares.slice(-rows * columns).forEach((share, at) => {
    colours.data.set([255, 90 + 150 * share, 40 + 60 * share, 225 * share ** 1.5], 4 * at);
  });
  dots.putImageData(colours, 0, 0);
  brush.imageSmoothingEnabled = true;
  brush.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** The frames as the model sees them, and below each how much of it is in each token. */
function film(part, tokens, clip) {
  const top = strongest(part);
  const count = part.weights[0].length;
  const strip = load(clip.picture);
  const canvases = Array.from({ length: count }, (_, at) => make("canvas", { role: "img", "aria-label": `frame ${at + 1}` }));
  strip.addEventListener("load", () => canvases.forEach((canvas, at) => {
    const wide = strip.naturalWidth / clip.frames;
    [canvas.width, canvas.height] = [wide, strip.naturalHeight];
    canvas.getContext("2d").drawImage(strip, -Math.round(at * clip.frames / count) * wide, 0);
  }));
  const head = make("tr", {}, make("td"), ...canvases.map((canvas, at) => make("td", {}, canvas, make("small", { "aria-hidden": "true" }, String(at + 1)))));
  return table("film", head, part, tokens, (s) => `frame ${s + 1}`, top);
}

function table(kind, head, part, tokens, name, top) {
  const rows = part.weights.map((row, t) => make("tr", { "data-at": t },
    make("th", { scope: "row" }, ...label(tokens[t] ?? "")),
    ...row.map((weight, s) => {
      const cell = make("td", { class: "cell", title: `${named(tokens[t] ?? "")} ← ${name(s)}: ${weight.toFixed(2)}` });
      cell.style.setProperty("--w", (weight / top).toFixed(3));
      return cell;
    })));
  return make("table", { class: kind, "aria-label": said(part, tokens, name) }, make("thead", {}, head), make("tbody", {}, ...rows));
}

const said = (part, tokens, name) => "Attention: " + part.weights.slice(0, 20).map((row, t) => `${named(tokens[t] ?? "")} from ${name(row.indexOf(Math.max(...row)))}`).join(", ");

/** Weights over a column of text beside another that is none. */
function words(part, tokens, names) {
  const head = make("tr", {}, make("td"), ...names.map((name) => make("th", { scope: "col" }, ...label(name))));
  return table("words", head, part, tokens, (s) => named(names[s] ?? ""), strongest(part));
}

/** The sound as the model hears it, low pitch below; under it, on the same axis of time, the weights. */
function spectrogram(part, tokens, sound) {
  const picture = make("img", { src: sound.picture, alt: `spectrogram of ${sound.seconds.toFixed(1)} seconds`, class: "spectrum" });
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10].find((size) => sound.seconds / size <= 8) ?? 30;
  const count = Math.floor((LAST * sound.seconds) / step) + 1;
  const ticks = Array.from({ length: count }, (_, at) => {
    const tick = make("span", {}, Number((at * step).toFixed(2)) + (at ? "" : " s"));
    tick.style.insetInlineStart = `${(100 * at * step) / sound.seconds}%`;
    return tick;
  });
  return make("div", { class: "bars", role: "group", "aria-label": said(part, tokens, (s) => `${(part.times[s] ?? 0).toFixed(2)} s`) },
    make("div", { class: "bar-row" }, make("span", { class: "bit" }), picture), ...bars(part, tokens),
    make("div", { class: "bar-row", "aria-hidden": "true" }, make("span", { class: "bit" }), make("div", { class: "ticks" }, ...ticks)));
}

/** A row of weights for each token, over frames or time. */
function bars(part, tokens) {
  const top = strongest(part);
  return tokens.map((token, t) => {
    const strip = make("canvas", { width: part.weights[t].length, height: 1, class: "strip", role: "img", "aria-label": `strongest at ${part.weights[t].indexOf(Math.max(...part.weights[t])) + 1} of ${part.weights[t].length}` });
    const brush = strip.getContext("2d");
    const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue("--wash").trim().split(/\s+/);
    part.weights[t].forEach((weight, at) => {
      brush.fillStyle = `rgb(${r} ${g} ${b} / ${(weight / top).toFixed(3)})`;
      brush.fillRect(at, 0, 1, 1);
    });
    return make("div", { class: "bar-row", "data-at": t }, make("span", { class: "bit" }, ...label(token)), strip);
  });
}
