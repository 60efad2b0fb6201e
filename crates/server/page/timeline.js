// Who led when, and why it changed: a drawing, and the same in a table.

import { empty, h, svg, table } from "./dom.js";
import * as model from "./model.js";
import { ago, measured, moment, span } from "./time.js";

const ROW = 22;
const TOP = 20;
/** The most agents, or elections, that have a line of their own. */
const LINES = 12;
/** The most leaderships that are drawn. */
const DRAWN = 200;
/** What two marks below a drawing may be apart, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000];

/** How wide a drawing is: as wide as there is room, so that nothing of it is cut or shrunk. */
export function width() {
  return Math.max(320, Math.min(1320, document.documentElement.clientWidth - (document.documentElement.clientWidth <= 720 ? 58 : 66)));
}

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
    const runs = !next && Boolean(model.leads(row));
    const over = Date.parse(row.departure?.at ?? row.leaderless_since ?? new Date(now).toISOString());
    const until = next ? next.from_ms - took : runs ? now : over;
    return { ...entry, until_ms: Math.max(entry.from_ms, until), runs };
  });
}

/** The marks below a drawing: whole steps before now, each said once. */
function marks(begin, now, most) {
  const length = Math.max(1, now - begin);
  const step = 1000 * (STEPS.find((seconds) => length / (seconds * 1000) <= most) ?? Math.ceil(length / most / 1000));
  const all = [];
  for (let back = 0; back <= length; back += step) all.push({ ms: now - back, word: back === 0 ? "now" : `${span(back)} ago` });
  return all;
}

/** Lines of leaderships: of each, its name, and which of them are drawn there. */
function drawing(label, lines, begin, now) {
  const wide = width();
  const left = wide < 600 ? 96 : 150;
  const letters = Math.floor(left / 7.6);
  const x = (ms) => left + ((Math.max(begin, ms) - begin) / Math.max(1, now - begin)) * (wide - left - 8);
  const height = TOP + lines.length * ROW + 22;
  const below = marks(begin, now, wide < 600 ? 2 : 6);
  return svg("svg", { class: "timeline", width: wide, height, viewBox: `0 0 ${wide} ${height}`, role: "img", "aria-label": label },
    below.map(({ ms }) => svg("line", { class: "grid", x1: x(ms), x2: x(ms), y1: TOP - 6, y2: height - 20 })),
    below.map(({ ms, word }) => svg("text", { class: "mark", x: x(ms), y: height - 6, "text-anchor": x(ms) > wide - 40 ? "end" : x(ms) < left + 40 ? "start" : "middle" }, word)),
    lines.map(({ name }, place) => svg("text", { class: "agent", x: 0, y: TOP + place * ROW + 13 }, name.length > letters ? `${name.slice(0, letters - 1)}…` : name)),
    lines.map(({ all, inside }, place) => all.filter((one) => one.until_ms >= begin).map((one) => {
      const y = TOP + place * ROW;
      const long = Math.max(2, x(one.until_ms) - x(one.from_ms));
      const word = inside?.(one) ?? "";
      return svg("g", {},
        svg("title", {}, `${one.to}, epoch ${one.epoch}: from ${moment(one.at)} for ${span(one.until_ms - one.from_ms)}; began by ${why(one.cause)}${one.reason ? `: ${one.reason}` : ""}`),
        svg("rect", { class: one.runs ? "led runs" : "led", x: x(one.from_ms), y: y + 3, width: long, height: ROW - 8, rx: 2 }),
        word && long > word.length * 7 + 8 && svg("text", { class: one.runs ? "inside runs" : "inside", x: x(one.from_ms) + 5, y: y + 14 }, word),
        one.from_ms >= begin && svg("line", { class: `cause ${kind(one.cause)}`, x1: x(one.from_ms), x2: x(one.from_ms), y1: y, y2: y + ROW - 2 }));
    })));
}

