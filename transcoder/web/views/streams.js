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
    for (const job of now.streams?.items ?? []) if (data.progress[job.id]) Object.assign(job, { stats: data.progress[job.id], state: data.progress[job.id].state });
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
  in_fps: ["comes in", (value) => `${value.toFixed(1)} fps`],
  in_bitrate: ["bitrate", (value) => `${format.bytes(value / 8)}/s`],
  latency_seconds: ["latency", (value) => `${value.toFixed(2)} s`],
  last_frame_age_seconds: ["last picture", (value) => `${value.toFixed(1)} s ago`],
  reconnects: ["reconnects", String],
  corrupt: ["damaged", String],
};

const figures = (stats) => html`<dl class="figures">${Object.entries(FIGURES)
  .filter(([name]) => stats?.[name] !== undefined && stats[name] !== null)
  .map(([name, [title, shown]]) => html`<div><dt>${title}</dt><dd>${shown(stats[name])}</dd></div>`)}</dl>`;

const output = ({ name, type, state, dropped, error }) => html`<li>${badge(state === "failed" ? "failed" : state === "live" ? "live" : "reconnecting", state)}
  ${name} <span class="facts">${type}${dropped ? ` · ${format.plural(dropped, "packet")} dropped` : ""}</span>
  ${error ? html`<small class="bad">${error}</small>` : nothing}</li>`;

const card = (job) => html`<section class="card" aria-labelledby="stream-${job.id}">
  <div class="row spread"><h2 id="stream-${job.id}"><a href="#/job/${job.id}">${job.metadata.name ?? format.sourceName(job)}</a></h2>${badge(job.state ?? job.status)}</div>
  <p class="facts">on ${job.attempts.at(-1)?.device ?? "–"} since ${format.moment(job.started_at)}</p>
  ${figures(job.stats)}
  ${job.stats?.error ? html`<p class="warning">${job.stats.error}${job.stats.slate ? "; the slate is sent" : ""}</p>` : nothing}
  ${job.stats?.publish_url ? html`<p class="facts">publish to <code>${job.stats.publish_url}</code></p>` : nothing}
  <ul class="attempts">${(job.stats?.outputs ?? []).map(output)}</ul>
  <div class="row"><a class="button small" href="#/job/${job.id}">Watch</a>
    ${job.status === "running" ? html`<button class="small" @click=${() => stop(job)}>Stop</button>` : nothing}</div>
</section>`;

export function view({ streams }) {
  return html`<h1>Streams</h1>
    ${streams?.failure ? failure(streams.failure) : nothing}
    ${!streams ? empty("Loading…") : streams.items.length ? html`<div class="grid">${streams.items.map(card)}</div>` : empty("No stream is running. A job of the kind “stream” starts one; see the API.")}`;
}
