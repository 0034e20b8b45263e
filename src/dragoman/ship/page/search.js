// Search: a beam (of one path: greedy) or chance, under the rules of length and alphabet.
"use strict";

const NEVER = -Infinity;

// Log-probabilities with symbols ruled out, unless none would be left.
function forbid(logProbs, banned) {
  const left = logProbs.map((p, id) => (banned(id) ? NEVER : p));
  return left.some((p) => p > NEVER) ? left : logProbs;
}

// What may be written after some symbols; the log-probabilities are this function's own.
function ruled(logProbs, tokens, rules) {
  const place = tokens.length;
  let left = logProbs;
  for (const sign of rules.signs) left[sign] = NEVER;
  if (rules.own !== null) left = forbid(left, (id) => id >= rules.own);
  const due = rules.prompt[place];
  if (due !== undefined) left = forbid(left, (id) => id !== due);
  if (rules.limited && place >= rules.most) left = forbid(left, (id) => id !== EOS);
  else if (rules.limited && place < rules.least) left = forbid(left, (id) => id === EOS);
  if (!rules.grams) return left;
  const again = repeated(tokens, rules.grams);
  return again.size ? forbid(left, (id) => again.has(id)) : left;
}

// What would end a sequence of so many symbols that was written before.
function repeated(tokens, size) {
  const all = [BOS, ...tokens];
  const found = new Set();
  for (let at = 0; at + size <= all.length; at++) {
    const same = Array.from({ length: size - 1 }, (_, i) => all[at + i] === all[all.length - size + 1 + i]);
    if (same.every(Boolean)) found.add(all[at + size - 1]);
  }
  return found;
}

const divisor = (length, { normalize, length_penalty: penalty }) =>
  Math.min((penalty === "gnmt" ? (5 + length) / 6 : Math.max(length, 1)) ** normalize, Number.MAX_VALUE);

// The best paths, best first. Finished ones wait; the greedy one keeps its place.
function beam(step, state, rules, width, options) {
  let paths = [{ score: 0, length: 0, done: false, state, token: BOS, tokens: [], gains: [], looked: [] }];
  let lead = 0;
  for (let place = 0; place < rules.steps && !paths.every((path) => path.done); place++) {
    const grown = grow(paths, step, rules, options);
    const best = largest(grown, width);
    const greedy = likeliest(grown[lead], lead);
    lead = best.findIndex((one) => one.parent === lead && one.token === greedy.token);
    if (lead < 0) {
      if (best.length === width) best.pop();
      lead = best.push(greedy) - 1;
    }
    paths = best.map((one) => follow(grown[one.parent], one));
  }
  const ranked = paths.map((path, i) => ({ path, i, rank: path.score / divisor(path.length, options) }));
  return ranked.sort((a, b) => b.rank - a.rank || a.i - b.i).map((one) => one.path);
}

// One symbol further on all paths that have not ended.
function grow(paths, step, rules, options) {
  const going = paths.filter((path) => !path.done);
  const outs = step(going.map((path) => path.token), going.map((path) => path.state));
  const found = new Map(going.map((path, k) => [path, outs[k]]));
  return paths.map((path) => {
    if (path.done) return { path, by: divisor(path.length, options) };
    const out = found.get(path);
    const by = divisor(path.length + 1, options);
    return { path, out, logProbs: ruled(out.logProbs, path.tokens, rules), by };
  });
}

// The candidates that rank highest.
function largest(grown, width) {
  const best = [];
  let worst = NEVER; // of a full list
  const offer = (parent, token, score, rank) => {
    let at = best.length;
    while (at > 0 && best[at - 1].rank < rank) at--;
    best.splice(at, 0, { parent, token, score, rank });
    if (best.length > width) best.pop();
    if (best.length === width) worst = best[width - 1].rank;
  };
  grown.forEach(({ path, logProbs, by }, parent) => {
    const { score } = path;
    if (path.done) {
      if (score / by > worst) offer(parent, PAD, score, score / by);
      return;
    }
    for (let token = 0; token < logProbs.length; token++) {
      const rank = (score + logProbs[token]) / by;
      if (rank > worst) offer(parent, token, score + logProbs[token], rank);
    }
  });
  return best;
}

// How the greedy path goes on.
function likeliest({ path, logProbs, by }, parent) {
  if (path.done) return { parent, token: PAD, score: path.score, rank: path.score / by };
  let token = 0;
  for (let id = 1; id < logProbs.length; id++) if (logProbs[id] > logProbs[token]) token = id;
  const score = path.score + logProbs[token];
  return { parent, token, score, rank: score / by };
}

function follow({ path, out, logProbs }, { token, score }) {
  if (path.done) return path;
  return {
    score,
    length: path.length + 1,
    done: token === EOS,
    state: out.state,
    token,
    tokens: [...path.tokens, token],
    gains: [...path.gains, logProbs[token]],
    looked: [...path.looked, out.weights],
  };
}

// A random path; the seed decides all of it.
function draw(step, state, rules, options, chance) {
  let path = { score: 0, length: 0, done: false, state, token: BOS, tokens: [], gains: [], looked: [] };
  for (let place = 0; place < rules.steps && !path.done; place++) {
    const [grown] = grow([path], step, rules, options);
    const token = drawn(grown.logProbs, options, chance());
    path = follow(grown, { token, score: path.score + grown.logProbs[token] });
  }
  return path;
}

function drawn(logProbs, { temperature, top_k: most, top_p: share }, chance) {
  const order = Array.from(logProbs.keys()).sort((a, b) => logProbs[b] - logProbs[a]);
  if (temperature === 0) return order[0];
  const top = logProbs[order[0]];
  let kept = order.slice(0, most || order.length).map((id) => ({ id, mass: Math.exp((logProbs[id] - top) / temperature) }));
  const sum = (list) => list.reduce((total, one) => total + one.mass, 0);
  const whole = sum(kept);
  let before = 0;
  kept = kept.filter((one) => (before += one.mass) - one.mass < share * whole);
  let left = chance * sum(kept);
  return (kept.find((one) => (left -= one.mass) < 0) || kept[0]).id;
}

// A small generator of numbers in [0, 1): mulberry32.
function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
