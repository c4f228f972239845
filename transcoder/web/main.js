// The page's frame: which view is shown, the navigation, the login.
import { html, nothing } from "./vendor/lit-html/lit-html.js";
import { get } from "./api.js";
import { drawWith, say, state, update } from "./state.js";
import * as devices from "./views/devices.js";
import * as job from "./views/job.js";
import * as jobs from "./views/jobs.js";
import * as queues from "./views/queues.js";
import * as streams from "./views/streams.js";

const VIEWS = { jobs, job, devices, queues, streams };
const NAVIGATION = [
  ["jobs", "Jobs"],
  ["streams", "Streams"],
  ["devices", "Devices"],
  ["queues", "Queues"],
];
const THEMES = { auto: "light", light: "dark", dark: "auto" };

let leave = () => {};

function routed() {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { name: name in VIEWS ? name : "jobs", parts };
}

function enter() {
  leave();
  const stop = new AbortController();
  leave = () => stop.abort();
  update((now) => {
    now.route = routed();
    now.notice = null;
  });
  VIEWS[state.route.name].enter(state.route.parts, stop.signal);
  document.title = `${state.route.name} · transcoder`;
}

function setTheme(theme) {
  localStorage.setItem("transcoder.theme", theme);
  document.documentElement.dataset.theme = theme;
  update();
}

async function login(event) {
  event.preventDefault();
  const key = new FormData(event.target).get("key").trim();
  update((now) => (now.key = key));
  try {
    await get("/v1/jobs?limit=1");
  } catch (error) {
    update((now) => (now.key = null));
    say(error.code === "unauthorized" ? "The service does not know this key." : error.message, "failure");
    return;
  }
  sessionStorage.setItem("transcoder.key", key);
  update((now) => (now.needsKey = false));
  enter();
}

function logout() {
  sessionStorage.removeItem("transcoder.key");
  leave();
  update((now) => {
    now.key = null;
    now.needsKey = true;
  });
}

const loginView = () => html`<form class="card login" @submit=${login}>
  <h1>API key</h1>
  <p>This service asks for a key. <code>transcoder keys create --name me</code> makes one. It is kept until this tab is closed.</p>
  <label>Key <input name="key" type="password" autocomplete="current-password" required placeholder="tk_…" autofocus></label>
  <button class="primary">Log in</button>
</form>`;

function shell(now) {
  const theme = document.documentElement.dataset.theme;
  const here = now.route.name === "job" ? "jobs" : now.route.name;
  return html`
    <a class="skip" href="#main" @click=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>To the content</a>
    <header>
      <a class="brand" href="#/jobs"><img src="/assets/icon.svg" alt="" width="24" height="24"> transcoder</a>
      <nav aria-label="Main">
        ${NAVIGATION.map(([name, title]) => html`<a href="#/${name}" aria-current=${here === name ? "page" : nothing}>${title}</a>`)}
        <a href="/docs">API</a>
      </nav>
      <div class="tools">
        ${now.live === null
          ? nothing
          : html`<span class="live ${now.live ? "on" : ""}" title=${now.live ? "connected: what happens is shown at once" : "not connected"}>
              ${now.live ? "live" : "offline"}</span>`}
        <button class="plain" @click=${() => setTheme(THEMES[theme])} aria-label="Colours: ${theme}" title="Colours: ${theme}">
          ${{ auto: "◐", light: "☀", dark: "☾" }[theme]}</button>
        ${now.key ? html`<button class="plain" @click=${logout}>Log out</button>` : nothing}
      </div>
    </header>
    ${now.notice
      ? html`<div class="notice ${now.notice.kind}"><span>${now.notice.text}</span>
          <button class="plain" aria-label="Close" @click=${() => update((s) => (s.notice = null))}>×</button></div>`
      : nothing}
    <main id="main" tabindex="-1">${now.needsKey ? loginView() : VIEWS[now.route.name].view(now)}</main>
  `;
}

document.documentElement.dataset.theme = localStorage.getItem("transcoder.theme") ?? "auto";
addEventListener("hashchange", enter);
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.code !== "unauthorized" && event.reason?.name !== "AbortError") say(event.reason?.message ?? "something went wrong", "failure");
});
drawWith(shell);
enter();
setTimeout(() => performance.mark("usable"), 0);
