// How text becomes symbols and comes back: the same as in training.
"use strict";

const PAD = 0, BOS = 1, EOS = 2, UNK = 3, FIRST = 4;
const SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"];
const JOINTS = { char: "", word: " ", label: " ", features: ";" };
const BLANK = "\u2581";
const ESCAPES = [["\u2582", "\u25820"], ["\u2581", "\u25821"]];
// What Python takes for white space.
const SPACE = "\\t-\\r\\x1c- \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${SPACE}]+`);
const EDGES = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g");
const FEATURE = new RegExp(`[^;,|()${SPACE}]+`, "g");

const strip = (text) => text.replace(EDGES, "");

class Column {
  constructor(about) {
    this.about = about;
    this.size = FIRST + about.symbols.length;
    this.places = new Map(about.symbols.map((symbol, i) => [symbol, FIRST + i]));
    this.spelled = about.units in JOINTS;
    this.signs = { none: 0, end: 1, both: 2 }[about.signs]; // how many places only say where it begins and ends
    if (about.units === "subword") this.subwords = new Subwords(about.symbols, about.scores);
  }

  clean(text) {
    if (this.about.normalize !== "none") text = text.normalize(this.about.normalize.toUpperCase());
    return this.about.lower ? text.toLowerCase() : text;
  }

  // Symbols as they stand in a text, in the order in which they are read.
  cut(text) {
    text = this.clean(text);
    const cuts = {
      char: () => Array.from(text),
      word: () => text.split(SPACES).filter(Boolean),
      label: () => [strip(text)],
      features: () => text.match(FEATURE) || [],
    };
    return this.ordered(cuts[this.about.units]());
  }

  ordered(found) {
    found = found.slice(0, this.about.max_length);
    return this.about.reverse ? found.reverse() : found;
  }

  encode(text, end = true) {
    let ids;
    if (this.spelled) ids = this.cut(text).map((symbol) => this.places.get(symbol) ?? UNK);
    else if (this.about.units === "bytes") {
      ids = this.ordered(Array.from(new TextEncoder().encode(this.clean(text)), (b) => FIRST + b));
    } else ids = this.ordered(this.subwords.encode(this.clean(text)));
    if (!end || this.about.units === "label" || this.about.signs === "none") return ids;
    return this.about.signs === "both" ? [BOS, ...ids, EOS] : [...ids, EOS];
  }

  token(id, copied = []) {
    if (id < FIRST) return SPECIALS[id];
    return id >= this.size ? copied[id - this.size] : this.about.symbols[id - FIRST];
  }

  // Text and symbols of a path, in the order of the text.
  decode(ids, copied) {
    const found = this.spell(ids, copied);
    return this.about.normalize === "nfd" ? { ...found, text: found.text.normalize("NFC") } : found;
  }

  spell(ids, copied) {
    ids = this.about.reverse ? [...ids].reverse() : ids;
    const tokens = ids.map((id) => this.token(id, copied));
    if (this.spelled) return { text: tokens.join(JOINTS[this.about.units]), tokens };
    if (this.about.units === "subword") return { text: this.subwords.decode(tokens), tokens };
    const raw = Uint8Array.from(ids.filter((id) => id >= FIRST), (id) => id - FIRST);
    return { text: new TextDecoder("utf-8", { ignoreBOM: true }).decode(raw), tokens };
  }
}

// Sentencepiece's unigram model with byte fallback: the likeliest way to cut a text into pieces.
class Subwords {
  constructor(pieces, scores) {
    this.pieces = new Map();
    this.bytes = new Map();
    this.longest = 1;
    this.least = Infinity;
    pieces.forEach((piece, i) => {
      const byte = scores[i] === null;
      (byte ? this.bytes : this.pieces).set(piece, { id: FIRST + i, score: scores[i] });
      if (byte) return;
      this.longest = Math.max(this.longest, Array.from(piece).length);
      this.least = Math.min(this.least, scores[i]);
    });
  }

  encode(text) {
    if (!text) return [];
    for (const [sign, escaped] of ESCAPES) text = text.replaceAll(sign, escaped);
    const signs = Array.from(BLANK + text.toWellFormed().replaceAll(" ", BLANK));
    const best = [{ score: 0, from: -1, id: UNK }];
    const unknown = Math.fround(this.least - 10);
    for (let start = 0; start < signs.length; start++) {
      const here = best[start].score;
      const offer = (end, id, score) => {
        const total = Math.fround(score + here);
        if (!best[end] || total > best[end].score) best[end] = { score: total, from: start, id };
      };
      let piece = "";
      let single = false;
      for (let end = start + 1; end <= Math.min(signs.length, start + this.longest); end++) {
        piece += signs[end - 1];
        const known = this.pieces.get(piece);
        if (known) offer(end, known.id, known.score);
        single ||= Boolean(known) && end === start + 1;
      }
      if (!single) offer(start + 1, UNK, unknown);
    }
    return this.trace(best, signs);
  }

  trace(best, signs) {
    const ids = [];
    for (let end = signs.length; end > 0; end = best[end].from) {
      const { id, from } = best[end];
      if (id !== UNK) ids.push(id);
      else ids.push(...this.spell(signs.slice(from, end).join("")).reverse());
    }
    return ids.reverse();
  }

  spell(text) {
    return Array.from(new TextEncoder().encode(text), (byte) => {
      const name = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
      return this.bytes.has(name) ? this.bytes.get(name).id : UNK;
    });
  }

  decode(tokens) {
    let text = "";
    let bytes = [];
    const flush = () => {
      text += utf8(bytes);
      bytes = [];
    };
    for (const token of tokens) {
      if (this.bytes.has(token)) {
        bytes.push(parseInt(token.slice(3, 5), 16));
        continue;
      }
      flush();
      if (token === SPECIALS[UNK]) text += " \u2047 ";
      else if (!SPECIALS.includes(token)) text += (text ? token : token.replace(BLANK, "")).replaceAll(BLANK, " ");
    }
    flush();
    for (const [sign, escaped] of [...ESCAPES].reverse()) text = text.replaceAll(escaped, sign);
    return text;
  }
}

// Bytes as text; each byte that fits nowhere becomes U+FFFD by itself.
function utf8(bytes) {
  let text = "";
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  for (let i = 0; i < bytes.length; ) {
    let taken = 0;
    for (let length = 1; length <= 4 && i + length <= bytes.length && !taken; length++) {
      try {
        text += strict.decode(Uint8Array.from(bytes.slice(i, i + length)));
        taken = length;
      } catch {
        taken = 0;
      }
    }
    if (!taken) text += "\ufffd";
    i += taken || 1;
  }
  return text;
}
