// What is known of all elections, and when each lease ends by this browser's own clock.

import { get } from "./api.js";

/** The most elections that are kept here. Beyond it the page says so, and `baton status` shows the rest. */
export const MOST = 50_000;
const PART = 1_000;
/** The most changes that the list of recent ones keeps. */
const RECENT = 200;

/** By name. */
export const rows = new Map();
/** The newest first. */
export const recent = [];

const listeners = new Set();
let scheduled = false;
let complete = false;
let counted = 0;

/** Has a view told after changes, many at once. Returns what ends it. */
export function listen(tell) {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

/** Tells every view, soon and once. */
export function changed() {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => {
    scheduled = false;
    for (const tell of [...listeners]) tell();
  }, 30);
}

/** Whether all elections were told, and whether there are more than are kept. */
export function known() {
  return { complete, more: rows.size >= MOST };
}

function put(row) {
  if (!rows.has(row.election) && rows.size >= MOST) return;
  row.until = performance.now() + row.lease_ms;
  row.heard = ++counted;
  rows.set(row.election, row);
}

/** Takes in an election as the stream has it. Returns its change of leader, if it is one that was not known. */
export function take(row) {
  const before = rows.get(row.election);
  if (row.forgotten) {
    rows.delete(row.election);
    return null;
  }
  put(row);
  const last = row.last_transition;
  if (before && before.last_transition?.epoch === last?.epoch) {
    row.participation ??= before.participation;
    row.in_line ??= before.in_line;
    if (row.leader) row.leader.suspicion ??= before.leader?.suspicion;
  }
  if (!last || before?.last_transition?.epoch === last.epoch || !complete) return null;
  const change = { election: row.election, ...last };
  recent.unshift(change);
  recent.length = Math.min(recent.length, RECENT);
  return change;
}

/** Takes in how long a lease lasts, after renewals, which change nothing else. */
export function renew(election, token, leaseMs) {
  const row = rows.get(election);
  if ((row?.leader ?? row?.outgoing)?.token === token) row.until = performance.now() + leaseMs;
}

/** Takes in who knows of a leader, how many wait for its place, and whether it is suspected: it changes without the election. */
export function attend({ election, participation, in_line: inLine, suspicion }) {
  const row = rows.get(election);
  if (!row) return;
  row.participation = participation;
  row.in_line = inLine;
  if (row.leader) row.leader.suspicion = suspicion;
}

/** Reads all elections, part by part. What the stream told meanwhile is newer, and stays. */
export async function load() {
  const before = counted;
  const found = new Set();
  let after = "";
  for (;;) {
    const part = await get(`/v1/overview?limit=${PART}${after && `&after=${encodeURIComponent(after)}`}`);
    for (const row of part) {
      found.add(row.election);
      if ((rows.get(row.election)?.heard ?? 0) <= before) put(row);
    }
    changed();
    if (part.length < PART || rows.size >= MOST) break;
    after = part[part.length - 1].election;
  }
  for (const [election, row] of rows) if (!found.has(election) && row.heard <= before) rows.delete(election);
  complete = true;
  changed();
}

/** How much longer the lease lasts; none is zero. */
export function remaining(row) {
  return Math.max(0, row.until - performance.now());
}

/** What an election is doing, as people see it: a lease that has run out leaves a document that names its holder. */
export function standing(row) {
  if (row.trouble) return { word: "unreadable", kind: "bad" };
  if (row.state === "paused") return { word: "paused", kind: "wait" };
  if (row.state === "awaiting-approval") return { word: "awaiting approval", kind: "wait" };
  if (row.finished) return { word: "done", kind: "calm" };
  if (!row.leader) return row.last_transition ? { word: "no leader", kind: "bad" } : { word: "vacant", kind: "calm" };
  if (remaining(row) <= 0) return { word: "no leader", kind: "bad" };
  if (row.leader.offered) return { word: "offered", kind: "wait" };
  return { word: "led", kind: "good" };
}

/** Who leads, as people see it: nobody whose lease has run out. */
export function leads(row) {
  return ["led", "offered", "awaiting approval"].includes(standing(row).word) ? row.leader : null;
}

/** How far the leader is. While its token is refused, as before an approval, it is nowhere. */
export function phase(row) {
  return standing(row).word === "led" ? row.leader.phase : "";
}

/** What somebody leads while everything is paused: more operators must sign its pause. */
export function except() {
  const led = [...rows.values()].filter((row) => row.state !== "paused" && row.leader && remaining(row) > 0);
  if (led.length === 0) return "";
  return led.length === 1 ? `, but not ${led[0].election}` : `, but not ${led.length} elections`;
}

/** Those that wait for a person. */
export function questions() {
  return [...rows.values()].filter((row) => row.question).sort(byName);
}

export function byName(one, other) {
  return one.election < other.election ? -1 : one.election > other.election ? 1 : 0;
}
