// Pieces that several views are made of.
import { html, nothing } from "./vendor/lit-html/lit-html.js";
import * as format from "./format.js";
import "./picture.js";

export const badge = (status, text = status) => html`<span class="badge ${status}">${text}</span>`;

export function bar(share, label) {
  // without a value the browser shows that something goes on, and claims no share
  return share === null || share === undefined
    ? html`<progress aria-label=${label}></progress>`
    : html`<progress aria-label=${label} max="1" .value=${share}>${format.percent(share)}</progress>`;
}

/** The device that works on a job, or did last. */
export const deviceOf = (job) => job.attempts.at(-1)?.device ?? "";

export const failure = (error) => (error ? html`<p class="failure" role="alert">${error.message ?? error}</p>` : nothing);

export const empty = (text) => html`<p class="empty">${text}</p>`;

const SEEN = /^(video|image)\/|mpegurl|dash\+xml/;

/** The job's small picture; an empty place of the same size for what has none. */
export function picture(job) {
  const seen = job.kind === "file" && job.status === "completed" && job.outputs.some(({ files }) => files.some((file) => SEEN.test(file.content_type)));
  return seen ? html`<kept-picture class="thumb" path="/v1/jobs/${job.id}/thumbnail.jpg"></kept-picture>` : html`<span class="thumb"></span>`;
}

/** Slots of a device as a picture: one square each, filled while something runs on it. */
export function slots(device) {
  const shown = Math.min(Math.max(device.slots, device.busy), 64);
  const name = `${device.busy} of ${format.plural(device.slots, "slot")} busy`;
  return html`<div class="slots" role="img" aria-label=${name} title=${name}>
    ${Array.from({ length: shown }, (_, index) => html`<i class=${index < device.busy ? "busy" : index < device.slots ? "" : "over"}></i>`)}
  </div>`;
}

/** A line of values between 0 and 1 over time. */
export function sparkline(values, label) {
  const points = values.map((value, index) => `${(index * 100) / Math.max(1, values.length - 1)},${30 - value * 28}`);
  return html`<svg class="sparkline" viewBox="0 0 100 32" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polyline points=${points.join(" ")} fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke"></polyline>
  </svg>`;
}

/** A question in the page's own dialog; `act` runs when it is agreed to. */
export function confirmed(question, verb, act) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", question);
  const [text, row, yes, no] = ["p", "div", "button", "button"].map((name) => document.createElement(name));
  text.textContent = question;
  yes.textContent = verb;
  yes.className = "danger";
  no.textContent = "Keep";
  no.autofocus = true;
  row.className = "row end";
  row.append(no, yes);
  dialog.append(text, row);
  yes.onclick = () => (dialog.close(), act());
  no.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
}
