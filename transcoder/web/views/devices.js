// Devices: slots, load over time, what each can do; slots and draining.
import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { call, get } from "../api.js";
import * as format from "../format.js";
import { badge, empty, slots, sparkline } from "../parts.js";
import { say, state, update } from "../state.js";

const LOOK_SECONDS = 2;
const KEPT = 90;

export async function enter(parts, signal) {
  while (!signal.aborted) {
    await look();
    await new Promise((resolve) => setTimeout(resolve, LOOK_SECONDS * 1000));
  }
}

async function look() {
  try {
    const { items } = await get("/v1/devices");
    update((now) => {
      now.devices.items = items;
      now.live = true;
      for (const device of items) for (const [name, share] of measured(device)) keep(now.devices.history, `${device.id} ${name}`, share);
    });
  } catch {
    update((now) => (now.live = false));
  }
}

/** Shares of busy slots and, for a GPU whose load is known, of its engines. */
const measured = (device) => [["slots", device.slots ? Math.min(1, device.busy / device.slots) : 0], ...Object.entries(device.load?.engines ?? {})];

function keep(history, name, value) {
  history.set(name, [...(history.get(name) ?? []), value].slice(-KEPT));
}

async function change(device, values) {
  try {
    await call("PATCH", `/v1/devices/${encodeURIComponent(device.id)}`, values);
    await look();
  } catch (error) {
    say(error.message, "failure");
  }
}

async function measure(device) {
  try {
    await call("POST", `/v1/devices/${encodeURIComponent(device.id)}/measure`);
    await look();
  } catch (error) {
    say(error.message, "failure");
  }
}

function controls(device) {
  const draining = device.state === "draining";
  const steps = [["−", device.slots - 1], ["+", device.slots + 1]];
  return html`<div class="row">
    <span class="stepper" role="group" aria-label="Slots of ${device.name}">
      ${steps.map(([sign, slots]) => html`<button class="small" ?disabled=${slots < 0} aria-label="${sign === "+" ? "More" : "Fewer"} slots on ${device.name}" @click=${() => change(device, { slots })}>${sign}</button>`)}
    </span>
    <button class="small" @click=${() => change(device, { draining: !draining })}>${draining ? "Take work again" : "Drain"}</button>
    ${device.kind === "software" ? nothing : html`<button class="small" @click=${() => measure(device)}>Measure anew</button>`}
  </div>`;
}

function charts(device) {
  return html`<div class="charts">${measured(device).map(([name, share]) => {
    const values = state.devices.history.get(`${device.id} ${name}`) ?? [];
    const label = `${name} ${format.percent(share)}`;
    return html`<figure>${sparkline(values, `${name} over time, now ${format.percent(share)}`)}<figcaption>${label}</figcaption></figure>`;
  })}</div>`;
}

const limits = ({ min_size, max_size }) => [min_size && `from ${min_size.join("×")}`, max_size && `to ${max_size.join("×")}`].filter(Boolean).join(" ") || "–";

const capabilityRow = (each) => html`<tr>
  <td>${each.direction}</td><td>${each.codec}</td><td>${each.encoder ?? "–"}</td><td class="number">${each.bit_depth}</td>
  <td>${each.rate_controls.join(", ") || "–"}</td><td>${limits(each)}</td></tr>`;

function capabilities(device) {
  if (!device.capabilities.length) return nothing;
  return html`<details><summary>${format.plural(device.capabilities.length, "capability").replace("capabilitys", "capabilities")}</summary>
    <div class="scroll" tabindex="0" role="region" aria-label="Capabilities of ${device.name}"><table>
      <thead><tr><th></th><th>codec</th><th>encoder</th><th>bits</th><th>rate control</th><th>sizes</th></tr></thead>
      <tbody>${device.capabilities.map(capabilityRow)}</tbody>
    </table></div></details>`;
}

const facts = (device) => [device.id, device.kind === "software" ? null : device.kind, device.path, device.driver, device.generation].filter(Boolean).join(" · ");

const card = (device) => html`<section class="card" aria-labelledby="device-${device.id}">
  <div class="row spread"><h2 id="device-${device.id}">${device.name}</h2>${badge(device.state)}</div>
  <p class="facts">${facts(device)}</p>
  ${device.problem ? html`<p class="failure">${device.problem}</p>` : nothing}
  ${(device.notes ?? []).map((note) => html`<p class="warning">${note}</p>`)}
  ${slots(device)}
  <p class="facts">${device.busy} of ${format.plural(device.slots, "slot")} busy${device.load?.memory_bytes ? ` · ${format.bytes(device.load.memory_bytes)} of GPU memory` : ""}</p>
  ${charts(device)} ${controls(device)} ${capabilities(device)}
</section>`;

export const view = (now) => html`<h1>Devices</h1>
  ${now.devices.items ? html`<div class="grid">${now.devices.items.map(card)}</div>` : empty("Loading…")}`;
