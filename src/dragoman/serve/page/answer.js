// The answer: tokens that can be pointed at, and opened to choose another one.

import { END, glue, label, make, named, percent, safely } from "./text.js";

/** Show tokens in `place`. `log_probs` and `choices` may be missing while the answer is written. */
export function show(place, answer, { writes, pinned = 0, open, point }) {
  const between = glue(writes);
  const nodes = answer.tokens.flatMap((token, at) => {
    const subword = writes === "subword";
    const blank = subword ? token.startsWith("▁") : at > 0 && between;
    const before = blank && at > 0 ? [subword ? " " : between] : [];
    return [...before, ...spread(token, subword, at, answer, pinned, open, point)];
  });
  if (answer.choices && open) nodes.push(ending(answer, open));
  const active = document.activeElement;
  const held = place.contains(active) ? Number(active.dataset.at) : place.held;
  place.replaceChildren(...nodes);
  place.classList.toggle("empty", !answer.tokens.length);
  roam(place, held);
}

function spread(token, subword, at, answer, pinned, open, point) {
  const plain = subword ? token.replace(/^▁/u, "").replaceAll("▁", " ") : token;
  const sure = answer.log_probs?.[at];
  const node = make("span", {
    class: "token" + (at < pinned ? " pinned" : ""), role: "button", tabindex: "-1", "data-at": at,
    "aria-label": `${named(token)}, ${sure === undefined ? "" : percent(sure)}`,
    "aria-haspopup": answer.choices ? "menu" : undefined,
    onclick: () => open?.(at, node), onkeydown: (event) => press(event, () => open?.(at, node)),
    onpointerenter: () => point?.(at), onpointerleave: () => point?.(null),
    onfocus: () => point?.(at), onblur: () => point?.(null),
  }, ...safely(plain));
  if (sure !== undefined) node.style.setProperty("--p", Math.exp(sure).toFixed(3));
  return [node];
}

function ending(answer, open) {
  const at = answer.tokens.length;
  const node = make("span", {
    class: "token end", role: "button", tabindex: "-1", "data-at": at, "aria-haspopup": "menu",
    "aria-label": "end of the answer, go on with something else",
    onclick: () => open(at, node), onkeydown: (event) => press(event, () => open(at, node)),
  }, END);
  return node;
}

function press(event, act) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    act();
  }
}

/** One stop for the tab key; arrows go from token to token. Who stood on a token, `held`, stands on
 * the one in its place when the answer has changed; while it grows, once it is there. */
function roam(place, held) {
  const tokens = [...place.querySelectorAll(".token")];
  const lost = document.activeElement === document.body;
  const kept = lost && held !== undefined ? tokens[held] : undefined;
  place.held = lost && !kept ? held : undefined;
  if (tokens.length) (kept ?? tokens[0]).tabIndex = 0;
  kept?.focus({ preventScroll: true });
  place.onkeydown = (event) => {
    const at = tokens.indexOf(document.activeElement);
    const left = getComputedStyle(place).direction === "rtl" ? 1 : -1;
    const by = { ArrowLeft: left, ArrowRight: -left, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (at < 0 || !by || !tokens[at + by]) return;
    event.preventDefault();
    tokens[at].tabIndex = -1;
    tokens[at + by].tabIndex = 0;
    tokens[at + by].focus();
  };
}

let opened = null;
export function close(back = false) {
  if (!opened) return;
  const { node, menu } = opened;
  opened = null;
  menu.remove();
  node.removeAttribute("aria-expanded");
  if (back) node.focus();
}

/** What else could stand here. `choose` gets the token; without it, the list is only looked at. */
export function menu(node, choices, current, choose) {
  close();
  const list = make("div", { class: "menu", role: "menu", "aria-label": "What else could stand here" },
    make("div", { class: "title", role: "presentation" }, choose ? "Choose, and the model goes on from there" : "What the model held likely"));
  for (const { token, log_prob } of choices) {
    const bar = make("i");
    bar.style.width = `${Math.max(1, Math.exp(log_prob) * 100)}%`;
    list.append(make("button", {
      type: "button", role: "menuitem", "aria-current": token === current ? "true" : undefined,
      disabled: !choose || token === "</s>", onclick: () => { close(true); choose(token); },
    }, make("span", { class: "word" }, ...label(token)), make("span", { class: "share" }, bar), make("small", {}, percent(log_prob))));
  }
  document.body.append(list);
  const box = node.getBoundingClientRect();
  const width = list.offsetWidth;
  const left = Math.min(Math.max(8, box.left), document.documentElement.clientWidth - width - 8);
  list.style.left = `${left + scrollX}px`;
  list.style.top = `${box.bottom + 6 + scrollY}px`;
  opened = { node, menu: list };
  node.setAttribute("aria-expanded", "true");
  list.addEventListener("keydown", walk);
  list.querySelector("button:not(:disabled)")?.focus({ preventScroll: true });
  list.scrollIntoView({ block: "nearest" }); // on a small screen it may end below
}

function walk(event) {
  if (event.key === "Escape" || event.key === "Tab") {
    event.preventDefault();
    close(true);
  }
  const items = [...event.currentTarget.querySelectorAll("button:not(:disabled)")];
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || !items.length) return;
  event.preventDefault();
  items[(items.indexOf(document.activeElement) + by + items.length) % items.length].focus();
}

document.addEventListener("pointerdown", (event) => {
  if (opened && !opened.menu.contains(event.target)) close();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && close(true));
