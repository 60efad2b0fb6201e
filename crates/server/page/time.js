// Spans and moments, in words.

/** A span, short: `12 s`, `3 min`, `2 h 5 min`. */
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A span as it was measured: `3 ms`, `1.4 s`. */
export function measured(ms) {
  if (ms < 1000) return `${ms} ms`;
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms);
}

/** What is left of a lease: tenths of a second near its end. */
export function left(ms) {
  if (ms <= 0) return "0 s";
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms);
}

const SAME_DAY = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const OTHER_DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** A wall-clock time as the server wrote it, in the reader's own zone. */
export function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return "?";
  return (at.toDateString() === new Date().toDateString() ? SAME_DAY : OTHER_DAY).format(at);
}

/** How long ago that was, by this machine's wall clock: for people only. */
export function ago(text) {
  const ms = Date.now() - new Date(text).getTime();
  return Number.isNaN(ms) ? "?" : ms < 1000 ? "just now" : `${span(ms)} ago`;
}
