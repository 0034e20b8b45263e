// The page: what people type, which models answer, and a link that says it all.

import * as api from "./api.js";
import { Panel } from "./panel.js";
import { fileField, isFile, pointsField } from "./sense.js";
import * as state from "./state.js";
import { make, safely } from "./text.js";

const TITLES = { text: "Text", image: "Picture", sound: "Sound", video: "Clip", points: "Points" };
const PAUSE = 180; // milliseconds after the last key
const LOOK = 1500; // milliseconds between looks at a run in progress
const by = (id) => document.getElementById(id);
const options = by("options");
const wide = matchMedia("(min-width: 60rem)");

let models = {};
let panels = [];
let seed = 1;
let timer = 0;

let fields = [];
const texts = () => fields.map((field) => (isFile(field.kind) ? "" : field.value));
const chosen = () => options.elements.mode.value;

function wishes() {
  const order = options.elements.valid.value;
  return order === "none" ? decoding() : { ...decoding(), valid: order };
}

function decoding() {
  const mode = chosen();
  if (mode === "beam") return { beam: Number(options.elements.beam.value) };
  if (mode === "sample") return { beam: 1, sample: true, temperature: Number(options.elements.temperature.value), seed };
  return { beam: 1, sample: false };
}

function remember() {
  state.write({
    texts: texts(), models: panels.map((panel) => panel.name), prefixes: panels.map((panel) => panel.prefix), mode: chosen(),
    valid: options.elements.valid.value, beam: options.elements.beam.value, temperature: options.elements.temperature.value, seed: String(seed), view: panels[0].sight.style,
  });
}

/** Something changed: show it in the link, and answer. */
function changed(again = true) {
  for (const knob of options.querySelectorAll("[data-for]")) knob.hidden = knob.dataset.for !== chosen();
  for (const output of options.querySelectorAll("output")) output.value = output.previousElementSibling.value;
  by("order").hidden = panels[0].model.writes !== "position";
  layout();
  remember();
  if (again) for (const panel of panels) panel.run(fields, wishes());
}

function soon(panelsForget = true) {
  if (panelsForget) for (const panel of panels) panel.prefix = [];
  clearTimeout(timer);
  timer = setTimeout(changed, PAUSE);
}

/** A place for each column that the first model reads. */
function layout() {
  const columns = panels[0].model.columns.length ? panels[0].model.columns : [{ name: "prompt", kind: "text" }];
  const wanted = columns.map((column) => column.name + column.kind).join();
  document.querySelector("main").className = panels.length > 1 ? "two" : "one";
  by("compare").setAttribute("aria-pressed", String(panels.length > 1));
  const beside = panels.length < 2 && wide.matches;
  for (const panel of panels) (beside ? by("below") : panel.root).append(panel.parts.train);
  if (by("fields").dataset.names === wanted) return;
  const before = texts();
  by("fields").dataset.names = wanted;
  fields = columns.map(({ kind, name }) => (isFile(kind) ? fileField(kind, () => soon()) : kind === "points" ? pointsField(() => soon()) : textField(name)));
  fields.forEach((field, at) => { if (!isFile(field.kind) && before[at]) field.value = before[at]; });
  by("fields").replaceChildren(...fields.map((field, at) => {
    const title = columns[at].name === "source" ? TITLES[field.kind] ?? field.kind : columns[at].name.replace(/^./u, (letter) => letter.toUpperCase());
    return make(field.kind === "text" ? "label" : "div", { class: "field" }, make("span", {}, title), field.node);
  }));
}

function textField(name) {
  const area = make("textarea", { dir: "auto", spellcheck: "false", rows: 2, placeholder: name === "prompt" ? "Begin a text …" : "Type here …", maxlength: 20000, oninput: () => soon() });
  return { node: area, kind: "text", get value() { return area.value; }, set value(text) { area.value = text; } };
}

const put = (given) => fields.forEach((field, at) => { if (!isFile(field.kind)) field.value = given[at] ?? ""; });

function fill(given) {
  put(given);
  for (const panel of panels) panel.prefix = [];
  changed();
}

function examples(samples) {
  const some = samples.filter(({ source }) => source.length && source.join("").length < 120).slice(0, 4);
  by("examples").replaceChildren(...some.map(({ source }) =>
    make("button", { type: "button", class: "quiet", dir: "auto", onclick: () => fill(source) }, ...safely(source.join(" · ")))));
}

function add(name) {
  const panel = new Panel(models, changed);
  panel.use = fill;
  if (!panels.length) panel.told = examples;
  panel.choose(name);
  panels.push(panel);
  by("panels").append(panel.root);
  return panel;
}

function compare() {
  if (panels.length > 1) panels.pop().remove();
  else {
    const names = Object.keys(models);
    add(names.find((name) => name !== panels[0].name) ?? names[0]).look(panels[0].sight.style);
  }
  changed();
}

/** Said once: a line that is written again is read aloud again. */
function tell(line) {
  if (by("standing").textContent !== line) by("standing").textContent = line;
}

async function share() {
  try {
    await navigator.clipboard.writeText(location.href);
    tell("The link is in the clipboard.");
  } catch {
    tell("The address of this page is the link.");
  }
  setTimeout(() => tell(""), 4000);
}

/** Runs in progress: look whether their models have changed, and ask them again. */
async function watch() {
  try {
    const listed = (await api.get("v1/models")).models;
    for (const model of listed) Object.assign(models[model.name] ?? {}, model);
    tell("Watching: the models change while they train.");
    const fresh = panels.filter((panel) => panel.version !== panel.model.version);
    for (const panel of fresh) {
      panel.describe();
      await panel.story();
      panel.run(fields, wishes());
    }
  } catch (error) {
    tell("The server does not answer: " + error.message);
  }
  setTimeout(watch, LOOK);
}

function restore() {
  const given = state.read();
  options.elements.mode.value = ["greedy", "beam", "sample"].includes(given.mode) ? given.mode : "greedy";
  [options.elements.beam.value, options.elements.temperature.value] = [given.beam, given.temperature];
  options.elements.valid.value = ["each-once", "tour", "hull"].includes(given.valid) ? given.valid : "none";
  seed = Math.abs(Math.trunc(Number(given.seed))) || 1;
  const known = given.models.filter((name) => name in models).slice(0, 2);
  for (const panel of panels.splice(0)) panel.remove();
  for (const name of known.length ? known : [Object.keys(models)[0]]) add(name);
  layout();
  put(given.texts);
  panels.forEach((panel, at) => {
    panel.prefix = given.prefixes[at] ?? [];
    panel.look(given.view === "heat" ? "heat" : "edges");
  });
  changed();
}

const enter = () => by("fields").querySelector("textarea, input")?.focus({ preventScroll: true });

async function begin() {
  for (const model of (await api.get("v1/models")).models) models[model.name] = model;
  by("compare").hidden = Object.keys(models).length < 2;
  by("compare").addEventListener("click", compare);
  by("share").addEventListener("click", share);
  by("again").addEventListener("click", () => { seed += 1; changed(); });
  options.addEventListener("input", () => soon(false));
  options.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", restore);
  wide.addEventListener("change", layout);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address holds the state, not a place on the page
    enter();
  });
  restore();
  enter();
  if (Object.values(models).some((model) => model.watched)) setTimeout(watch, LOOK);
}

begin().catch((error) => { tell("The server does not answer: " + error.message); });
