// The network: weights, cells, attention, encoders, decoders and heads, one source at a time.
// States are values: a step makes new arrays and leaves the old ones to whoever still holds them.
"use strict";

const TINY = 1e-12;
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// Named matrices. Each is stored as fp32, fp16, or int8 with one scale per row, and is read as fp32.
class Weights {
  constructor(index, buffer) {
    this.index = index;
    this.buffer = buffer;
    this.read = new Map();
  }

  has(name) {
    return name in this.index;
  }

  get(name) {
    if (!this.read.has(name)) this.read.set(name, this.unpack(this.index[name]));
    return this.read.get(name);
  }

  unpack({ shape, at, form }) {
    const cols = shape[shape.length - 1];
    const count = shape.reduce((a, b) => a * b, 1);
    const rows = count / cols;
    if (form === "fp32") return { rows, cols, data: new Float32Array(this.buffer, at, count) };
    const data = new Float32Array(count);
    if (form === "fp16") {
      const halves = new Uint16Array(this.buffer, at, count);
      for (let i = 0; i < count; i++) data[i] = half(halves[i]);
      return { rows, cols, data };
    }
    const scales = new Float32Array(this.buffer, at, rows);
    const small = new Int8Array(this.buffer, at + 4 * rows, count);
    for (let r = 0, i = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++, i++) data[i] = small[i] * scales[r];
    }
    return { rows, cols, data };
  }
}

// An IEEE half as a number.
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// Rows `from` to `to` of W x + b.
function times(weight, bias, x, from = 0, to = weight.rows) {
  const { cols, data } = weight;
  const out = new Float32Array(to - from);
  const four = cols - (cols % 4);
  for (let r = from; r < to; r++) {
    const base = r * cols;
    let a = 0, b = 0, c = 0, d = 0, i = 0;
    for (; i < four; i += 4) {
      const j = base + i;
      a += data[j] * x[i];
      b += data[j + 1] * x[i + 1];
      c += data[j + 2] * x[i + 2];
      d += data[j + 3] * x[i + 3];
    }
    for (; i < cols; i++) a += data[base + i] * x[i];
    out[r - from] = a + b + c + d + (bias ? bias.data[r] : 0);
  }
  return out;
}

const row = (matrix, r) => matrix.data.subarray(r * matrix.cols, (r + 1) * matrix.cols);
const plus = (a, b) => a.map((x, i) => x + b[i]);
const tanhs = (xs) => xs.map(Math.tanh);

function join(...parts) {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

// A linear layer by its name; its bias is there or not.
class Linear {
  constructor(weights, name) {
    this.weight = weights.get(`${name}.weight`);
    this.bias = weights.has(`${name}.bias`) ? weights.get(`${name}.bias`) : null;
  }

  of(x) {
    return times(this.weight, this.bias, x);
  }
}

// A recurrent cell. A state is [h], or [h, c]; `advance` takes the input's share of the gates.
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

  advance(gates, [h, c]) {
    const n = this.size;
    const next = new Float32Array(n);
    if (this.kind === "gru-before") return [this.resetBefore(gates, h, next)];
    const own = this.across.of(h);
    if (this.kind === "rnn") {
      for (let i = 0; i < n; i++) next[i] = Math.tanh(gates[i] + own[i]);
      return [next];
    }
    if (this.kind === "gru-after") {
      for (let i = 0; i < n; i++) {
        const reset = sigmoid(gates[i] + own[i]);
        const update = sigmoid(gates[n + i] + own[n + i]);
        const fresh = Math.tanh(gates[2 * n + i] + reset * own[2 * n + i]);
        next[i] = fresh + update * (h[i] - fresh);
      }
      return [next];
    }
    const memory = new Float32Array(n);
    for (let i = 0; i < n; i++) {
      const enter = sigmoid(gates[i] + own[i]);
      const forget = sigmoid(gates[n + i] + own[n + i]);
      const fresh = Math.tanh(gates[2 * n + i] + own[2 * n + i]);
      memory[i] = forget * c[i] + enter * fresh;
      next[i] = sigmoid(gates[3 * n + i] + own[3 * n + i]) * Math.tanh(memory[i]);
    }
    return [next, memory];
  }

  resetBefore(gates, h, next) {
    const n = this.size;
    const both = times(this.across.weight, this.across.bias, h, 0, 2 * n);
    const kept = new Float32Array(n);
    for (let i = 0; i < n; i++) kept[i] = h[i] * sigmoid(gates[i] + both[i]);
    const inner = times(this.across.weight, this.across.bias, kept, 2 * n, 3 * n);
    for (let i = 0; i < n; i++) {
      const update = sigmoid(gates[n + i] + both[n + i]);
      const fresh = Math.tanh(gates[2 * n + i] + inner[i]);
      next[i] = fresh + update * (h[i] - fresh);
    }
    return next;
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
    const hs = new Array(xs.length);
    for (let i = 0; i < xs.length; i++) {
      const t = back ? xs.length - 1 - i : i;
      const gates = level ? cell.inward.of(xs[t]) : cell.symbol(ids[t], xs[t]);
      state = cell.advance(gates, state);
      hs[t] = state[0];
    }
    return { hs, state };
  }

  summary(memory, finals) {
    if (this.spec.summary === "mean") {
      const sum = memory.reduce((a, b) => plus(a, b));
      return sum.map((x) => x / memory.length);
    }
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
    const memory = read.flatMap((one, i) => one.memory.map((h) => (this.even[i] ? this.even[i].of(h) : h)));
    return { memory, summary: this.fuse(read.map((one) => one.summary)), finals: read[0].finals };
  }

  fuse(summaries) {
    if (this.spec.fuse === "concat") return join(...summaries);
    if (this.spec.fuse === "compare") {
      const [a, b] = summaries;
      return join(a, b, a.map((x, i) => Math.abs(x - b[i])), a.map((x, i) => x * b[i]));
    }
    const views = summaries.map((s, i) => tanhs(this.views[i].of(s)));
    if (this.spec.fuse === "product") return views.reduce((a, b) => a.map((x, i) => x * b[i]));
    const gates = this.gates.of(join(...views)).map(sigmoid);
    const width = views[0].length;
    return views[0].map((_, i) => views.reduce((sum, v, p) => sum + gates[p * width + i] * v[i], 0));
  }
}

const NOTHING = { read: () => ({ memory: [], summary: new Float32Array(0), finals: [] }) };
