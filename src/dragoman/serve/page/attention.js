// Where the model looked: as edges between two lines of text, or as a table.

import { label, make, named, svg, visual } from "./text.js";

const FAINT = 0.04; // weaker threads are fog
const MOST = 120; // rows or columns that a page can still show

export class Sight {
  constructor(view, point) {
    [this.view, this.point, this.style] = [view, point, "edges"];
    new ResizeObserver(() => {
      if (this.wide === view.clientWidth) return this.draw();
      this.wide = view.clientWidth;
      return this.render();
    }).observe(view);
  }

  /** `weights`: a row for each token of the answer, a column for each of the source. */
  show(source, tokens, weights) {
    Object.assign(this, { source, tokens, weights, aimed: [null] });
    this.top = Math.max(...weights.flat(), 1e-6);
    this.render();
  }

  render() {
    if (!this.weights) return;
    const big = Math.max(this.source.length, this.tokens.length) > MOST;
    if (big) this.view.replaceChildren(make("p", { class: "hint" }, `${this.tokens.length} × ${this.source.length} tokens: too many to draw`));
    else if (this.style === "heat") this.view.replaceChildren(this.heat());
    else {
      this.view.replaceChildren(this.edges(false));
      if (this.frame.offsetWidth > this.view.clientWidth) this.view.replaceChildren(this.edges(true));
    }
    this.draw();
  }

  /** Something else in place of edges and tables; its parts have `data-at`. */
  place(node) {
    [this.weights, this.threads, this.frame] = [null, null, null];
    for (const one of node.querySelectorAll("[data-at]")) {
      one.addEventListener("pointerenter", () => this.point("target", Number(one.dataset.at)));
      one.addEventListener("pointerleave", () => this.point(null));
    }
    this.view.replaceChildren(node);
  }

  /** Two lines of text; upright, where they are too long for lines, two columns. */
  edges(upright) {
    this.upright = upright;
    const line = (tokens, side) => make("div", { class: "line" }, ...(this.upright ? tokens.map((_, at) => at) : visual(tokens)).map((at) =>
      make("span", {
        class: "bit", "data-side": side, "data-at": at,
        onpointerenter: () => this.point(side, at), onpointerleave: () => this.point(null),
      }, ...label(tokens[at]))));
    this.threads = svg("svg", { "aria-hidden": "true" });
    this.frame = make("div", { class: this.upright ? "edges upright" : "edges", role: "img", "aria-label": this.summary() },
      line(this.source, "source"), make("div", { class: "spacer" }), line(this.tokens, "target"), this.threads);
    const longest = Math.max(this.source.length, this.tokens.length);
    this.frame.style.setProperty("--gap", longest < 12 ? ".9rem" : longest < 24 ? ".35rem" : "2px");
    return this.frame;
  }

  /** Threads go from where tokens stand now to where others stand. */
  draw() {
    if (!this.threads?.isConnected || this.style !== "edges") return;
    const frame = this.frame.getBoundingClientRect();
    const ends = (side, first) => {
      const places = [];
      for (const node of this.frame.querySelectorAll(`[data-side=${side}]`)) {
        const box = node.getBoundingClientRect();
        const [x, y] = this.upright ? [first ? box.right : box.left, box.top + box.height / 2]
          : [box.left + box.width / 2, first ? box.bottom : box.top];
        places[node.dataset.at] = [x - frame.left, y - frame.top];
      }
      return places;
    };
    const [above, below] = [ends("source", true), ends("target", false)];
    const paths = [];
    this.weights.forEach((row, t) => row.forEach((weight, s) => {
      const share = weight / this.top;
      if (share < FAINT || !above[s] || !below[t]) return;
      const [[x1, y1], [x2, y2]] = [above[s], below[t]];
      const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
      const bend = this.upright ? `${mx} ${y1} ${mx} ${y2}` : `${x1} ${my} ${x2} ${my}`;
      paths.push([weight, svg("path", {
        d: `M${x1} ${y1}C${bend} ${x2} ${y2}`, "data-s": s, "data-t": t,
        "stroke-width": (0.6 + 4 * share).toFixed(2), "stroke-opacity": Math.min(1, 0.1 + share).toFixed(2),
      })]);
    }));
    this.threads.replaceChildren(...paths.sort((a, b) => a[0] - b[0]).map(([, path]) => path));
    this.aim(...this.aimed);
  }

  heat() {
    const flat = this.source.every((token) => token === "</s>" || [...token].length < 3);
    const order = visual(this.source);
    const corner = make("tr", {}, make("th", { "aria-hidden": "true" }), ...order.map((at) =>
      make("th", { scope: "col", class: flat ? "flat" : "", "data-side": "source", "data-at": at }, ...label(this.source[at]))));
    const rows = this.weights.map((row, t) => make("tr", {},
      make("th", { scope: "row", "data-side": "target", "data-at": t }, ...label(this.tokens[t] ?? "")),
      ...order.map((s) => {
        const weight = row[s];
        const cell = make("td", {
          "data-s": s, "data-t": t, title: `${named(this.tokens[t] ?? "")} ← ${named(this.source[s])}: ${weight.toFixed(2)}`,
          onpointerenter: () => this.point("target", t, s), onpointerleave: () => this.point(null),
        });
        cell.style.setProperty("--w", (weight / this.top).toFixed(3));
        return cell;
      })));
    return make("table", { class: "heat", "aria-label": this.summary() }, make("thead", {}, corner), make("tbody", {}, ...rows));
  }

  summary() {
    const told = this.weights.slice(0, 20).map((row, t) =>
      `${named(this.tokens[t] ?? "")} from ${named(this.source[row.indexOf(Math.max(...row))] ?? "")}`);
    return "Attention: " + told.join(", ");
  }

  /** Light up what a token looked at, or which tokens looked at it. */
  aim(side, at, other = null) {
    this.aimed = [side, at, other];
    const aimed = side !== null;
    this.frame?.classList.toggle("aimed", aimed && this.style === "edges");
    for (const node of this.view.querySelectorAll("[data-side]")) {
      const own = node.dataset.side === side && Number(node.dataset.at) === at;
      const across = other !== null && node.dataset.side !== side && Number(node.dataset.at) === other;
      node.classList.toggle("lit", aimed && (own || across));
      const weight = !aimed || node.dataset.side === side ? 0
        : side === "target" ? this.weights?.[at]?.[node.dataset.at] : this.weights?.[node.dataset.at]?.[at];
      if (node.className.includes("bit")) node.style.setProperty("--w", (weight ?? 0) / (this.top ?? 1));
    }
    for (const node of this.view.querySelectorAll("figure[data-at], tr[data-at], .bar-row[data-at]")) {
      node.classList.toggle("lit", side === "target" && Number(node.dataset.at) === at);
    }
    const key = side === "target" ? "t" : "s";
    for (const node of this.view.querySelectorAll("path, td[data-t]")) {
      const mine = aimed && Number(node.dataset[key]) === at && (other === null || Number(node.dataset.s) === other);
      node.classList.toggle("lit", mine && (node.tagName !== "TD" || other !== null));
    }
  }
}
