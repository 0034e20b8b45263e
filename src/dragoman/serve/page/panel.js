// One model: its answer while it grows, where it looked, what else it could have said, how it learned.

import * as api from "./api.js";
import { close, menu, show } from "./answer.js";
import { Sight } from "./attention.js";
import { charts } from "./curves.js";
import { invitation, isFile } from "./sense.js";
import { sight } from "./sights.js";
import { make, safely } from "./text.js";

const LIKELY = 6; // symbols in a menu
const FRAME = 50; // milliseconds between two looks at an answer that grows
const RANKED = 5; // answers in the list
const minus = (score) => score.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
/** The probability of a token of it, on average: what answers are ranked by. */
const mean = ({ score, log_probs }) => Math.exp(score / Math.max(1, log_probs.length));
const DASH = "–";
const UNITS = { char: "characters", word: "words", subword: "subwords", label: "a label", position: "places of its input" };

export class Panel {
  constructor(models, changed) {
    Object.assign(this, { models, changed, prefix: [], answer: null, version: null });
    this.root = document.getElementById("panel").content.firstElementChild.cloneNode(true);
    const find = (name) => this.root.querySelector(name);
    this.parts = { text: find(".text"), score: find(".score"), trouble: find(".trouble"), free: find(".free"), spoken: find(".spoken"), sight: find(".sight"), rank: find(".rank"), train: find(".train"), facts: find(".facts"), pick: find("select") };
    this.sight = new Sight(find(".view"), (side, at, other) => this.aim(side, at, other));
    this.parts.pick.append(...Object.keys(models).map((name) => make("option", { value: name }, name)));
    this.parts.pick.addEventListener("change", () => { this.choose(this.parts.pick.value); changed(); });
    this.parts.free.addEventListener("click", () => { this.prefix = []; changed(); });
    for (const style of ["edges", "heat"]) find(`.as-${style}`).addEventListener("click", () => { this.look(style); changed(false); });
    this.choose(Object.keys(models)[0]);
  }

  get model() { return this.models[this.name]; }

  choose(name) {
    if (!(name in this.models) || name === this.name) return;
    [this.name, this.prefix, this.version] = [name, [], null];
    this.parts.pick.value = name;
    this.describe();
    this.story();
  }

  describe() {
    const { recipe, parameters, writes, watched } = this.model;
    const size = parameters >= 1e6 ? (parameters / 1e6).toFixed(1) + " M" : Math.max(1, Math.round(parameters / 1e3)) + " k";
    this.parts.facts.textContent = [recipe, `${size} parameters`, `writes ${UNITS[writes] ?? writes}`, ...(watched ? ["in training"] : [])].join(" · ");
  }

  remove() {
    this.stop?.abort();
    this.root.remove();
    this.parts.train.remove();
  }

  look(style) {
    this.sight.style = style;
    for (const one of ["edges", "heat"]) this.root.querySelector(`.as-${one}`).setAttribute("aria-pressed", String(one === style));
    this.sight.render();
  }

