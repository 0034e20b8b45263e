// Symbols that are read off places of the source, from left to right, over all ways to go.
"use strict";

class Monotone extends Head {
  constructor(weights, about) {
    super(weights, about);
    this.attention = new Attention(weights, "head.attention", about.model.head);
    this.state = new Linear(weights, "head.state");
    this.place = new Linear(weights, "head.place");
  }

  prepare({ memory }) {
    return { keys: this.attention.prepare(memory), seen: this.place.all(memory) };
  }

  // A memory is {coming, each}: log p of the places of the last step, and of the symbols at each of them.
  write(tokens, outs, fixed, memories) {
    const features = outs.map((out) => out.features);
    const energies = this.attention.energies(features, fixed.keys, null);
    const shares = this.state.all(features);
    return outs.map((_, k) => {
      const each = times(this.weight, this.bias, fixed.seen.map((seen) => tanhs(plus(shares[k], seen))));
      each.forEach((scores) => normalise(scores, false));
      const coming = onward(this.reached(tokens[k], memories[k], each.length), energies[k]);
      const logProbs = new Float32Array(each[0].length).map((_, id) => logSum(coming, (j) => each[j][id]));
      return { logProbs, memory: { coming, each }, weights: Float32Array.from(coming, exp) };
    });
  }

  // Where the last symbol was read, now that it is known: log p of each place.
  reached(token, memory, places) {
    if (!memory) return Float64Array.from({ length: places }, (_, j) => (j ? -Infinity : 0));
    const { coming, each } = memory;
    const total = logSum(coming, (j) => each[j][token]);
    return coming.map((p, j) => p + each[j][token] - total);
  }
}

// From the place before to the next one, which is the same or a later one: logarithms, all of them.
function onward(place, energies) {
  const ahead = new Float64Array(place.length), coming = new Float64Array(place.length);
  for (let j = place.length - 1, sum = -Infinity; j >= 0; j--) ahead[j] = sum = logAdd(sum, energies[j]);
  for (let j = 0, sum = -Infinity; j < place.length; j++) {
    sum = logAdd(sum, place[j] - ahead[j]);
    coming[j] = energies[j] + sum;
  }
  return coming;
}

function logAdd(a, b) {
  if (a === -Infinity) return b;
  return a > b ? a + Math.log1p(exp(b - a)) : b + Math.log1p(exp(a - b));
}

// log Σ_j e^(terms_j + more(j))
function logSum(terms, more) {
  let top = -Infinity, sum = 0;
  for (let j = 0; j < terms.length; j++) top = Math.max(top, terms[j] + more(j));
  for (let j = 0; j < terms.length; j++) sum += exp(terms[j] + more(j) - top);
  return top + Math.log(sum);
}
