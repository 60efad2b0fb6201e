// Who led when, and why it changed: a drawing, and the same in a table.

import { empty, h, svg, table } from "./dom.js";
import { ago, measured, moment, span } from "./time.js";

const WIDTH = 960;
const ROW = 22;
const LEFT = 130;
const TOP = 20;
/** The most agents that have a line of their own. */
const LINES = 12;
/** The most leaderships that are drawn. */
const DRAWN = 200;

/** In what way a leadership changed hands, by why the former one ended. */
export function kind(cause) {
  if (cause === "first" || cause === "failover") return cause;
  if (cause === "release" || cause === "pass") return "voluntary";
  if (["depose", "appoint", "pause", "approval"].includes(cause)) return "human";
  return "takeover";
}

/** A cause with its kind, where that says more. */
export function why(cause) {
  return kind(cause) === cause ? cause : `${kind(cause)}: ${cause}`;
}

function phases(entry) {
  return ["detection", "election", "promotion", "synchronisation", "notification"]
    .map((name) => [name, entry.phases?.[`${name}_ms`]]).filter(([, ms]) => ms !== undefined && ms !== null);
}

/** Leaderships with their beginnings and ends, as far as the history tells: the end of one is the next one's beginning, without what that took. */
function leaderships(history, row, now) {
  const entries = history.slice(-DRAWN).map((entry) => ({ ...entry, from_ms: Date.parse(entry.at) }));
  return entries.map((entry, place) => {
    const next = entries[place + 1];
    const took = next ? (next.phases?.detection_ms ?? 0) + (next.phases?.election_ms ?? 0) : 0;
    const departed = row.departure ? Date.parse(row.departure.at) : now;
    const until = next ? Math.max(entry.from_ms, next.from_ms - took) : row.leader ? now : Math.max(entry.from_ms, departed);
    return { ...entry, until_ms: until, runs: !next && Boolean(row.leader) };
  });
}

function drawing(all, now) {
  const agents = [...new Set(all.map((one) => one.to).reverse())].slice(0, LINES);
  const begin = all[0].from_ms;
  const length = Math.max(1, now - begin);
  const x = (ms) => LEFT + ((ms - begin) / length) * (WIDTH - LEFT - 8);
  const height = TOP + agents.length * ROW + 22;
  const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => begin + share * length);
  return svg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Who led when, from ${moment(all[0].at)} until now. The table below says the same.` },
    marks.map((ms) => svg("line", { class: "grid", x1: x(ms), x2: x(ms), y1: TOP - 6, y2: height - 20 })),
    marks.map((ms, place) => svg("text", { class: "mark", x: x(ms), y: height - 6, "text-anchor": place === 0 ? "start" : place === 4 ? "end" : "middle" }, place === 4 ? "now" : `${span(now - ms)} ago`)),
    agents.map((agent, place) => svg("text", { class: "agent", x: 0, y: TOP + place * ROW + 13 }, agent.length > 18 ? `${agent.slice(0, 17)}…` : agent)),
    all.filter((one) => agents.includes(one.to)).map((one) => {
      const y = TOP + agents.indexOf(one.to) * ROW;
      const width = Math.max(2, x(one.until_ms) - x(one.from_ms));
      return svg("g", {},
        svg("title", {}, `${one.to}, epoch ${one.epoch}: from ${moment(one.at)} for ${span(one.until_ms - one.from_ms)}; began by ${why(one.cause)}`),
        svg("rect", { class: one.runs ? "led runs" : "led", x: x(one.from_ms), y: y + 3, width, height: ROW - 8, rx: 2 }),
        svg("line", { class: `cause ${kind(one.cause)}`, x1: x(one.from_ms), x2: x(one.from_ms), y1: y, y2: y + ROW - 2 }));
    }));
}

/** That a leadership was ended and nobody has taken its place: the history tells of it only with the next leader. */
function ended({ leader, departure }) {
  if (leader || !departure) return [];
  return [["", "nobody", `after ${departure.agent}`, why(departure.cause), h("span", { title: moment(departure.at) }, `${moment(departure.at)}, ${ago(departure.at)}`), "", "",
    h("span", { class: "reason" }, departure.reason)]];
}

function rowsOf(all, row) {
  return [...ended(row), ...[...all].reverse().map((one) => [
    h("span", { class: "number" }, one.epoch),
    h("span", { class: "strong" }, one.to),
    one.from && one.from !== one.to ? `after ${one.from}` : one.from ? "goes on" : "",
    why(one.cause),
    h("span", { title: moment(one.at) }, `${moment(one.at)}, ${ago(one.at)}`),
    one.runs ? "leads" : span(one.until_ms - one.from_ms),
    phases(one).map(([name, ms]) => `${name} ${measured(ms)}`).join(", "),
    h("span", { class: "reason" }, one.reason),
  ])];
}

/** The history of an election, the oldest first as it came. */
export function timeline(history, row) {
  if (!history.length) return empty("Nobody has led yet", "The first change of leader will stand here.");
  const now = Math.max(Date.now(), Date.parse(history[history.length - 1].at));
  const all = leaderships(history, row, now);
  return [h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "Timeline" }, drawing(all, now)), table("Changes of leader", ["Epoch", "Leader", "", "Cause", "When", "For", "Took", "Reason"], rowsOf(all, row))];
}
