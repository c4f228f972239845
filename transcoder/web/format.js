// Values as people read them.
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  let value = count;
  while (value >= 1000 && step < units.length - 1) [value, step] = [value / 1000, step + 1];
  return `${step && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  return minutes ? `${minutes} min ${String(rest).padStart(2, "0")} s` : `${rest} s`;
}

export const percent = (share) => (share === null || share === undefined ? "" : `${Math.round(share * 100)} %`);

// made once: making one is slow, and lists show thousands of times
const TIME = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const TIME_OF_DAY = new Intl.DateTimeFormat([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const clock = (text) => (text ? CLOCK.format(new Date(text)) : "–");

export function moment(text) {
  if (!text) return "–";
  const time = new Date(text);
  const today = time.toDateString() === new Date().toDateString();
  return (today ? TIME : TIME_OF_DAY).format(time);
}

export function between(start, end) {
  return start ? ((end ? new Date(end) : new Date()) - new Date(start)) / 1000 : null;
}

/** A stream's figures have no speed: it runs in real time. */
export const rate = (stats) =>
  [stats?.fps === undefined ? "" : `${Math.round(stats.fps)} fps`, stats?.speed ? `${stats.speed.toFixed(1)}×` : ""].filter(Boolean).join(" · ");

/** Without what may be secret in an address. */
export function sourceName(job) {
  const { upload, path, url } = job.spec.input;
  if (job.metadata?.file) return String(job.metadata.file);
  if (path) return path.split("/").pop();
  if (url) return url.split(/[?#]/)[0].split("/").filter(Boolean).pop() ?? url;
  return upload ? `upload ${upload.slice(-8)}` : job.kind;
}

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
