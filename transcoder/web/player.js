// Playing a result: files by the browser itself, playlists by hls.js (or the browser, where it can).
import { keyHeaders } from "./api.js";

let current = null;
let hls = null;

/** What the <video> is given. lit sets it as a property on each drawing, so only a new one does something. */
export function attach(playing) {
  if (playing === current) return playing;
  current = playing;
  hls?.destroy();
  hls = null;
  // the element may be drawn only after this returns
  setTimeout(() => begin(playing), 0);
  return playing;
}

async function begin(playing) {
  const video = document.querySelector("video");
  if (!video || playing !== current) return;
  const choice = document.getElementById("quality");
  choice.replaceChildren();
  if (!playing.playlist) {
    video.src = playing.address;
    return;
  }
  const { default: Hls } = await import("./vendor/hls.min.js");
  if (playing !== current) return;
  if (!Hls.isSupported()) {
    video.src = playing.address;
    return;
  }
  hls = new Hls({
    // a worker made of a blob is against the page's security policy
    enableWorker: false,
    xhrSetup: (request) => Object.entries(keyHeaders()).forEach(([name, value]) => request.setRequestHeader(name, value)),
  });
  hls.on(Hls.Events.MANIFEST_PARSED, () => offerQualities(hls, choice));
  hls.loadSource(playing.address);
  hls.attachMedia(video);
}

function offerQualities(player, place) {
  if (player.levels.length < 2) return;
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Quality");
  select.append(new Option("auto", "-1"), ...player.levels.map((level, index) => new Option(`${level.height}p`, String(index))));
  select.onchange = () => (player.currentLevel = Number(select.value));
  place.replaceChildren(select);
}
