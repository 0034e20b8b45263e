// Attention, decoders and heads: one symbol further, on all paths at once. What a path has to itself
// stands in lists, in the same order everywhere.
"use strict";

class Attention {
  constructor(weights, name, spec) {
    this.spec = spec;
    const layer = (at) => (weights.has(`${name}.${at}.weight`) ? new Linear(weights, `${name}.${at}`) : null);
    this.key = layer("key");
    this.query = layer("query");
    this.score = layer("score");
    this.cover = layer("cover");
    this.place = layer("local.hidden");
    this.centre = layer("local.score");
  }

  prepare(memory) {
    return this.key ? this.key.all(memory) : memory;
  }

  // The context and the weights that each query finds.
  look(queries, keys, memory, seen) {
    return this.energies(queries, keys, seen).map((energies, k) => {
      if (this.place) this.centred(queries[k], energies);
      return this.gather(energies, memory);
    });
  }

  // How well each query and each place suit each other.
  energies(queries, keys, seen) {
    const asked = this.spec.score === "mlp" ? this.query.all(queries) : queries;
    return queries.map((query, k) => {
      const energies = new Float32Array(keys.length);
      if (this.spec.score === "mlp") this.mlp(asked[k], keys, seen && seen[k], energies);
      else keys.forEach((key, j) => (energies[j] = dot(key, query)));
      return energies;
    });
  }

  // Places far from where the query wants to look lose.
  centred(query, energies) {
    const centre = energies.length * sigmoid(this.centre.of(tanhs(this.place.of(query)))[0]);
    const spread = 2 * (this.spec.local / 2) ** 2;
    energies.forEach((_, j) => (energies[j] -= (j - centre) ** 2 / spread));
  }

  gather(weights, memory) {
    let top = -Infinity, sum = 0;
    for (const energy of weights) top = Math.max(top, energy);
    for (let j = 0; j < weights.length; j++) sum += weights[j] = exp(weights[j] - top);
    const context = new Float32Array(memory[0].length);
    for (let j = 0; j < weights.length; j++) {
      const share = (weights[j] /= sum);
      const h = memory[j];
      for (let i = 0; i < context.length; i++) context[i] += share * h[i];
    }
    return { context, weights };
  }

  mlp(asked, keys, seen, energies) {
    const v = this.score.weight.data;
    const cover = this.cover && this.cover.weight.data;
    for (let j = 0; j < keys.length; j++) {
      const key = keys[j];
      let energy = 0;
      if (cover) for (let i = 0; i < v.length; i++) energy += v[i] * tanh(asked[i] + key[i] + cover[i] * seen[j]);
      else for (let i = 0; i < v.length; i++) energy += v[i] * tanh(asked[i] + key[i]);
      energies[j] = energy;
    }
  }
}

// Writes a sequence. A state is {cells, fed, seen}.
class Recurrent {
  constructor(weights, spec, attention) {
    this.spec = spec;
    this.cells = Array.from({ length: spec.layers }, (_, i) => new Cell(weights, `decoder.stack.cells.${i}`, spec));
    const layer = (name) => (weights.has(`${name}.weight`) ? new Linear(weights, name) : null);
    this.attention = attention && new Attention(weights, "decoder.attention", attention);
    this.before = Boolean(attention && attention.when === "before");
    this.feed = Boolean(attention && attention.feed);
    this.covers = Boolean(attention && attention.coverage);
    this.inject = layer("decoder.inject");
    this.bridge = layer("decoder.bridge");
    this.mix = layer("decoder.readout.mix");
    this.first = weights.has("decoder.first") ? weights.get("decoder.first") : null;
  }

  // The learned start of a layer.
  begun(level) {
    const slots = this.first.rows / this.cells.length;
    return Array.from({ length: slots }, (_, slot) => row(this.first, level * slots + slot));
  }

  prepare(enc) {
    return { ...enc, keys: this.attention ? this.attention.prepare(enc.memory) : [] };
  }

