// Queues: shares, limits, what waits and runs; pausing.
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { call, get } from "../api.js";
import * as format from "../format.js";
import { badge, confirmed, empty } from "../parts.js";
import { say, update } from "../state.js";

const LOOK_SECONDS = 2;
const SETTINGS = ["weight", "max_running", "max_queued", "paused", "devices", "default_priority"];

export async function enter(parts, signal) {
  while (!signal.aborted) {
    await look();
    await new Promise((resolve) => setTimeout(resolve, LOOK_SECONDS * 1000));
  }
}

async function look() {
  try {
    const { items } = await get("/v1/queues");
    update((now) => {
      now.queues.items = items;
      now.live = true;
    });
  } catch {
    update((now) => (now.live = false));
  }
}

async function attempt(act) {
  try {
    await act();
    await look();
  } catch (error) {
    say(error.message, "failure");
  }
}

/** A PUT sets what it leaves out to its default, so all settings go along. */
function put(queue, changes) {
  const settings = Object.fromEntries(SETTINGS.map((name) => [name, queue[name]]));
  return attempt(() => call("PUT", `/v1/queues/${queue.name}`, { ...settings, ...changes }));
}

const number = (text) => (text === "" ? null : Number(text));

function save(queue) {
  return (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    put(queue, {
      weight: Number(given.get("weight")),
      max_running: number(given.get("max_running")),
      max_queued: number(given.get("max_queued")),
      default_priority: Number(given.get("default_priority")),
    });
  };
}

function add(event) {
  event.preventDefault();
  const form = event.target;
  const name = new FormData(form).get("name").trim();
  attempt(async () => {
    await call("PUT", `/v1/queues/${encodeURIComponent(name)}`, {});
    form.reset();
  });
}

const remove = (queue) => confirmed(`Delete the queue ${queue.name}?`, "Delete", () => attempt(() => call("DELETE", `/v1/queues/${queue.name}`)));

function shares(queues) {
  const total = queues.reduce((sum, queue) => sum + queue.weight, 0);
  let x = 0;
  return html`<svg class="shares" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="Shares of busy slots by queue">
    ${queues.map((queue, index) => {
      const width = (queue.weight / total) * 100;
      const at = x;
      x += width;
      return html`<svg x=${at} width=${Math.max(0, width - 0.4)} height="6" viewBox="0 0 100 6" preserveAspectRatio="none">
        <rect width="100" height="6" class="share-${index % 6} ${queue.paused ? "paused" : ""}"><title>${queue.name}</title></rect></svg>`;
    })}</svg>`;
}

const field = (queue, name, title, value, extra = {}) => html`<label>${title}
  <input type="number" name=${name} .value=${value ?? ""} placeholder="no limit" min=${extra.min ?? 0} step=${extra.step ?? 1} ?required=${extra.required}></label>`;

function card(queue, index, total) {
  return html`<section class="card" aria-labelledby="queue-${queue.name}">
    <div class="row spread">
      <h2 id="queue-${queue.name}"><i class="key share-${index % 6}"></i>${queue.name}</h2>
      ${badge(queue.paused ? "draining" : "ready", queue.paused ? "paused" : "open")}
    </div>
    <p class="facts">${queue.running} running · ${queue.queued} waiting · ${format.percent(queue.weight / total)} of busy slots when all have work
      ${queue.devices ? html` · only on ${queue.devices.join(", ")}` : nothing}</p>
    <form class="fields" @submit=${save(queue)}>
      ${field(queue, "weight", "Weight", queue.weight, { min: 0.01, step: "any", required: true })}
      ${field(queue, "max_running", "Most running", queue.max_running)}
      ${field(queue, "max_queued", "Most waiting", queue.max_queued)}
      ${field(queue, "default_priority", "Priority", queue.default_priority, { min: -1000, required: true })}
      <button>Save</button>
    </form>
    <div class="row">
      <button class="small" @click=${() => put(queue, { paused: !queue.paused })}>${queue.paused ? "Go on" : "Pause"}</button>
      ${queue.name === "default" ? nothing : html`<button class="small" @click=${() => remove(queue)} aria-label="Delete queue ${queue.name}">Delete</button>`}
    </div>
  </section>`;
}

export function view({ queues: { items } }) {
  if (!items) return html`<h1>Queues</h1>${empty("Loading…")}`;
  const total = items.reduce((sum, queue) => sum + queue.weight, 0);
  return html`<h1>Queues</h1>
    <p>Queues share the slots of all devices by weight. A paused queue starts nothing new.</p>
    ${shares(items)}
    <div class="grid">${items.map((queue, index) => card(queue, index, total))}</div>
    <form class="card row" @submit=${add}><label>New queue <input name="name" required pattern="[a-z0-9][a-z0-9_\\-]{0,62}" placeholder="night"></label><button>Make it</button></form>`;
}
