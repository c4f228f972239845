// Calls of the service. Every refusal is a Problem with the service's own code and words.
import { state, update } from "./state.js";

export class Problem extends Error {
  constructor(status, body) {
    const faults = (body.errors ?? []).map((fault) => `${fault.pointer}: ${fault.detail}`);
    super([body.detail ?? body.title ?? `HTTP ${status}`, ...faults].join("; "));
    this.status = status;
    this.code = body.code ?? "server_error";
  }
}

export function keyHeaders() {
  return state.key ? { Authorization: `Bearer ${state.key}` } : {};
}

async function checked(response) {
  if (response.ok) return response;
  if (response.status === 401) update((now) => (now.needsKey = true));
  throw new Problem(response.status, await response.json().catch(() => ({})));
}

export async function call(method, path, body, options = {}) {
  const headers = { ...keyHeaders(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "server_unreachable", detail: "the service does not answer" });
  }
  await checked(response);
  const type = response.headers.get("content-type") ?? "";
  return response.status === 204 ? null : type.includes("json") ? response.json() : response.text();
}

export const get = (path, options) => call("GET", path, undefined, options);

/** Server-sent events by fetch: a browser's own EventSource can't send a key. */
export async function* events(path, signal) {
  const response = await checked(await fetch(path, { headers: keyHeaders(), signal }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { name: "message", data: [] };
      for (const line of block.split(/\r?\n/)) {
        const colon = line.indexOf(":");
        const [field, text] = [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
        if (field === "event") event.name = text;
        if (field === "data") event.data.push(text);
      }
      if (event.data.length) yield { name: event.name, data: JSON.parse(event.data.join("\n")) };
    }
  }
}

/** Follows `path` until `signal`, and again when the connection breaks. `opened` is told of each beginning. */
export async function follow(path, signal, onEvent, { opened = () => {}, lost = () => {}, again = () => true } = {}) {
  let pause = 500;
  while (!signal.aborted) {
    try {
      for await (const event of events(path, signal)) {
        if (pause !== 500 || event.name === "open") opened();
        pause = 500;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && [401, 403, 404].includes(error.status)) return;
    }
    if (signal.aborted || !again()) return;
    lost();
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 10_000);
  }
}

export const outputPath = (jobId, path) => `/v1/jobs/${encodeURIComponent(jobId)}/outputs/${path.split("/").map(encodeURIComponent).join("/")}`;

/** An address of an output that elements such as <video> can load: they send no key, so with one it is a signed link. */
export async function outputAddress(jobId, path) {
  const plain = outputPath(jobId, path);
  return state.key ? (await call("POST", `${plain}/link`)).url : plain;
}