  start(enc) {
    let cells;
    if (this.spec.start === "copy") cells = enc.finals;
    else if (this.spec.start === "dense") {
      const tops = tanhs(this.bridge.of(enc.summary));
      cells = this.cells.map((cell, i) => cell.start(tops.slice(i * cell.size, (i + 1) * cell.size)));
    } else if (this.first) cells = this.cells.map((_, i) => this.begun(i));
    else cells = this.cells.map((cell) => cell.start());
    const fed = new Float32Array(this.inject && this.feed ? this.inject.weight.cols : 0);
    return { cells, fed, seen: new Float32Array(enc.memory.length) };
  }

  step(tokens, words, states, fixed) {
    const given = this.spec.context === "every-step" ? fixed.summary : null;
    const bottom = this.cells[0];
    let gates = given
      ? bottom.inward.all(words.map((word) => join(word, given)))
      : tokens.map((token, k) => bottom.symbol(token, words[k]));
    const seen = this.covers ? states.map((state) => state.seen) : null;
    const look = (queries) => this.attention.look(queries, fixed.keys, fixed.memory, seen);
    let found = null;
    if (this.before) {
      found = look(states.map(({ cells }) => cells[cells.length - 1][0]));
      gates = this.added(gates, found.map((one) => one.context));
    } else if (this.feed) gates = this.added(gates, states.map((state) => state.fed));
    const [hs, cells] = this.climb(gates, states);
    if (this.attention && !this.before) found = look(hs);
    const contexts = hs.map((_, k) => (found ? found[k].context : given));
    const features = this.readout(hs, contexts, words);
    return features.map((one, k) => ({
      features: one,
      weights: found && found[k].weights,
      state: {
        cells: cells.map((level) => level[k]),
        fed: this.feed ? one : states[k].fed,
        seen: this.covers ? plus(states[k].seen, found[k].weights) : states[k].seen,
      },
    }));
  }

  // Gates with the share of what a step learns beside the word.
  added(gates, late) {
    return this.inject.all(late).map((share, k) => plus(share, gates[k]));
  }

  // The layers, one above the other: the top's outputs, and per layer the states of all paths.
  climb(gates, states) {
    let xs = null;
    const next = this.cells.map((cell, level) => {
      const moved = cell.advance(level ? cell.inward.all(xs) : gates, states.map(({ cells }) => cells[level]));
      const hs = moved.map(([h]) => h);
      xs = this.spec.residual && level ? hs.map((h, k) => plus(h, xs[k])) : hs;
      return moved;
    });
    return [xs, next];
  }

  readout(hs, contexts, words) {
    const all = hs.map((h, k) => {
      const parts = [h, contexts[k], this.spec.readout_word ? words[k] : null];
      return join(...parts.filter(Boolean));
    });
    if (this.spec.readout === "plain") return all;
    const mixed = this.mix.all(all);
    if (this.spec.readout === "tanh") return mixed.map(tanhs);
    return mixed.map((two) => new Float32Array(two.length / 2).map((_, i) => Math.max(two[2 * i], two[2 * i + 1])));
  }
}

// One label for a source, or one symbol for each of its positions: nothing is remembered but a place.
class Unmoved {
  constructor(weights, spec, attention) {
    this.spec = spec;
    const mix = "decoder.layer.mix.0";
    this.mix = weights.has(`${mix}.weight`) ? new Linear(weights, mix) : null;
    this.attention = attention && new Attention(weights, "decoder.attention", attention);
    this.question = attention && weights.get("decoder.question").data;
    this.after = weights.has("decoder.after") ? weights.get("decoder.after").data : null;
  }

  prepare(enc) {
    if (this.spec.kind !== "aligned") return { ...this.pool(enc) };
    return { rows: [...enc.memory, this.after ?? enc.memory[0].map(() => 0)], weights: null };
  }

  pool({ memory, summary }) {
    const pool = this.spec.pool;
    if (pool === "summary") return { rows: [summary], weights: null };
    if (pool === "attention") {
      const [found] = this.attention.look([this.question], this.attention.prepare(memory), memory, null);
      return { rows: [found.context], weights: found.weights };
    }
    const joined = memory.reduce((a, b) => a.map((x, i) => (pool === "max" ? Math.max(x, b[i]) : x + b[i])));
    return { rows: [pool === "max" ? joined : joined.map((x) => x / memory.length)], weights: null };
  }

