// What needs somebody: as the server says, or, where it says nothing, as this page sees it.

import { getIfThere } from "./api.js";
import { badge, empty, h, show, table } from "./dom.js";
import * as model from "./model.js";
import * as stream from "./stream.js";
import { moment } from "./time.js";
import { why } from "./timeline.js";

const MOST = 200;
/** So many changes of leader within this time are flapping. */
const FLAPS = 3;
const WHILE = 10 * 60_000;
const ASK_EVERY = 5_000;

let told = null;
let asked = -Infinity;

/** Asks the server, now and then. */
export async function look(now = false) {
  if (!now && performance.now() - asked < ASK_EVERY) return;
  asked = performance.now();
  let answer;
  try {
    answer = await getIfThere("/v1/alerts");
  } catch {
    // What was wrong a moment ago is not well because nobody answers.
    return;
  }
  told = Array.isArray(answer) ? answer : answer?.alerts ?? null;
  model.changed();
}

/** Elections without a leader, and those whose leader changes too often. */
function seen() {
  const alerts = [];
  for (const row of model.rows.values()) {
    if (model.standing(row).kind === "bad") {
      alerts.push({ alert: "no leader", severity: "alert", election: row.election, since: row.leaderless_since ?? row.departure?.at, what: row.departure ? `${row.departure.agent} ended by ${why(row.departure.cause)}` : "the lease ran out" });
    }
  }
  const counts = new Map();
  const since = Date.now() - WHILE;
  for (const change of model.recent) if (Date.parse(change.at) >= since) counts.set(change.election, (counts.get(change.election) ?? 0) + 1);
  for (const [election, count] of counts) {
    if (count >= FLAPS) alerts.push({ alert: "flapping", severity: "warning", election, what: `${count} changes of leader in ten minutes` });
  }
  return alerts.sort((one, other) => (one.election < other.election ? -1 : 1));
}

/** What is known to be wrong. */
export function alerts() {
  return told ?? seen();
}

/** Shows it. */
export function mount(place) {
  const list = h("div", {});
  place.replaceChildren(h("h1", {}, "Alerts"), list);
  stream.watch([]);
  look(true);
  function update() {
    const all = alerts();
    show(list, all, () => all.length === 0 ? empty("Nothing is wrong", "Elections without a leader, and leaders that change too often, stand here.") : [
      table("Alerts", ["Severity", "Alert", "Election", "Since", "What", "Runbook"], all.slice(0, MOST).map((one) => [
        badge(String(one.severity ?? "warning"), one.severity === "alert" ? "bad" : "wait"),
        h("span", { class: "strong" }, String(one.alert).replaceAll("-", " ")),
        one.election ? h("a", { href: `#/election/${encodeURIComponent(one.election)}` }, one.election) : "–",
        one.since ? moment(one.since) : "–",
        h("span", { class: "reason" }, [one.what, one.hint].filter(Boolean).join("; ")),
        one.runbook ? h("code", {}, one.runbook) : "",
      ])),
      all.length > MOST && h("p", { class: "quiet" }, `and ${all.length - MOST} more`)]);
  }
  update();
  return { update, tick: () => look() };
}
