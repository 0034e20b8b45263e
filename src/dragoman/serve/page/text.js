// Text as text: nothing in it is obeyed, and what cannot be seen is shown as a sign.

const SIGNS = { "\n": "↵", "\t": "⇥", "\r": "␍", " ": "␣" };
export const END = "■"; // how an end is shown: in every font
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;
const JOINERS = "\u200c\u200d"; // they shape the letters beside them

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const code = (char) => "U+" + char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

/** Pieces of a text: strings, and boxes with the code points of what has no look of its own. */
export function safely(text, keep = "\n\t") {
  const parts = [];
  let plain = "";
  for (const char of text) {
    if (HIDDEN.test(char) && !keep.includes(char) && !JOINERS.includes(char)) {
      if (plain) parts.push(plain);
      plain = "";
      parts.push(make("span", { class: "code" }, code(char)));
    } else plain += char;
  }
  if (plain) parts.push(plain);
  return parts;
}

/** A token as a label of its own: blanks and line breaks as signs. */
export function label(token) {
  const plain = token.replace(/^▁(?=.)/u, "");
  if (!plain) return ["∅"];
  if (plain === "<unk>") return [make("span", { class: "code", title: "a symbol that the model does not know" }, "?")];
  if (plain === "</s>") return [make("span", { class: "sign" }, END)];
  return safely([...plain].map((char) => SIGNS[char] ?? (char === "▁" ? "␣" : char)).join(""), "");
}

export const named = (token) => (token === "</s>" ? "end of the answer" : token.replace(/^▁/u, "").replace(/^ $/, "blank"));

/** How tokens stand together in a text: what comes before each of them. */
export function glue(writes) {
  return { word: " ", position: " ", features: ";" }[writes] ?? "";
}

export const percent = (logProb) => {
  const share = Math.exp(logProb) * 100;
  return share >= 99.95 ? "100 %" : share >= 10 ? share.toFixed(0) + " %" : share >= 0.1 ? share.toFixed(1) + " %" : "< 0.1 %";
};

const way = (token) => /^<.*>$/.test(token) ? "" : token.match(/\p{Script=Hebrew}|\p{Script=Arabic}|\p{Script=Syriac}|\p{Script=Thaana}/u) ? "R" : /\p{L}/u.test(token) ? "L" : /\p{Nd}/u.test(token) ? "N" : "";

/** Tokens of a line from left to right, by number: Arabic and Hebrew begin at the right, but numbers
 * and Latin words in them do not. */
export function visual(tokens) {
  const ways = tokens.map(way);
  const order = tokens.map((_, at) => at);
  if (ways.find((one) => one === "R" || one === "L") !== "R") return order;
  const runs = [];
  for (const at of order) {
    const inner = ways[at] === "L" || ways[at] === "N";
    if (inner && runs.at(-1)?.inner) runs.at(-1).places.push(at);
    else runs.push({ inner, places: [at] });
  }
  return runs.reverse().flatMap((run) => run.places);
}
