// Search: a beam (of one path: greedy) or chance, under the rules of length and alphabet.
"use strict";

const NEVER = -Infinity;

// Log-probabilities with symbols ruled out, unless none would be left.
function forbid(logProbs, banned) {
  const left = logProbs.map((p, id) => (banned(id) ? NEVER : p));
  return left.some((p) => p > NEVER) ? left : logProbs;
}

// What may be written after `place` symbols.
function ruled(logProbs, place, rules) {
  let left = logProbs.slice();
  for (const sign of rules.signs) left[sign] = NEVER;
  if (rules.own !== null) left = forbid(left, (id) => id >= rules.own);
  const due = rules.prompt[place];
  if (due !== undefined) left = forbid(left, (id) => id !== due);
  if (!rules.limited) return left;
  if (place >= rules.most) return forbid(left, (id) => id !== EOS);
  return place < rules.least ? forbid(left, (id) => id === EOS) : left;
}

const divisor = (length, { normalize, length_penalty: penalty }) =>
  (penalty === "gnmt" ? (5 + length) / 6 : Math.max(length, 1)) ** normalize;

// The best paths, best first. Finished ones wait; the greedy one keeps its place.
function beam(step, state, rules, width, options) {
  let paths = [{ score: 0, length: 0, done: false, state, token: BOS, tokens: [], gains: [], looked: [] }];
  let lead = 0;
  for (let place = 0; place < rules.steps && !paths.every((path) => path.done); place++) {
    const grown = paths.map((path) => grow(path, step, rules, place, options));
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

function grow(path, step, rules, place, options) {
  if (path.done) return { path, by: divisor(path.length, options) };
  const out = step(path.token, path.state);
  const by = divisor(path.length + 1, options);
  return { path, out, logProbs: ruled(out.logProbs, place, rules), by };
}

// The candidates that rank highest.
function largest(grown, width) {
  const best = [];
  const offer = (parent, token, score, rank) => {
    if (score === NEVER || (best.length === width && rank <= best[width - 1].rank)) return;
    let at = best.length;
    while (at > 0 && best[at - 1].rank < rank) at--;
    best.splice(at, 0, { parent, token, score, rank });
    if (best.length > width) best.pop();
  };
  grown.forEach(({ path, logProbs, by }, parent) => {
    if (path.done) offer(parent, PAD, path.score, path.score / by);
    else logProbs.forEach((p, token) => offer(parent, token, path.score + p, (path.score + p) / by));
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
    const grown = grow(path, step, rules, place, options);
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
