// Numbers and vectors: exponentials, and products of a matrix with several vectors at once, so that each
// weight is read once for all of them.
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
