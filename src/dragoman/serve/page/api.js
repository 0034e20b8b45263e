// Talking to the server. A token, where one is needed, is kept for as long as the tab is open.

const KEY = "dragoman-token";

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, authorization: "Bearer " + token } : more;
}

async function told(reply) {
  try {
    return (await reply.json()).error ?? reply.statusText;
  } catch {
    return `${reply.status} ${reply.statusText}`;
  }
}

async function call(path, options = {}) {
  for (;;) {
    const reply = await fetch(path, { ...options, headers: headers(options.headers) });
    if (reply.status === 401) {
      await askForToken();
      continue;
    }
    if (reply.status === 429 || reply.status === 503) {
      const wait = Number(reply.headers.get("retry-after") ?? 1);
      await new Promise((done) => setTimeout(done, wait * 1000));
      options.signal?.throwIfAborted();
      continue;
    }
    if (!reply.ok) throw new Error(await told(reply));
    return reply;
  }
}

let asking = null;
function askForToken() {
  asking ??= new Promise((done) => {
    const door = document.getElementById("door");
    door.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("key").value);
      asking = null;
      done();
    }, { once: true });
    door.showModal();
  });
  return asking;
}

export const get = async (path) => (await call(path)).json();

/** A file goes as it is, and what else there is to say in the address. */
function posted({ file, inputs, ...rest }) {
  if (!file) return ["v1/predict", JSON.stringify({ inputs, ...rest }), "application/json"];
  const given = new URLSearchParams(inputs.map((text) => ["text", text]));
  for (const [name, value] of Object.entries(rest)) {
    for (const one of Array.isArray(value) ? value : [value]) given.append(name, one);
  }
  return ["v1/predict?" + given, file, /^(image|audio|video)\//.test(file.type) ? file.type : "application/octet-stream"];
}

export async function predict(given, signal) {
  const [path, body, kind] = posted(given);
  const reply = await call(path, { method: "POST", body, signal, headers: { "content-type": kind } });
  return given.stream ? reply : (await reply.json()).predictions;
}

/** The events of an answer while it is written: [name, data]. */
export async function* events(given, signal) {
  const reply = await predict({ ...given, stream: true }, signal);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [name, data] = block.split("\n");
      yield [name.slice("event: ".length), JSON.parse(data.slice("data: ".length))];
    }
  }
}
