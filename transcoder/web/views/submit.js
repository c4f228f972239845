// A new job: a file or an address, a preset, what would be done, and go.
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { call, get, keyHeaders } from "../api.js";
import * as format from "../format.js";
import { bar, failure } from "../parts.js";
import { explained } from "../plan.js";
import { say, state, update } from "../state.js";

const PIECE_BYTES = 8 << 20;
const RETRIES = [0, 1000, 3000, 5000, 10_000, 20_000];

export async function load() {
  if (state.presets) return;
  try {
    const [presets, queues] = await Promise.all([get("/v1/presets"), get("/v1/queues").catch(() => ({ items: [] }))]);
    update((now) => {
      now.presets = presets.items;
      now.queues.items ??= queues.items;
    });
  } catch (error) {
    if (error.code !== "unauthorized") say(error.message, "failure");
  }
}

function begin(draft) {
  state.upload?.tus?.abort();
  update((now) => (now.upload = { preset: "web-mp4", queue: "default", policy: "auto", sent: 0, plan: null, failure: null, ...draft }));
}

/** Only a change of the draft that is still shown counts: the others were given up. */
function change(draft, values) {
  if (state.upload === draft) update(() => Object.assign(draft, values));
}

async function take(file) {
  if (!file) return;
  begin({ name: file.name, size: file.size, file });
  const draft = state.upload;
  await uploaderReady();
  if (state.upload !== draft) return;
  draft.tus = new window.tus.Upload(file, {
    endpoint: "/v1/tus",
    chunkSize: PIECE_BYTES,
    retryDelays: RETRIES,
    headers: keyHeaders(),
    metadata: { filename: file.name },
    removeFingerprintOnSuccess: true,
    onProgress: (sent) => change(draft, { sent, failure: null }),
    onShouldRetry: (error) => {
      const status = error.originalResponse?.getStatus() ?? 0;
      change(draft, { note: "The connection broke; going on where it was." });
      return status === 0 || status === 423 || status === 409 || status >= 500;
    },
    onError: (error) => change(draft, { failure: refusal(error), paused: true }),
    onSuccess: () => {
      change(draft, { input: { upload: draft.tus.url.split("/").pop() }, sent: file.size, note: null });
      if (state.upload === draft) preview();
    },
  });
  const [before] = await draft.tus.findPreviousUploads();
  if (before) draft.tus.resumeFromPreviousUpload(before);
  change(draft, { note: before ? "Going on with an upload of this file from before." : null });
  draft.tus.start();
}

function refusal(error) {
  const body = error.originalResponse?.getBody();
  try {
    return JSON.parse(body).detail;
  } catch {
    return "The upload stopped: the service does not answer.";
  }
}

/** The uploader is loaded with the first file, so that the page is there sooner. */
let loading = null;
function uploaderReady() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/assets/vendor/tus.min.js";
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  return loading;
}

function pause(draft) {
  if (draft.paused) draft.tus.start();
  else draft.tus.abort();
  change(draft, { paused: !draft.paused, failure: null });
}

function discard() {
  state.upload?.tus?.abort();
  update((now) => (now.upload = null));
}

const spec = ({ input, preset, queue, policy, name }) => ({
  input,
  preset,
  queue,
  device: { policy },
  metadata: { file: name },
});

/** Asks what would be done. An answer to an older question is left aside. */
async function preview() {
  const draft = state.upload;
  if (!draft?.input) return;
  const asked = JSON.stringify(spec(draft));
  change(draft, { plan: null, planning: true, failure: null });
  try {
    const plan = await call("POST", "/v1/plan", spec(draft));
    if (asked === JSON.stringify(spec(draft))) change(draft, { plan, planning: false });
  } catch (error) {
    if (asked === JSON.stringify(spec(draft))) change(draft, { failure: error.message, planning: false });
  }
}

function set(values) {
  update((now) => Object.assign(now.upload, values));
  preview();
}

async function start() {
  const draft = state.upload;
  change(draft, { starting: true });
  try {
    const job = await call("POST", "/v1/jobs", spec(draft));
    update((now) => (now.upload = null));
    say(`${draft.name} is queued.`);
    location.hash = `#/job/${job.id}`;
  } catch (error) {
    change(draft, { failure: error.message, starting: false });
  }
}

