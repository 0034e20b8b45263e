// The page: what people type goes to the worker, what it answers is shown.
"use strict";

const $ = (id) => document.getElementById(id);
const about = JSON.parse($("about").textContent);
const worker = new Worker(URL.createObjectURL(new Blob([$("runtime").textContent], { type: "text/javascript" })));
const waiting = new Map();
let asked = 0;
let seed = 1;

worker.onmessage = ({ data }) => {
  const { resolve, reject } = waiting.get(data.id);
  waiting.delete(data.id);
  if (data.error) reject(new Error(data.error));
  else resolve(data);
};

function tell(message) {
  return new Promise((resolve, reject) => {
    const id = ++asked;
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, ...message });
  });
}

const ready = tell({ about, blob: $("weights").textContent.trim() });
// For programs: answers to many inputs, each a list of texts, one per column.
window.dragoman = { about, ready, answer: (inputs, options) => ready.then(() => tell({ inputs, options })) };

function element(name, text, classes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (classes) made.className = classes;
  return made;
}

const fields = (about.sources.length ? about.sources : [{ name: "beginning" }]).map(({ name }) => {
  const label = element("label", undefined, "column");
  if (about.sources.length !== 1) label.append(element("span", name));
  const area = element("textarea");
  area.dir = "auto";
  area.rows = 1;
  area.spellcheck = false;
  area.setAttribute("aria-label", name === "source" ? "Text" : name);
  area.placeholder = about.sources.length ? "Type here …" : "How it begins …";
  label.append(area);
  $("columns").append(label);
  return area;
});

function setUp() {
  const own = about.search.beam;
  for (const width of [...new Set([1, own, 5, 10])].sort((a, b) => a - b)) {
    const option = element("option", width === 1 ? "1 (greedy)" : String(width));
    option.value = width;
    option.selected = width === own;
    $("beam").append(option);
  }
  const random = about.search.sample;
  $("beam").parentElement.hidden = random || about.ends === "once";
  $("again").hidden = !random;
  for (const example of about.examples) {
    const button = element("button", example.join(" · "));
    button.type = "button";
    button.onclick = () => {
      fields.forEach((area, i) => (area.value = example[i]));
      answer();
    };
    $("examples").append(button);
  }
}

let turn = 0;
async function answer() {
  const mine = ++turn;
  const beam = Number($("beam").value);
  const options = about.search.sample ? { seed: seed++ } : { beam, n_best: Math.min(5, Math.max(beam, 3)) };
  try {
    await ready;
    const { found, ms } = await tell({ inputs: [fields.map(text)], options });
    if (mine === turn) show(found[0], ms);
  } catch (error) {
    $("answer").className = "error";
    $("answer").textContent = `This did not work: ${error.message}`;
  }
}

function show({ answers, source }, ms) {
  const [best] = answers;
  $("answer").className = "";
  $("answer").textContent = best.text;
  $("time").textContent = best.ids.length ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : "Ready";
  $("others").replaceChildren(...(answers.length > 1 ? answers.map(shareLine) : []));
  $("looked").hidden = !best.looked.length || best.looked.length !== best.tokens.length;
  if (!$("looked").hidden) $("map").replaceChildren(heat(best, source));
}

const percent = (share) => (share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

function shareLine({ text, score }) {
  const line = element("li");
  const share = Math.exp(score);
  const words = element("span", text || "(nothing)", "text");
  words.dir = "auto";
  const bar = element("span", undefined, "bar");
  const filled = element("i");
  filled.style.width = `${100 * share}%`;
  bar.append(filled);
  line.append(words, bar, element("span", percent(share), "share"));
  return line;
}

// A break at the end is the Enter key, no part of a text; a language model may go on from it.
const text = (area) => (about.sources.length ? area.value.replace(/\n+$/, "") : area.value);

const SIGNS = { "</s>": "⏎", " ": "␣", "<unk>": "□" };
const shown = (token) => SIGNS[token] ?? token.replaceAll("\u2581", "␣");

function heat({ tokens, looked }, source) {
  const table = element("table", "", source.length > 24 ? "dense" : "");
  const head = table.createTHead().insertRow();
  head.append(element("th"));
  const long = source.some((token) => shown(token).length > 2);
  for (const token of source) head.append(element("th", shown(token), long ? "long" : ""));
  const body = table.createTBody();
  looked.forEach((weights, t) => {
    const line = body.insertRow();
    line.append(element("th", shown(tokens[t])));
    weights.forEach((weight, s) => {
      const cell = line.insertCell();
      cell.style.background = `rgba(var(--heat), ${(0.04 + 0.96 * weight).toFixed(3)})`;
      cell.title = `${shown(tokens[t])} ← ${shown(source[s])}: ${(100 * weight).toFixed(0)} %`;
    });
  });
  return table;
}

let pause = 0;
for (const area of fields) {
  area.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(answer, 80);
  });
}
$("beam").addEventListener("change", answer);
$("again").addEventListener("click", answer);
setUp();
if (about.examples.length) fields.forEach((area, i) => (area.value = about.examples[0][i]));
ready.then(() => {
  $("time").textContent = "Ready";
  if (about.examples.length || !about.sources.length) answer();
}, (error) => {
  $("answer").className = "error";
  $("answer").textContent = `The model could not be read: ${error.message}`;
});
