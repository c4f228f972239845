// A receipt: the way that a result came about, and what was measured of it.
import { html, nothing } from "./vendor/lit-html/lit-html.js";
import * as format from "./format.js";

const PLACES = { hardware: "on the GPU", software: "on the CPU" };

const milliseconds = (seconds) => `${Math.round(seconds * 1000)} ms`;
const bitrate = (count) => (count ? `${format.bytes(count).replace("B", "bit")}/s` : "–");
const number = (value) => (typeof value === "number" ? Number(value.toPrecision(4)) : value);

function frames(track) {
  const other = [[track.frames_dropped, "dropped"], [track.frames_duplicated, "repeated"]].filter(([count]) => count);
  return [track.frames_out, ...other.map(([count, word]) => `${count} ${word}`)].join(", ");
}

const quality = (track) => (track.quality ?? []).map((score) => `${score.metric.toUpperCase()} ${number(score.mean)} (worst ${number(score.worst)})`).join(", ");

const trackRow = (output, track) => html`<tr><td>${output.name}</td><td>${track.kind}</td><td>${track.encoder ?? `${track.codec}, copied`}</td>
  <td class="number">${frames(track)}</td><td class="number">${bitrate(track.bit_rate)}</td><td>${quality(track) || "–"}</td></tr>`;

const skew = (output) => output.skew
  ? html`<p>${output.name}: picture and sound are ${milliseconds(output.skew.start_seconds)} apart at the start and ${milliseconds(output.skew.end_seconds)} at the end, against the source.</p>`
  : nothing;

const stepRow = (step) => html`<tr><td>${step.stage}</td><td>${step.output ?? "–"}</td><td>${step.by}</td>
  <td>${PLACES[step.placement]} (${step.device})</td><td>${step.reason ?? ""}</td></tr>`;

function table(label, heads, rows) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${heads.map((head) => html`<th>${head}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

function costs({ wall_seconds: wall, cpu_seconds: cpu }) {
  const stages = Object.entries(wall).map(([stage, seconds]) => `${stage} ${seconds.toFixed(1)} s`);
  return [...stages, cpu === null ? "" : `${cpu.toFixed(1)} s of CPU`].filter(Boolean).join(" · ");
}

export function receiptShown(receipt) {
  const tracks = receipt.outputs.flatMap((output) => output.tracks.map((track) => trackRow(output, track)));
  return html`<h3>What was measured</h3>
    ${table("Tracks", ["output", "track", "by", "frames", "bitrate", "quality"], tracks)}
    ${receipt.outputs.map(skew)}
    <h3>The way taken</h3>
    ${table("Stages", ["stage", "output", "by", "where", "why"], receipt.steps.map(stepRow))}
    <p class="facts">${costs(receipt.costs)}</p>
    ${receipt.command ? html`<h3>An equivalent command</h3><pre class="command">${receipt.command.text}</pre>` : nothing}`;
}
