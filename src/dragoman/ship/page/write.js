// Attention, decoders and heads: one symbol further.
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
    return this.key ? memory.map((h) => this.key.of(h)) : memory;
  }

  // The context and the weights that a query finds.
  look(query, keys, memory, seen) {
    const energies = this.spec.score === "mlp" ? this.mlp(query, keys, seen) : keys.map((key) => dot(key, query));
    if (this.place) {
      const centre = memory.length * sigmoid(this.centre.of(tanhs(this.place.of(query)))[0]);
      const spread = 2 * (this.spec.local / 2) ** 2;
      energies.forEach((_, j) => (energies[j] -= (j - centre) ** 2 / spread));
    }
    const top = Math.max(...energies);
    const weights = Float32Array.from(energies, (e) => Math.exp(e - top));
    const sum = weights.reduce((a, b) => a + b, 0);
    const context = new Float32Array(memory[0].length);
    weights.forEach((_, j) => {
      weights[j] /= sum;
      for (let i = 0; i < context.length; i++) context[i] += weights[j] * memory[j][i];
    });
    return { context, weights };
  }

  mlp(query, keys, seen) {
    const asked = this.query.of(query);
    const v = this.score.weight.data;
    const cover = this.cover && this.cover.weight.data;
    return keys.map((key, j) => {
      let energy = 0;
      for (let i = 0; i < v.length; i++) {
        energy += v[i] * Math.tanh(asked[i] + key[i] + (cover ? cover[i] * seen[j] : 0));
      }
      return energy;
    });
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
    } else cells = this.cells.map((cell) => cell.start());
    const fed = new Float32Array(this.inject && this.feed ? this.inject.weight.cols : 0);
    return { cells, fed, seen: new Float32Array(enc.memory.length) };
  }

  step(token, word, state, fixed) {
    const given = this.spec.context === "every-step" ? fixed.summary : new Float32Array(0);
    const bottom = this.cells[0];
    let gates = given.length ? bottom.inward.of(join(word, given)) : bottom.symbol(token, word);
    let found = null;
    if (this.before) {
      found = this.attention.look(state.cells[state.cells.length - 1][0], fixed.keys, fixed.memory, state.seen);
      gates = plus(gates, this.inject.of(found.context));
    } else if (this.feed) gates = plus(gates, this.inject.of(state.fed));
    const [h, cells] = this.climb(gates, state.cells);
    if (this.attention && !this.before) found = this.attention.look(h, fixed.keys, fixed.memory, state.seen);
    const features = this.readout(h, found ? found.context : given, word);
    const seen = this.covers ? plus(state.seen, found.weights) : state.seen;
    const next = { cells, fed: this.feed ? features : state.fed, seen };
    return { features, state: next, weights: found && found.weights };
  }

  climb(gates, states) {
    let x = null;
    const next = this.cells.map((cell, level) => {
      const state = cell.advance(level ? cell.inward.of(x) : gates, states[level]);
      x = this.spec.residual && level ? plus(state[0], x) : state[0];
      return state;
    });
    return [x, next];
  }

  readout(h, context, word) {
    const all = this.spec.readout_word ? join(h, context, word) : join(h, context);
    if (this.spec.readout === "plain") return all;
    const mixed = this.mix.of(all);
    if (this.spec.readout === "tanh") return tanhs(mixed);
    return new Float32Array(mixed.length / 2).map((_, i) => Math.max(mixed[2 * i], mixed[2 * i + 1]));
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
  }

  prepare(enc) {
    if (this.spec.kind === "aligned") return { rows: enc.memory, weights: null };
    return { ...this.pool(enc) };
  }

  pool({ memory, summary }) {
    const pool = this.spec.pool;
    if (pool === "summary") return { rows: [summary], weights: null };
    if (pool === "attention") {
      const found = this.attention.look(this.question, this.attention.prepare(memory), memory, null);
      return { rows: [found.context], weights: found.weights };
    }
    const joined = memory.reduce((a, b) => a.map((x, i) => (pool === "max" ? Math.max(x, b[i]) : x + b[i])));
    return { rows: [pool === "max" ? joined : joined.map((x) => x / memory.length)], weights: null };
  }

  start() {
    return 0;
  }

  step(token, word, place, fixed) {
    const one = fixed.rows[Math.min(place, fixed.rows.length - 1)];
    return { features: this.mix ? tanhs(this.mix.of(one)) : one, state: place + 1, weights: fixed.weights };
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

  logProbs(features, copies, looked) {
    const scores = times(this.weight, this.bias, features);
    if (this.labels) scores.fill(-Infinity, 0, UNK);
    let top = -Infinity;
    for (const score of scores) top = Math.max(top, score);
    let sum = 0;
    for (const score of scores) sum += Math.exp(score - top);
    const shift = top + Math.log(sum);
    if (!this.switch) return scores.map((score) => score - shift);
    const generate = sigmoid(this.switch.of(features)[0]);
    const mixed = new Float32Array(scores.length + copies.length);
    scores.forEach((score, i) => (mixed[i] = generate * Math.exp(score - shift)));
    copies.forEach((id, j) => (mixed[id] += (1 - generate) * looked[j]));
    return mixed.map((p) => Math.log(Math.max(p, TINY)));
  }
}

// The model: read a source, then step.
class Model {
  constructor(about, buffer) {
    const weights = new Weights(about.weights, buffer);
    const { encoder, decoder, attention } = about.model;
    const readers = { text: Text, several: Several };
    this.encoder = encoder.kind === "nothing" ? NOTHING : new readers[encoder.kind](weights, "encoder", encoder);
    this.decoder = new (decoder.kind === "recurrent" ? Recurrent : Unmoved)(weights, decoder, attention);
    this.head = new Head(weights, about);
  }

  // [step, state] of a source: step(token, state) gives {logProbs, state, weights}.
  begin(columns, copies) {
    const enc = this.encoder.read(...columns);
    const fixed = this.decoder.prepare(enc);
    const step = (token, state) => {
      const out = this.decoder.step(token, this.head.word(token), state, fixed);
      const logProbs = this.head.logProbs(out.features, copies, out.weights);
      return { logProbs, state: out.state, weights: out.weights };
    };
    return [step, this.decoder.start(enc)];
  }
}
