// The worker: raw text in, answers out.
"use strict";

class Translator {
  constructor(about, buffer) {
    this.about = about;
    this.model = new Model(about, buffer);
    this.sources = about.sources.map((one) => new Column(one));
    this.target = new Column(about.target);
  }

  // Answers to one input (a text per column), best first.
  answer(texts, given = {}) {
    const options = { ...this.about.search, ...given };
    if (this.sources.length && !texts.some((text) => strip(text))) return { answers: [EMPTY], source: [] };
    const ids = this.sources.length
      ? this.sources.map((column, i) => column.encode(texts[i] ?? ""))
      : [this.target.encode(texts[0] ?? "", false)];
    const copied = this.about.copies ? this.sources[0].cut(texts[0]) : [];
    const [step, state] = this.model.begin(this.sources.length ? ids : [], this.copies(copied));
    const rules = this.rules(ids[0], copied, options);
    const paths = this.search(step, state, rules, options);
    const answers = paths.map((path) => this.present(path, copied, ids));
    const found = options.sample ? answers : answers.filter((one, i) => answers.findIndex((o) => o.text === one.text) === i);
    return { answers: found.slice(0, options.n_best), source: this.read(ids) };
  }

  search(step, state, rules, options) {
    const count = options.n_best;
    if (options.sample) {
      const chance = dice(options.seed);
      return Array.from({ length: count }, () => draw(step, state, rules, options, chance));
    }
    const spare = count > 1 && !this.target.spelled ? count : 0;
    const paths = beam(step, state, rules, Math.max(options.beam, count + spare), options);
    return count > 1 ? paths : paths.slice(0, 1);
  }

  copies(copied) {
    const id = (piece) => this.target.places.get(piece) ?? this.target.size + copied.indexOf(piece);
    return [...copied.map(id), EOS];
  }

  rules(first, copied, options) {
    const { ends, beyond, target } = this.about;
    const length = first.length;
    const rules = { limited: ends !== "once", least: options.min_length, most: 1, own: null, prompt: [] };
    rules.grams = options.no_repeat_ngram;
    rules.signs = ends === "sign" ? [PAD, BOS] : [PAD, BOS, UNK];
    if (ends === "source") rules.least = rules.most = length - this.sources[0].signs + beyond;
    else if (ends === "sign" && !this.sources.length) {
      rules.prompt = first;
      rules.least = length + options.min_length;
      rules.most = length + (options.max_length || Math.max(target.max_length, options.min_length));
    } else if (ends === "sign") {
      const wished = Math.min(Math.ceil(length * (options.ratio || 2)), target.max_length - 10) + 10;
      rules.most = options.max_length || Math.max(wished, options.min_length);
    }
    if (this.about.copies) rules.own = this.target.size + copied.length;
    rules.steps = rules.most + (rules.limited ? 1 : 0);
    return rules;
  }

  present(path, copied, ids) {
    const end = path.tokens.findIndex((id) => id === EOS || id === PAD);
    const length = end < 0 ? path.tokens.length : end;
    const { text, tokens } = this.target.decode(path.tokens.slice(0, length), copied);
    const back = this.about.target.reverse;
    const looked = path.looked.slice(0, length).filter(Boolean).map((weights) => this.seen(weights, ids));
    const gains = path.gains.slice(0, length);
    if (back) [looked, gains].forEach((list) => list.reverse());
    return { text, tokens, ids: path.tokens, score: path.score, gains: [...gains, ...path.gains.slice(length)], looked };
  }

  // Attention in the order of the text, column after column.
  seen(weights, ids) {
    let at = 0;
    return ids.flatMap((row, i) => {
      const part = Array.from(weights.subarray(at, (at += row.length)));
      return this.about.sources[i].reverse ? [...part.slice(0, -1).reverse(), part[part.length - 1]] : part;
    });
  }

  read(ids) {
    return this.sources.flatMap((column, i) => {
      const tokens = ids[i].filter((id) => id !== EOS).map((id) => column.token(id));
      const end = column.about.signs === "none" ? [] : [SPECIALS[EOS]];
      return [...(column.about.reverse ? tokens.reverse() : tokens), ...end];
    });
  }
}

const EMPTY = { text: "", tokens: [], ids: [], score: 0, gains: [], looked: [] };
let translator = null;

self.onmessage = ({ data }) => {
  try {
    const start = performance.now();
    if (data.about) {
      const raw = atob(data.blob);
      const bytes = new Uint8Array(raw.length);
      for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
      translator = new Translator(data.about, bytes.buffer);
      self.postMessage({ id: data.id, ready: true, ms: performance.now() - start });
      return;
    }
    const found = data.inputs.map((texts) => translator.answer(texts, data.options));
    self.postMessage({ id: data.id, found, ms: performance.now() - start });
  } catch (error) {
    self.postMessage({ id: data.id, error: String(error && error.message ? error.message : error) });
  }
};
