// The list of jobs, live; above it the way to a new one.
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { guard } from "../vendor/lit-html/directives/guard.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { call, follow, get } from "../api.js";
import * as format from "../format.js";
import { badge, bar, confirmed, deviceOf, empty, failure, picture } from "../parts.js";
import { say, state, update } from "../state.js";
import * as submit from "./submit.js";

const PAGE = 100;
const STATUSES = ["", "running", "queued", "completed", "failed", "cancelled"];
const ENDED = new Set(["completed", "failed", "cancelled"]);

export function enter(parts, signal) {
  // older jobs come as they are scrolled to; the button is for those who don't scroll
  addEventListener("scroll", () => innerHeight + scrollY > document.body.scrollHeight - 800 && more(), { signal, passive: true });
  load();
  submit.load();
  follow("/v1/events", signal, hear, {
    opened: () => (update((now) => (now.live = true)), load()),
    lost: () => update((now) => (now.live = false)),
  });
  signal.addEventListener("abort", () => (state.live = null));
}

async function load() {
  const { status } = state.jobs;
  const query = new URLSearchParams({ limit: PAGE, ...(status ? { status } : {}) });
  try {
    const page = await get(`/v1/jobs?${query}`);
    if (state.jobs.status === status) update((now) => Object.assign(now.jobs, page, { loaded: true, failure: null }));
  } catch (error) {
    update((now) => (now.jobs.failure = error));
  }
}

let asking = false;

async function more() {
  const { status, next } = state.jobs;
  if (asking || !next) return;
  asking = true;
  try {
    await older(status, next);
  } catch (error) {
    say(error.message, "failure");
  } finally {
    asking = false;
  }
}

async function older(status, next) {
  const query = new URLSearchParams({ limit: PAGE, cursor: next, ...(status ? { status } : {}) });
  const page = await get(`/v1/jobs?${query}`);
  if (state.jobs.status !== status) return;
  update((now) => {
    const known = new Set(now.jobs.items.map((job) => job.id));
    now.jobs.items = [...now.jobs.items, ...page.items.filter((job) => !known.has(job.id))];
    now.jobs.next = page.next;
  });
}

/** The list with what a batch of news tells; jobs stay where they are, new ones come first. */
export function merged(items, told, status) {
  const fresh = new Map(told.jobs.map((job) => [job.id, job]));
  const kept = items.flatMap((job) => {
    const changed = fresh.get(job.id);
    fresh.delete(job.id);
    if (changed) return status && changed.status !== status ? [] : [changed];
    const progress = told.progress[job.id];
    return progress ? [{ ...job, progress: progress.fraction, eta_seconds: progress.eta_seconds, stats: progress }] : [job];
  });
  const newest = items[0]?.created_at ?? "";
  const added = [...fresh.values()].filter((job) => (!status || job.status === status) && job.created_at >= newest);
  return [...added.reverse(), ...kept];
}

function hear({ name, data }) {
  if (name !== "jobs") return;
  if (data.missed) load();
  update((now) => (now.jobs.items = merged(now.jobs.items, data, now.jobs.status)));
  for (const job of data.jobs) if (ENDED.has(job.status)) document.getElementById("said").textContent = `${format.sourceName(job)}: ${job.status}`;
}

function choose(status) {
  update((now) => Object.assign(now.jobs, { status, items: [], next: null, loaded: false }));
  load();
}

const ACTIONS = {
  queued: ["cancel", "Cancel"],
  running: ["cancel", "Cancel"],
  failed: ["retry", "Retry"],
  cancelled: ["retry", "Retry"],
};

export async function act(job, verb) {
  try {
    const changed = await call("POST", `/v1/jobs/${job.id}/${verb}`);
    update((now) => {
      now.jobs.items = merged(now.jobs.items, { jobs: [changed], progress: {} }, now.jobs.status);
      if (now.job?.value?.id === job.id) now.job.value = changed;
    });
  } catch (error) {
    say(error.message, "failure");
  }
}

export function remove(job, then = () => {}) {
  confirmed(`Delete the job of ${format.sourceName(job)} and its files?`, "Delete", async () => {
    try {
      await call("DELETE", `/v1/jobs/${job.id}`);
    } catch (error) {
      say(error.message, "failure");
      return;
    }
    update((now) => (now.jobs.items = now.jobs.items.filter((each) => each.id !== job.id)));
    then();
  });
}

export function actions(job, then) {
  const name = format.sourceName(job);
  const [verb, title] = ACTIONS[job.status] ?? [];
  return html`
    ${verb ? html`<button class="small" @click=${() => act(job, verb)} aria-label="${title} ${name}">${title}</button>` : nothing}
    ${ENDED.has(job.status) ? html`<button class="small" @click=${() => remove(job, then)} aria-label="Delete ${name}">Delete</button>` : nothing}`;
}

const size = (job) => format.bytes(job.outputs.flatMap((output) => output.files).reduce((sum, file) => sum + file.size, 0));

function detail(job) {
  if (job.status === "running") {
    const facts = [format.percent(job.progress), format.rate(job.stats), job.eta_seconds === null ? "" : `${format.duration(job.eta_seconds)} left`];
    return html`${bar(job.progress, `Progress of ${format.sourceName(job)}`)}<span class="facts">${facts.filter(Boolean).join(" · ")}</span>`;
  }
  if (job.status === "completed") {
    return html`<span class="facts">${size(job)} · took ${format.duration(format.between(job.started_at, job.finished_at))}</span>`;
  }
  return job.error ? html`<span class="facts bad">${job.error.message}</span>` : nothing;
}

const row = (job) => html`<li class="job">
  ${picture(job)}
  <a class="name" href="#/job/${job.id}">${format.sourceName(job)}</a>
  <span class="state">${badge(job.status, job.state ?? job.status)}</span>
  <span class="preset">${job.preset ?? format.plural(job.spec.outputs?.length ?? 1, "output")}${job.queue === "default" ? "" : ` · ${job.queue}`}</span>
  <span class="detail">${detail(job)}</span>
  <span class="where">${deviceOf(job)}</span>
  <time class="when" datetime=${job.created_at}>${format.moment(job.created_at)}</time>
  <span class="acts">${actions(job)}</span>
</li>`;

function list({ items, next, loaded, failure: error }) {
  if (error) return failure(error);
  if (!items.length) return empty(loaded ? "No jobs here yet. Drop a file above to make the first one." : "Loading…");
  return html`<ul class="jobs">${repeat(items, (job) => job.id, (job) => guard([job], () => row(job)))}</ul>
    ${next ? html`<button class="more" @click=${more}>Show older jobs</button>` : nothing}`;
}

export const view = (now) => html`
  <h1 class="unseen">Jobs</h1>
  ${submit.view(now)}
  <section aria-labelledby="jobs-title">
    <div class="row spread">
      <h2 id="jobs-title">Jobs</h2>
      <div class="chips" role="group" aria-label="Show jobs that are">
        ${STATUSES.map((status) => html`<button aria-pressed=${now.jobs.status === status} @click=${() => choose(status)}>${status || "all"}</button>`)}
      </div>
    </div>
    ${list(now.jobs)}
  </section>`;