function fromAddress(event) {
  event.preventDefault();
  const text = new FormData(event.target).get("address").trim();
  if (!text) return;
  const local = text.startsWith("/");
  begin({ name: text.split(/[?#]/)[0].split("/").pop() || text, input: local ? { path: text } : { url: text } });
  preview();
}

const over = (on) => (event) => {
  event.preventDefault();
  event.currentTarget.classList.toggle("over", on);
};

function drop(event) {
  over(false)(event);
  take(event.dataTransfer.files[0]);
}

const dropZone = () => html`<section class="card drop" aria-label="New job" @dragover=${over(true)} @dragleave=${over(false)} @drop=${drop}>
  <div>
    <p class="big">Drop a media file here</p>
    <p>or <label class="button primary">choose one<input class="unseen" type="file" id="file" accept="video/*,audio/*,.mkv,.ts,.mxf"
      @change=${(event) => take(event.target.files[0])}></label></p>
  </div>
  <form @submit=${fromAddress}>
    <label for="address">or name one that the service can reach</label>
    <div class="row"><input id="address" name="address" placeholder="https://… or /media/film.mkv"><button>Use it</button></div>
  </form>
</section>`;

function sending(draft) {
  if (!draft.file) return nothing;
  const done = draft.input !== undefined;
  const share = draft.size ? draft.sent / draft.size : 1;
  return html`<div class="sending">
    ${bar(done ? 1 : share, "Upload")}
    <span class="facts">${done ? `${format.bytes(draft.size)} uploaded` : `${format.bytes(draft.sent)} of ${format.bytes(draft.size)}`}</span>
    ${done ? nothing : html`<button class="small" @click=${() => pause(draft)}>${draft.paused ? "Go on" : "Pause"}</button>`}
  </div>
  ${draft.note && !done ? html`<p class="facts">${draft.note}</p>` : nothing}`;
}

/** What most people want comes first, sound and copies last. */
const RANKS = [/^web-mp4$/, /^(?!audio-|remux-|mkv-|proxy-)/, /^(mkv|proxy)-/, /^remux-/, /^audio-/];
const rank = ({ name }) => RANKS.findIndex((pattern) => pattern.test(name));
const ordered = (presets) => [...presets].sort((one, other) => rank(one) - rank(other));

const presetChoice = (draft) => (preset) => html`<label class="choice ${draft.preset === preset.name ? "chosen" : ""}">
  <input type="radio" name="preset" .checked=${draft.preset === preset.name} @change=${() => set({ preset: preset.name })}>
  <b>${preset.title || preset.name}</b><small>${preset.description}</small></label>`;

const POLICIES = { auto: "GPU if there is one", hardware: "GPU only", software: "CPU only" };

function draftView(draft, now) {
  const queues = now.queues.items ?? [];
  return html`<section class="card draft" aria-labelledby="draft-title">
    <div class="row spread"><h2 id="draft-title">${draft.name}</h2><button class="plain" @click=${discard}>Discard</button></div>
    ${sending(draft)}
    <div class="sides"><fieldset class="presets"><legend>What to make of it</legend>${ordered(now.presets ?? []).map(presetChoice(draft))}</fieldset>
    <div>
    <div class="row">
      <label>Runs on <select @change=${(event) => set({ policy: event.target.value })}>
        ${Object.entries(POLICIES).map(([value, title]) => html`<option value=${value} ?selected=${draft.policy === value}>${title}</option>`)}
      </select></label>
      ${queues.length > 1
        ? html`<label>Queue <select @change=${(event) => set({ queue: event.target.value })}>
            ${queues.map((queue) => html`<option ?selected=${draft.queue === queue.name}>${queue.name}</option>`)}</select></label>`
        : nothing}
    </div>
    ${failure(draft.failure)}
    ${draft.plan ? explained(draft.plan) : html`<p class="facts">${draft.planning ? "Looking at the file…" : draft.input ? "" : "The plan is shown when the upload is done."}</p>`}
    <div class="row end"><button class="primary" id="start" ?disabled=${!draft.input || draft.starting} @click=${start}>Start</button></div>
    </div></div>
  </section>`;
}

export const view = (now) => (now.upload ? draftView(now.upload, now) : dropZone());
