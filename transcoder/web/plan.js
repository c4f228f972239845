// A plan in words: where each step runs, and why.
import { html, nothing } from "./vendor/lit-html/lit-html.js";
import * as format from "./format.js";

const PLACES = { hardware: "on the GPU", software: "on the CPU" };

/** The steps of a plan as [step, codec or size, place, reason]. */
export function steps(plan) {
  const decode = plan.decode.map((track) => [`decode ${track.kind}`, track.decoder, track.placement, track.reason]);
  const rest = plan.outputs.flatMap((output) => output.renditions.flatMap((track) => rendition(output, track)));
  return [...decode, ...rest];
}

function rendition(output, track) {
  if (track.kind === "copy") return [[`copy ${track.media}`, track.codec, null, track.reason]];
  if (track.kind !== "video") return [[`encode ${track.kind}`, track.encoder, track.placement ?? "software", track.reason]];
  const what = `${track.encoder}, ${track.width}×${track.height}`;
  const scaled = track.filters.length ? [["filter", track.filters.map((filter) => filter.kind ?? filter.name).join(", "), track.filter_placement, ""]] : [];
  return [...scaled, ["encode video", what, track.placement, track.reason]];
}

/** One sentence about where the pictures go. */
export function summary(plan) {
  const video = plan.outputs.flatMap((output) => output.renditions).filter((track) => track.kind === "video");
  if (!video.length) return plan.outputs.some((output) => output.renditions.some((track) => track.kind === "copy" && track.media === "video"))
    ? "Pictures are copied as they are: quick, and nothing is lost."
    : "Sound only.";
  const decode = plan.decode.find((track) => track.kind === "video");
  const placed = { decode: decode?.placement, scale: video[0].filter_placement, encode: video[0].placement };
  const on = (place) => Object.keys(placed).filter((step) => placed[step] === place);
  const parts = ["hardware", "software"].filter((place) => on(place).length).map((place) => `${list(on(place))} ${PLACES[place]}`);
  return `Runs on ${plan.device}: ${parts.join(", ")}.`;
}

const list = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]);

function estimate(plan) {
  const told = plan.estimate;
  if (!told) return plan.duration_seconds ? `${format.duration(plan.duration_seconds)} of media` : "";
  const facts = [
    told.speed ? `about ${told.speed.toFixed(1)} × real time` : "",
    told.seconds ? `about ${format.duration(told.seconds)} of work` : "",
    told.size_bytes ? `about ${format.bytes(told.size_bytes)}` : "",
  ];
  return facts.filter(Boolean).join(" · ");
}

export function explained(plan) {
  return html`<div class="plan">
    <p><b>${summary(plan)}</b> ${estimate(plan)}</p>
    <details>
      <summary>Each step and its reason</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="Steps of the plan"><table>
        <thead><tr><th>step</th><th>by</th><th>where</th><th>why</th></tr></thead>
        <tbody>${steps(plan).map(([step, by, place, why]) => html`<tr><td>${step}</td><td>${by}</td><td>${PLACES[place] ?? "–"}</td><td>${why}</td></tr>`)}</tbody>
      </table></div>
    </details>
    ${plan.estimate?.because?.length
      ? html`<details><summary>How the estimate came about</summary><ul>${plan.estimate.because.map((each) => html`<li>${each}</li>`)}</ul></details>`
      : nothing}
    ${plan.refusals?.length
      ? html`<details><summary>${format.plural(plan.refusals.length, "way")} considered and not taken</summary>
          <ul>${plan.refusals.map((each) => html`<li><b>${each.option}</b> (${each.device}): ${each.reason}</li>`)}</ul></details>`
      : nothing}
    ${plan.warnings.map((warning) => html`<p class="warning">${warning.message}</p>`)}
  </div>`;
}