  start() {
    return 0;
  }

  step(tokens, words, places, fixed) {
    return places.map((place) => {
      const one = fixed.rows[Math.min(place, fixed.rows.length - 1)];
      return { features: this.mix ? tanhs(this.mix.of(one)) : one, state: place + 1, weights: fixed.weights };
    });
  }
}

// From features to log-probabilities of the alphabet; a model that copies adds places of the source.
class Head {
  constructor(weights, about) {
    const spec = about.model.head;
    this.table = weights.get("head.table.weight");
    this.weight = spec.tied ? this.table : weights.get("head.weight");
    this.bias = weights.get("head.bias");
    this.labels = about.model.decoder.kind === "still";
    this.switch = about.copies ? new Linear(weights, "head.switch") : null;
  }

  word(id) {
    return row(this.table, id < this.table.rows ? id : UNK);
  }

  // What it knows of a source, and what it remembers from step to step: nothing.
  prepare() {
    return null;
  }

  start() {
    return null;
  }

  // For each path, after `outs` of the decoder.
  write(tokens, outs, fixed, memories, copies) {
    const features = outs.map((out) => out.features);
    const scores = times(this.weight, this.bias, features);
    const shares = this.switch && this.switch.all(features);
    return scores.map((one, k) => {
      normalise(one, this.labels);
      const { weights } = outs[k];
      const logProbs = shares ? this.mixed(one, sigmoid(shares[k][0]), copies, weights) : one;
      return { logProbs, memory: null, weights };
    });
  }

  mixed(logProbs, generate, copies, looked) {
    const both = new Float32Array(logProbs.length + copies.length);
    logProbs.forEach((p, i) => (both[i] = generate * exp(p)));
    copies.forEach((id, j) => (both[id] += (1 - generate) * looked[j]));
    return both.map((p) => Math.log(Math.max(p, TINY)));
  }
}

// Scores become logarithms of shares, in place; a label is no sign for beginning, end or nothing.
function normalise(scores, labels) {
  if (labels) scores.fill(-Infinity, 0, UNK);
  let top = -Infinity, sum = 0;
  for (let i = 0; i < scores.length; i++) if (scores[i] > top) top = scores[i];
  for (let i = 0; i < scores.length; i++) sum += exp(scores[i] - top);
  const shift = top + Math.log(sum);
  for (let i = 0; i < scores.length; i++) scores[i] -= shift;
}

// The model: read a source, then step.
class Model {
  constructor(about, buffer) {
    const weights = new Weights(about.weights, buffer);
    const { encoder, decoder, attention } = about.model;
    const readers = { text: Text, several: Several };
    this.encoder = encoder.kind === "nothing" ? NOTHING : new readers[encoder.kind](weights, "encoder", encoder);
    this.decoder = new (decoder.kind === "recurrent" ? Recurrent : Unmoved)(weights, decoder, attention);
    this.head = new (about.model.head.kind === "monotone" ? Monotone : Head)(weights, about);
  }

  // [step, state] of a source: step(tokens, states) gives {logProbs, state, weights} for each path.
  begin(columns, copies) {
    const enc = this.encoder.read(...columns);
    const fixed = this.decoder.prepare(enc);
    const places = this.head.prepare(enc);
    const step = (tokens, states) => {
      const words = tokens.map((token) => this.head.word(token));
      const outs = this.decoder.step(tokens, words, states.map((state) => state.decoder), fixed);
      const written = this.head.write(tokens, outs, places, states.map((state) => state.head), copies);
      return written.map(({ logProbs, memory, weights }, k) => ({
        logProbs,
        state: { decoder: outs[k].state, head: memory },
        weights,
      }));
    };
    return [step, { decoder: this.decoder.start(enc), head: this.head.start() }];
  }
}
