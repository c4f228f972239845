// One job: how far it is, what came out, what was tried, its log.
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { follow, get, outputAddress, outputPath } from "../api.js";
import * as format from "../format.js";
import { badge, bar, empty, failure, picture } from "../parts.js";
import { explained } from "../plan.js";
import { attach } from "../player.js";
import { receiptShown } from "../receipt.js";
import { say, state, update } from "../state.js";
import { actions } from "./jobs.js";

const MAX_LINES = 2000;
const MAX_PICTURES = 60;
const ENDED = new Set(["completed", "failed", "cancelled"]);
const PLAYLISTS = /mpegurl/;
const PLAYABLE = /^(video\/(mp4|webm|quicktime)|audio\/)|mpegurl/;

export function enter([id], signal) {
  update((now) => (now.job = { id, value: null, lines: [], playing: null, failure: null }));
  const shown = state.job;
  load(shown, signal);
  const again = () => !ENDED.has(shown.value?.status);
  follow(`/v1/jobs/${encodeURIComponent(id)}/events`, signal, (event) => hear(shown, event), {
    again,
    opened: () => update((now) => (now.live = true)),
    lost: () => update((now) => (now.live = false)),
  });
  signal.addEventListener("abort", () => (state.live = null));
}

async function load(shown, signal) {
  try {
    const path = `/v1/jobs/${encodeURIComponent(shown.id)}`;
    const [value, text] = await Promise.all([get(path, { signal }), get(`${path}/log`, { signal })]);
    update(() => {
      shown.value = value;
      shown.lines = text.split("\n").filter(Boolean).slice(-MAX_LINES);
    });
    preselect(shown);
  } catch (error) {
    if (error.name !== "AbortError") update(() => (shown.failure = error));
  }
}

function hear(shown, { name, data }) {
  const heard = {
    status: () => (shown.value = { ...data, plan: data.plan ?? shown.value?.plan ?? null }),
    progress: () => {
      if (shown.value?.status === "running") Object.assign(shown.value, { progress: data.fraction, eta_seconds: data.eta_seconds, stats: data });
    },
    log: () => (shown.lines = [...shown.lines, `${data.time} ${data.text}`].slice(-MAX_LINES)),
  }[name];
  if (!heard) return;
  update((now) => {
    heard();
    // nothing more happens to a job that ended: neither live nor offline
    now.live = ENDED.has(shown.value?.status) ? null : true;
  });
  if (name === "status" && ENDED.has(data.status)) {
    document.getElementById("said").textContent = `The job is ${data.status}.`;
    preselect(shown);
  }
}

const files = (job) => job.outputs.flatMap((output) => output.files);

/** The file that is played first: a playlist where there is one. */
function preselect(shown) {
  if (shown.playing || !shown.value) return;
  const all = files(shown.value).filter((file) => PLAYABLE.test(file.content_type));
  const first = all.find((file) => file.path.endsWith("index.m3u8")) ?? all.find((file) => PLAYLISTS.test(file.content_type)) ?? all[0];
  if (first) play(shown, first);
}

async function play(shown, file) {
  try {
    // a playlist's files are fetched by the player, which sends the key; a link would lead to the playlist only
    const playlist = PLAYLISTS.test(file.content_type);
    const address = playlist ? `/v1/jobs/${shown.id}/outputs/${file.path}` : await outputAddress(shown.id, file.path);
    update(() => (shown.playing = { file, address, playlist }));
  } catch (error) {
    say(error.message, "failure");
  }
}

async function save(shown, file) {
  const address = await outputAddress(shown.id, file.path);
  const link = document.createElement("a");
  link.href = `${address}${address.includes("?") ? "&" : "?"}download=1`;
  link.download = file.path.split("/").pop();
  link.click();
}

function player(shown) {
  const { playing } = shown;
  if (!playing) return nothing;
  const sound = playing.file.content_type.startsWith("audio/");
  return html`<section class="card player" aria-label="Player">
    <video controls playsinline preload="metadata" class=${sound ? "sound" : ""} aria-label="Result" .playing=${attach(playing)}></video>
    <div class="row spread"><span class="facts">${playing.file.path}</span><span id="quality"></span></div>
  </section>`;
}

const fileRow = (shown) => (file) => html`<tr>
  <td>${file.path}</td><td class="number">${format.bytes(file.size)}</td>
  <td><span class="acts">
    ${PLAYABLE.test(file.content_type) ? html`<button class="small" @click=${() => play(shown, file)} aria-label="Play ${file.path}">Play</button>` : nothing}
    <button class="small" @click=${() => save(shown, file)} aria-label="Save ${file.path}">Save</button>
  </span></td></tr>`;