  /** Answer these texts. What was being answered before is dropped. */
  async run(fields, options) {
    this.stop?.abort();
    close();
    const { signal } = (this.stop = new AbortController());
    this.parts.trouble.hidden = true;
    this.fields = fields;
    const wanted = this.model.columns.map((column) => column.kind);
    if (wanted.length && wanted.join() !== fields.map((field) => field.kind).join()) return this.fail(`This model reads ${wanted.join(" and ")}.`);
    const file = fields.find((field) => isFile(field.kind));
    const texts = fields.filter((field) => field !== file).map((field) => (wanted.length ? field.value.replace(/\n+$/, "") : field.value)); // Enter is no part of a text
    if (file ? !file.value : wanted.length && !texts.some((text) => text.trim())) return this.blank();
    const inputs = file ? texts : [texts.length > 1 ? texts : texts[0]];
    const body = { model: this.name, file: file?.value, inputs, alignment: true, choices: LIKELY, prefix: this.prefix, ...options };
    if (file) body.show = true;
    this.parts.free.hidden = !this.prefix.length;
    try {
      if (options.beam > 1 || this.model.reverse) {
        const [found] = await api.predict({ ...body, n_best: RANKED, beam: Math.max(RANKED, options.beam ?? 1), sample: false }, signal);
        this.done(found);
        this.rank(found);
      } else {
        await this.grow(body, signal);
        await this.others(body, signal);
      }
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error.message);
    }
  }

  async grow(body, signal) {
    const answer = { tokens: [], log_probs: [] };
    let drawn = 0;
    for await (const [name, news] of api.events(body, signal)) {
      if (name === "error") throw new Error(news.error);
      if (name === "done") return this.done(news);
      answer.tokens.push(news.token);
      answer.log_probs.push(news.log_prob);
      if (performance.now() - drawn < FRAME) continue; // a model may write faster than people read
      drawn = performance.now();
      show(this.parts.text, answer, { writes: this.model.writes, pinned: this.prefix.length });
    }
  }

  /** The best answers of a beam, beside the one that was streamed. */
  async others(body, signal) {
    const [found] = await api.predict({ ...body, n_best: RANKED, beam: RANKED, sample: false, choices: 0, alignment: false, show: false }, signal);
    this.rank(found);
  }

  blank() {
    Object.assign(this, { answer: null });
    this.parts.text.replaceChildren(make("span", {}, invitation(this.model.columns.map((column) => column.kind))));
    this.parts.text.classList.add("empty");
    this.parts.score.textContent = "";
    this.parts.sight.hidden = this.parts.rank.hidden = true;
    this.parts.free.hidden = true;
  }

  done(answer) {
    this.answer = answer;
    const able = !this.model.reverse && this.model.ends !== "once";
    const open = (at, node) => menu(node, answer.choices[at] ?? [], answer.tokens[at] ?? "</s>",
      able ? (token) => { this.prefix = [...answer.tokens.slice(0, at), token]; this.changed(); } : null);
    show(this.parts.text, answer, {
      writes: this.model.writes, pinned: this.prefix.length, open, point: (at) => this.aim(at === null ? null : "target", at),
    });
    if (!answer.tokens.length) this.parts.text.append(make("span", {}, "(the model wrote nothing)"));
    this.parts.score.textContent = `log p = ${minus(answer.score)} · ${(mean(answer) * 100).toFixed(0)} % a token`;
    this.parts.spoken.textContent = answer.text;
    this.fields.find((field) => field.visit)?.visit(answer.tokens);
    this.see(answer);
  }

  /** Where the model looked: at tokens, or at something that is shown as what it is. */
  see({ attention, tokens, source, seen }) {
    const textual = attention && (attention.parts?.length ? attention.parts : [attention]).every((part) => part.over === "tokens");
    const preview = this.fields.find((field) => field.preview)?.preview;
    const other = attention?.weights.length && !textual ? sight(attention, tokens, preview, seen, source) : null;
    this.parts.sight.hidden = !(attention?.weights.length && (textual || other));
    this.parts.sight.querySelector(".switch").hidden = !textual;
    if (textual && attention.weights.length) this.sight.show(source, tokens, attention.weights);
    else if (other) this.sight.place(other);
  }

  aim(side, at, other = null) {
    this.sight.aim(side, at, other);
    for (const node of this.parts.text.querySelectorAll("[data-at]")) {
      node.classList.toggle("lit", side === "target" && Number(node.dataset.at) === at);
    }
  }

  rank(best) {
    const answers = [best, ...best.alternatives];
    this.parts.rank.hidden = answers.length < 2;
    this.parts.rank.querySelector(".list").replaceChildren(...answers.map((one) => {
      const bar = make("i");
      bar.style.width = `${Math.max(1.5, mean(one) * 100)}%`;
      return make("li", {}, make("span", { class: "what", dir: "auto" }, ...(one.text ? safely(one.text) : ["∅"])),
        make("span", { class: "share", "aria-hidden": "true" }, bar), make("small", {}, minus(one.score)));
    }));
  }

  fail(why) {
    this.blank();
    this.parts.text.replaceChildren(DASH);
    this.parts.trouble.textContent = why;
    this.parts.trouble.hidden = false;
  }

  /** How the model learned: told once, and again when a run in progress has something new. */
  async story() {
    if (this.version === this.model.version) return;
    this.version = this.model.version;
    const name = this.name;
    const run = await api.get(`v1/models/${encodeURIComponent(name)}/run`);
    if (name !== this.name) return;
    this.samples = run.samples;
    this.parts.train.hidden = !run.curves.length && !run.samples.length;
    const last = run.curves.at(-1);
    this.parts.train.querySelector(".now").textContent = last ? `step ${last.step.toLocaleString("en")}, epoch ${Number(last.epoch.toFixed(1))}` : "";
    this.parts.train.querySelector(".charts").replaceChildren(...(run.curves.length ? charts(run.curves) : []));
    this.told?.(this.usable ? run.samples : []);
    this.parts.train.querySelector(".samples").replaceChildren(...(run.samples.length ? [this.table(run.samples)] : []));
  }

  get usable() { return !this.model.columns.some((column) => isFile(column.kind)); }

  table(samples) {
    const cell = (text, kind = "") => make("td", { dir: "auto", class: kind }, ...safely(text));
    const body = samples.map(({ source, written, wanted }) => make("tr", {},
      source.length ? make("td", { dir: "auto" }, make("button", { type: "button", class: "use", disabled: !this.usable, onclick: () => this.use?.(source) }, ...safely(source.join(" · ")))) : null,
      cell(written), source.length ? cell(written === wanted ? "✓" : wanted, "right") : null));
    const heads = samples[0].source.length ? ["held-out input", "the model wrote", "reference"] : ["the model wrote"];
    return make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, ...body));
  }
}
