// What the page shows, in one place; and the one function that draws it.
import { html, render } from "./vendor/lit-html/lit-html.js";

/** Everything that views read. They change it through `update`, which draws soon after. */
export const state = {
  key: sessionStorage.getItem("transcoder.key"),
  needsKey: false,
  route: { name: "jobs", parts: [] },
  /** Whether news come; null where none are waited for. */
  live: null,
  jobs: { items: [], next: null, loaded: false, status: "", failure: null },
  job: null,
  upload: null,
  devices: { items: null, history: new Map() },
  queues: { items: null },
  presets: null,
  notice: null,
};

let draw = () => html``;
let waiting = false;

export function drawWith(view) {
  draw = view;
  update();
}

export function update(change) {
  if (change) change(state);
  if (waiting) return;
  waiting = true;
  // not requestAnimationFrame: a tab in the background has to be right when it is looked at
  queueMicrotask(() => {
    waiting = false;
    render(draw(state), document.getElementById("page"));
  });
}

/** Tells it to people, those with a screen reader included. */
export function say(text, kind = "info") {
  document.getElementById("said").textContent = text;
  const notice = { text, kind };
  update((now) => (now.notice = notice));
  if (kind === "info") setTimeout(() => state.notice === notice && update((now) => (now.notice = null)), 6000);
}
