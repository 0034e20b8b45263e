// The network: weights, cells and encoders, one source at a time. What several paths ask of the same
// weights is computed together: each weight is read once for all of them.
// States are values: a step makes new arrays and leaves the old ones to whoever still holds them.
"use strict";

const TINY = 1e-12;
const LOG2E = Math.LOG2E, LN2 = Math.LN2;
const POWERS = Float64Array.from({ length: 257 }, (_, i) => 2 ** (i - 128));

// e^x to eight digits, several times faster than the browser's own: 2^n by table, the rest by its series.
function exp(x) {
  if (!(x > -87)) return 0;
  if (x > 87) x = 87;
  const n = (x * LOG2E + 128.5) | 0;
  const r = x - (n - 128) * LN2;
  return POWERS[n] * (1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040)))))));
}

const sigmoid = (x) => 1 / (1 + exp(-x));
const tanh = (x) => 1 - 2 / (exp(2 * x) + 1);

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

const LANES = 5; // vectors that are multiplied together
let lanes = new Float64Array(LANES * 1024); // their numbers side by side
const NOWHERE = new Float32Array(1 << 16); // for lanes that nobody asked for

// Rows `from` to `to` of W x + b, for each x of a list.
function times(weight, bias, xs, from = 0, to = weight.rows) {
  const { cols, data } = weight;
  const outs = xs.map(() => new Float32Array(to - from));
  if (lanes.length < LANES * cols) lanes = new Float64Array(LANES * cols);
  for (let first = 0; first < xs.length; first += LANES) {
    const some = outs.slice(first, first + LANES);
    if (some.length === 1) {
      lanes.set(xs[first]);
      single(data, cols, lanes, from, to, some[0]);
      continue;
    }
    while (some.length < LANES) some.push(to - from <= NOWHERE.length ? NOWHERE : new Float32Array(to - from));
    for (let k = 0; k < LANES && first + k < xs.length; k++) {
      const x = xs[first + k];
      for (let i = 0, j = k; i < cols; i++, j += LANES) lanes[j] = x[i];
    }
    together(data, cols, lanes, from, to, ...some);
  }
  if (bias) {
    const shift = bias.data;
    for (const out of outs) for (let r = from; r < to; r++) out[r - from] += shift[r];
  }
  return outs;
}

// The products of one vector: four rows at a time.
function single(data, cols, x, from, to, out) {
  let r = from;
  for (; r + 3 < to; r += 4) {
    const p = r * cols, q = p + cols, s = q + cols, t = s + cols;
    let a = 0, b = 0, c = 0, d = 0;
    for (let i = 0; i < cols; i++) {
      const v = x[i];
      a += data[p + i] * v;
      b += data[q + i] * v;
      c += data[s + i] * v;
      d += data[t + i] * v;
    }
    out[r - from] = a;
    out[r - from + 1] = b;
    out[r - from + 2] = c;
    out[r - from + 3] = d;
  }
  for (; r < to; r++) {
    let a = 0;
    for (let i = 0, p = r * cols; i < cols; i++) a += data[p + i] * x[i];
    out[r - from] = a;
  }
}

// The products of five vectors that lie side by side: two rows at a time.
function together(data, cols, x, from, to, o0, o1, o2, o3, o4) {
  for (let r = from; r < to; r += 2) {
    const p = r * cols, q = r + 1 < to ? p + cols : p, at = r - from;
    let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, k = 0, l = 0;
    for (let i = 0, j = 0; i < cols; i++, j += LANES) {
      const v = data[p + i], w = data[q + i];
      const x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3], x4 = x[j + 4];
      a += v * x0;
      b += v * x1;
      c += v * x2;
      d += v * x3;
      e += v * x4;
      f += w * x0;
      g += w * x1;
      h += w * x2;
      k += w * x3;
      l += w * x4;
    }
    o0[at] = a;
    o1[at] = b;
    o2[at] = c;
    o3[at] = d;
    o4[at] = e;
    if (q === p) return;
    o0[at + 1] = f;
    o1[at + 1] = g;
    o2[at + 1] = h;
    o3[at + 1] = k;
    o4[at + 1] = l;
  }
}

const row = (matrix, r) => matrix.data.subarray(r * matrix.cols, (r + 1) * matrix.cols);
const plus = (a, b) => a.map((x, i) => x + b[i]);
const tanhs = (xs) => xs.map(tanh);

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
