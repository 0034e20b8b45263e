// The network: cells and encoders, one source at a time. What several paths ask of the same weights is
// computed together.
// States are values: a step makes new arrays and leaves the old ones to whoever still holds them.
"use strict";

// A linear layer by its name; its bias is there or not.
class Linear {
  constructor(weights, name) {
    this.weight = weights.get(`${name}.weight`);
    this.bias = weights.has(`${name}.bias`) ? weights.get(`${name}.bias`) : null;
  }

  of(x) {
    return times(this.weight, this.bias, [x])[0];
  }

  all(xs) {
    return times(this.weight, this.bias, xs);
  }
}

// A recurrent cell. A state is [h], or [h, c]; `advance` takes the input's share of the gates. Both
// are lists: a path each.
class Cell {
  constructor(weights, name, spec) {
    this.inward = new Linear(weights, `${name}.inward`);
    this.across = new Linear(weights, `${name}.across`);
    this.size = this.across.weight.cols;
    this.kind = spec.cell === "gru" ? `gru-${spec.reset}` : spec.cell;
    this.seen = new Map(); // what known symbols add to the gates
  }

  // The gates of a symbol's embedding, remembered: alphabets are small.
  symbol(id, x) {
    if (this.seen.size > 4096) this.seen.clear();
    if (!this.seen.has(id)) this.seen.set(id, this.inward.of(x));
    return this.seen.get(id);
  }

  start(h = new Float32Array(this.size)) {
    return this.kind === "lstm" ? [h, new Float32Array(this.size)] : [h];
  }

  advance(gates, states) {
    if (this.kind === "gru-before") return this.resetBefore(gates, states);
    const own = this.across.all(states.map(([h]) => h));
    return states.map((state, k) => this.next(gates[k], own[k], state));
  }

  next(gates, own, [h, c]) {
    const n = this.size;
    const next = new Float32Array(n);
    if (this.kind === "rnn") {
      for (let i = 0; i < n; i++) next[i] = tanh(gates[i] + own[i]);
      return [next];
    }
    if (this.kind === "gru-after") {
      for (let i = 0; i < n; i++) {
        const reset = sigmoid(gates[i] + own[i]);
        const update = sigmoid(gates[n + i] + own[n + i]);
        const fresh = tanh(gates[2 * n + i] + reset * own[2 * n + i]);
        next[i] = fresh + update * (h[i] - fresh);
      }
      return [next];
    }
    const memory = new Float32Array(n);
    for (let i = 0; i < n; i++) {
      const enter = sigmoid(gates[i] + own[i]);
      const forget = sigmoid(gates[n + i] + own[n + i]);
      const fresh = tanh(gates[2 * n + i] + own[2 * n + i]);
      memory[i] = forget * c[i] + enter * fresh;
      next[i] = sigmoid(gates[3 * n + i] + own[3 * n + i]) * tanh(memory[i]);
    }
    return [next, memory];
  }

  resetBefore(gates, states) {
    const n = this.size;
    const { weight, bias } = this.across;
    const hs = states.map(([h]) => h);
    const both = times(weight, bias, hs, 0, 2 * n);
    const kept = hs.map((h, k) => h.map((x, i) => x * sigmoid(gates[k][i] + both[k][i])));
    const inner = times(weight, bias, kept, 2 * n, 3 * n);
    return hs.map((h, k) => [h.map((x, i) => {
      const update = sigmoid(gates[k][n + i] + both[k][n + i]);
      const fresh = tanh(gates[k][2 * n + i] + inner[k][i]);
      return fresh + update * (x - fresh);
    })]);
  }
}

// A column of text: embedded, and read by layers of cells in one direction or both.
class Text {
  constructor(weights, name, spec) {
    this.spec = spec;
    this.table = weights.get(`${name}.table.weight`);
    const ways = spec.bidirectional ? [0, 1] : [0];
    this.layers = Array.from({ length: spec.layers }, (_, level) =>
      ways.map((way) => new Cell(weights, `${name}.reader.layers.${level}.${way}`, spec)));
  }

  read(ids) {
    let xs = ids.map((id) => row(this.table, id));
    const finals = [];
    this.layers.forEach((cells, level) => {
      const ways = cells.map((cell, way) => this.scan(cell, xs, ids, level, way === 1));
      const hs = xs.map((_, t) => join(...ways.map((found) => found.hs[t])));
      finals.push(ways[0].state.map((_, slot) => join(...ways.map((found) => found.state[slot]))));
      xs = this.spec.residual && level ? hs.map((h, t) => plus(h, xs[t])) : hs;
    });
    return { memory: xs, summary: this.summary(xs, finals), finals };
  }

  scan(cell, xs, ids, level, back) {
    let state = cell.start();
    const gates = level ? cell.inward.all(xs) : ids.map((id, t) => cell.symbol(id, xs[t]));
    const hs = new Array(xs.length);
    for (let i = 0; i < xs.length; i++) {
      const t = back ? xs.length - 1 - i : i;
      [state] = cell.advance([gates[t]], [state]);
      hs[t] = state[0];
    }
    return { hs, state };
  }

  summary(memory, finals) {
    if (this.spec.summary === "mean") {
      const sum = memory.reduce((a, b) => plus(a, b));
      return sum.map((x) => x / memory.length);
    }
    if (this.spec.summary === "end") return memory[memory.length - 1].map((x) => x / memory.length);
    const top = finals[finals.length - 1][0];
    return this.spec.summary === "backward" ? top.subarray(this.spec.hidden) : top;
  }
}

// Several columns side by side; their summaries are fused into one.
class Several {
  constructor(weights, name, spec) {
    this.spec = spec;
    const part = (i) => (spec.tied ? 0 : i);
    this.parts = spec.parts.map((_, i) => new Text(weights, `${name}.parts.${part(i)}`, spec.parts[part(i)]));
    const layer = (at) => (weights.has(`${at}.weight`) ? new Linear(weights, at) : null);
    this.even = spec.parts.map((_, i) => layer(`${name}.even.${i}`));
    this.views = spec.parts.map((_, i) => layer(`${name}.views.${i}`));
    this.gates = layer(`${name}.gates`);
  }

  read(...columns) {
    const read = columns.map((ids, i) => this.parts[i].read(ids));
    const memory = read.flatMap((one, i) => (this.even[i] ? this.even[i].all(one.memory) : one.memory));
    return { memory, summary: this.fuse(read.map((one) => one.summary)), finals: read[0].finals };
  }

  fuse(summaries) {
    if (this.spec.fuse === "concat") return join(...summaries);
    const views = summaries.map((s, i) => (this.views[i] ? tanhs(this.views[i].of(s)) : s));
    if (this.spec.fuse === "compare") {
      const [a, b] = views;
      return join(a, b, a.map((x, i) => Math.abs(x - b[i])), a.map((x, i) => x * b[i]));
    }
    if (this.spec.fuse === "product") return views.reduce((a, b) => a.map((x, i) => x * b[i]));
    const gates = this.gates.of(join(...views)).map(sigmoid);
    const width = views[0].length;
    return views[0].map((_, i) => views.reduce((sum, v, p) => sum + gates[p * width + i] * v[i], 0));
  }
}

const NOTHING = { read: () => ({ memory: [], summary: new Float32Array(0), finals: [] }) };
