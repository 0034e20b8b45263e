// Weights as they lie in the file, and as they are computed with.
"use strict";

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