/** What the colours of the marks mean. */
function legend() {
  return h("p", { class: "legend quiet small" }, [["failover", "fail-over or take-over"], ["human", "by a person"], ["voluntary", "first, released or passed on"]]
    .map(([one, words]) => h("span", {}, h("i", { class: `swatch ${one}` }), words)));
}

function framed(...children) {
  return h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "Timeline" }, ...children);
}

/** That a leadership was ended and nobody has taken its place: the history tells of it only with the next leader. */
function ended(row) {
  const { departure } = row;
  if (model.leads(row) || !departure) return [];
  return [["", "nobody", `after ${departure.agent}`, why(departure.cause), h("span", { class: "reason" }, departure.reason),
    h("span", { title: moment(departure.at) }, `${moment(departure.at)}, ${ago(departure.at)}`), "", ""]];
}

function rowsOf(all, row) {
  return [...ended(row), ...[...all].reverse().map((one) => [
    h("span", { class: "number" }, one.epoch),
    h("span", { class: "strong" }, one.to),
    one.from && one.from !== one.to ? `after ${one.from}` : one.from ? "goes on" : "",
    why(one.cause),
    h("span", { class: "reason" }, one.reason),
    h("span", { title: moment(one.at) }, `${moment(one.at)}, ${ago(one.at)}`),
    one.runs ? "leads" : span(one.until_ms - one.from_ms),
    h("span", { class: "took" }, phases(one).map(([name, ms]) => `${name} ${measured(ms)}`).join(", ")),
  ])];
}

/** By whom it was led, each agent on a line of its own, whoever led last first. */
function byAgent(all) {
  const agents = [...new Set(all.map((one) => one.to).reverse())].slice(0, LINES);
  return agents.map((agent) => ({ name: agent, all: all.filter((one) => one.to === agent) }));
}

/** The history of an election, the oldest first as it came. */
export function timeline(history, row) {
  if (!history.length) return empty("Nobody has led yet", "The first change of leader will stand here.");
  const now = Math.max(Date.now(), Date.parse(history[history.length - 1].at));
  const all = leaderships(history, row, now);
  const label = `Who led when, from ${moment(all[0].at)} until now. The table below says the same.`;
  return [framed(drawing(label, byAgent(all), all[0].from_ms, now)), legend(),
    table("Changes of leader", ["Epoch", "Leader", "After", "Cause", "Reason", "When", "For", "Took"], rowsOf(all, row))];
}

/** The histories of several elections, each on a line of its own; `since` is how far back they are drawn, 0 for all of it. */
export function timelines(told, since) {
  const now = Date.now();
  const lines = told.filter(({ history }) => history.length).slice(0, LINES)
    .map(({ row, history }) => ({ name: row.election, row, all: leaderships(history, row, now), inside: (one) => one.to }));
  if (!lines.length) return empty("Nobody has led yet", "The first change of leader will stand here.");
  const begin = since ? now - since : Math.min(...lines.map(({ all }) => all[0].from_ms));
  const rows = lines.flatMap(({ name, all }) => all.filter((one) => one.until_ms >= begin).map((one) => ({ name, ...one })))
    .sort((one, other) => other.from_ms - one.from_ms).slice(0, DRAWN);
  return [framed(drawing(`Who led which election when, from ${moment(new Date(begin))} until now. The table below says the same.`, lines, begin, now)), legend(),
    table("Leaderships", ["Election", "Leader", "Cause", "Reason", "When", "For"], rows.map((one) => [
      h("a", { href: `#/election/${encodeURIComponent(one.name)}`, "data-key": `led ${one.name} ${one.epoch}` }, one.name), h("span", { class: "strong" }, one.to), why(one.cause), h("span", { class: "reason" }, one.reason),
      h("span", { title: moment(one.at) }, `${moment(one.at)}, ${ago(one.at)}`), one.runs ? "leads" : span(one.until_ms - one.from_ms)]))];
}
