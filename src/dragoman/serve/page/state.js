// What the page shows, as a link: whoever opens it sees the same.

const DEFAULTS = { mode: "greedy", beam: "5", temperature: "1", seed: "1", view: "edges", valid: "none" };

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = { ...DEFAULTS, texts: given.getAll("t"), models: given.getAll("m"), prefixes: [] };
  for (const name of Object.keys(DEFAULTS)) state[name] = given.get(name) ?? DEFAULTS[name];
  for (const text of given.getAll("p")) {
    try {
      const tokens = JSON.parse(text);
      state.prefixes.push(Array.isArray(tokens) ? tokens.map(String) : []);
    } catch {
      state.prefixes.push([]);
    }
  }
  return state;
}

export function write(state) {
  const given = new URLSearchParams();
  for (const text of state.texts) given.append("t", text);
  for (const model of state.models) given.append("m", model);
  if (state.prefixes.some((tokens) => tokens.length)) {
    for (const tokens of state.prefixes) given.append("p", JSON.stringify(tokens));
  }
  for (const [name, usual] of Object.entries(DEFAULTS)) if (state[name] !== usual) given.set(name, state[name]);
  history.replaceState(null, "", "#" + given.toString());
}
