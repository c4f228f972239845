// Live streams: state, figures, a preview, stopping.
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { call, follow, get } from "../api.js";
import * as format from "../format.js";
import { badge, empty, failure } from "../parts.js";
import { say, state, update } from "../state.js";

export function enter(parts, signal) {
  load();
  follow("/v1/events", signal, hear, {
    opened: () => (update((now) => (now.live = true)), load()),
    lost: () => update((now) => (now.live = false)),
  });
  signal.addEventListener("abort", () => (state.live = null));
}

async function load() {
  try {
    const { items } = await get("/v1/jobs?limit=500&status=running");
    const waiting = await get("/v1/jobs?limit=100&status=queued");
    update((now) => (now.streams = { items: [...items, ...waiting.items].filter((job) => job.kind === "stream"), failure: null }));
  } catch (error) {
    update((now) => (now.streams = { items: [], failure: error }));
  }
}

function hear({ name, data }) {
  if (name !== "jobs") return;
  if (data.jobs.some((job) => job.kind === "stream") || data.missed) load();
  update((now) => {
    for (const job of now.streams?.items ?? []) if (data.progress[job.id]) job.stats = data.progress[job.id];
  });
}

async function stop(job) {
  try {
    await call("POST", `/v1/jobs/${job.id}/stop`);
    say("The stream is being stopped; its outputs are finished.");
    await load();
  } catch (error) {
    say(error.message, "failure");
  }
}

/** What a stream's figures are called; those that it does not tell are left out. */
const FIGURES = {
  fps: ["frames/s", (value) => value.toFixed(1)],
  speed: ["speed", (value) => `${value.toFixed(2)}×`],
  bytes: ["written", format.bytes],
  reconnects: ["reconnects", String],
  dropped_frames: ["dropped", String],
  latency_seconds: ["latency", (value) => `${value.toFixed(1)} s`],
};

const figures = (stats) => html`<dl class="figures">${Object.entries(FIGURES)
  .filter(([name]) => stats?.[name] !== undefined && stats[name] !== null)
  .map(([name, [title, shown]]) => html`<div><dt>${title}</dt><dd>${shown(stats[name])}</dd></div>`)}</dl>`;

const card = (job) => html`<section class="card" aria-labelledby="stream-${job.id}">
  <div class="row spread"><h2 id="stream-${job.id}"><a href="#/job/${job.id}">${job.metadata.name ?? format.sourceName(job)}</a></h2>${badge(job.state ?? job.status)}</div>
  <p class="facts">on ${job.attempts.at(-1)?.device ?? "–"} since ${format.moment(job.started_at)}</p>
  ${figures(job.stats)}
  <div class="row"><a class="button small" href="#/job/${job.id}">Watch</a>
    ${job.status === "running" ? html`<button class="small" @click=${() => stop(job)}>Stop</button>` : nothing}</div>
</section>`;

export function view({ streams }) {
  return html`<h1>Streams</h1>
    ${streams?.failure ? failure(streams.failure) : nothing}
    ${!streams ? empty("Loading…") : streams.items.length ? html`<div class="grid">${streams.items.map(card)}</div>` : empty("No stream is running. A job of the kind “stream” starts one; see the API.")}`;
}