function outputs(shown) {
  const all = files(shown.value);
  if (!all.length) return nothing;
  return html`<section class="card"><h2>Files</h2>
    <table><thead><tr><th>file</th><th>size</th><th><span class="unseen">actions</span></th></tr></thead>
    <tbody>${all.map(fileRow(shown))}</tbody></table></section>`;
}

function pictures(shown) {
  const all = files(shown.value).filter((file) => file.content_type.startsWith("image/"));
  if (!all.length) return nothing;
  return html`<section class="card"><h2>Pictures</h2><ul class="pictures">
    ${all.slice(0, MAX_PICTURES).map((file) => html`<li><kept-picture path=${outputPath(shown.id, file.path)}></kept-picture><small>${file.path}</small></li>`)}
    </ul>${all.length > MAX_PICTURES ? html`<p class="facts">and ${all.length - MAX_PICTURES} more</p>` : nothing}</section>`;
}

/** Fetched when it is opened: most who look at a job don't. */
async function openReceipt(shown) {
  if (shown.receipt) return;
  try {
    const receipt = await get(`/v1/jobs/${encodeURIComponent(shown.id)}/receipt`);
    update(() => (shown.receipt = receipt));
  } catch (error) {
    update(() => (shown.receiptFailure = error));
  }
}

function receipt(shown) {
  if (shown.value.kind !== "file" || shown.value.status !== "completed") return nothing;
  return html`<section class="card"><details @toggle=${(event) => event.target.open && openReceipt(shown)}>
    <summary>Receipt: what was measured, and the way taken</summary>
    ${shown.receipt ? receiptShown(shown.receipt) : failure(shown.receiptFailure) || nothing}</details></section>`;
}

const attemptRow = (attempt) => html`<li>
  ${badge(attempt.status)} ${attempt.task ? `piece ${attempt.task}, ` : ""}attempt ${attempt.number} on <b>${attempt.device}</b>,
  ${format.clock(attempt.started_at)}${attempt.finished_at ? `, ${format.duration(format.between(attempt.started_at, attempt.finished_at))}` : ""}
  ${attempt.reason ? html`<small>${attempt.reason}</small>` : nothing}
  ${attempt.error ? html`<small class="bad">${attempt.error.code}: ${attempt.error.message}</small>` : nothing}</li>`;

function standing(job) {
  const facts = [format.percent(job.progress), format.rate(job.stats), job.eta_seconds === null ? "" : `${format.duration(job.eta_seconds)} left`];
  if (job.status === "running") return html`${bar(job.progress, "Progress")}<p class="facts">${facts.filter(Boolean).join(" · ")}</p>`;
  if (job.status === "queued") return html`<p class="facts">Waits in the queue ${job.queue}.</p>`;
  return html`<p class="facts">${format.moment(job.finished_at)}, took ${format.duration(format.between(job.started_at, job.finished_at))}</p>`;
}

const logged = (lines) => html`<section class="card"><h2>Log</h2>
  ${lines.length ? html`<pre class="log" tabindex="0" role="region" aria-label="Log">${lines.join("\n")}</pre>` : empty("Nothing yet.")}</section>`;

export function view({ job: shown }) {
  if (!shown) return nothing;
  if (shown.failure) return html`<h1>Job</h1>${failure(shown.failure)}`;
  const job = shown.value;
  if (!job) return html`<h1>Job</h1>${empty("Loading…")}`;
  return html`<div class="row spread"><div class="row">${picture(job)}<h1>${format.sourceName(job)}</h1></div><span class="row">${actions(job, () => (location.hash = "#/jobs"))}</span></div>
    <section class="card" aria-label="Status">
      <div class="row">${badge(job.status, job.state ?? job.status)}<span>${job.preset ?? "own outputs"}</span><span class="facts">queue ${job.queue}, priority ${job.priority}</span></div>
      ${standing(job)}
      ${job.error ? failure(`${job.error.code}: ${job.error.message}`) : nothing}
      ${job.warnings.map((warning) => html`<p class="warning">${warning.message}${warning.count > 1 ? ` (${warning.count} times)` : ""}</p>`)}
    </section>
    ${player(shown)} ${pictures(shown)} ${outputs(shown)}
    ${job.plan ? html`<section class="card"><h2>Plan</h2>${explained(job.plan)}</section>` : nothing}
    <section class="card"><h2>Attempts</h2>${job.attempts.length ? html`<ol class="attempts">${job.attempts.map(attemptRow)}</ol>` : empty("None yet.")}</section>
    ${receipt(shown)}
    ${logged(shown.lines)}`;
}
