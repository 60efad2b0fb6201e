// What operators did: the book of the store, the last act of each election, and the whole book of one.

import { getIfThere, of } from "./api.js";
import { empty, h, show, table } from "./dom.js";
import * as model from "./model.js";
import * as sign from "./sign.js";
import * as stream from "./stream.js";
import { moment } from "./time.js";

const MOST = 200;
/** Orders on the store as a whole, in words. */
const ORDERS = { pause: "pause everything", resume: "resume everything", operators: "operators", quorum: "quorum" };
let there = null;

/** Whether the server has an audit log that is shown here. */
export async function isThere() {
  if (there === null) there = (await getIfThere("/v1/audit?limit=1").catch(() => null)) !== null;
  return there;
}

/** What was ordered, and by whom: an act on an election, or an order on the store. */
function told(entry) {
  const [kind, signed] = Object.entries(entry.ordered)[0];
  const order = signed.order ?? {};
  const act = kind === "act" ? order.act : { act: ORDERS[order.change?.change] ?? kind, reason: order.change?.reason };
  const words = [act.agent, act.reason ?? act.text, order.break_glass && `break-glass: ${order.break_glass}`, entry.ended && `ended ${entry.ended}`];
  const signers = [signed, ...(entry.with ?? [])].map((one) => sign.person(one.via?.by ?? one.by) + (one.via ? " (browser)" : ""));
  return { name: act.act, words: words.filter((word) => typeof word === "string" && word).join("; "), by: signers.join(", ") };
}

/** A book of acts, the newest first. */
export function book(entries) {
  if (!entries.length) return empty("Nothing yet", "Every act of an operator is kept here, and `baton audit verify` tells whether one was changed.");
  return table("Acts of operators", ["Number", "When", "Act", "By", "What", "Hash"], [...entries].sort((one, other) => other.number - one.number).slice(0, MOST).map((entry) => {
    const { name, words, by } = told(entry);
    return [entry.number, moment(entry.at), h("span", { class: "strong" }, name), h("code", {}, by), h("span", { class: "reason" }, words), h("code", {}, entry.hash.slice(0, 12))];
  }));
}

/** The book of one election; null if the server keeps none. */
export async function bookOf(election) {
  const entries = await getIfThere(`${of(election)}/audit?limit=${MOST}`).catch(() => null);
  return Array.isArray(entries) ? entries : null;
}

function lastActs() {
  const acts = [...model.rows.values()].filter((row) => row.last_act);
  return acts.sort((one, other) => (one.last_act.at < other.last_act.at ? 1 : -1)).slice(0, MOST);
}

/** Shows it. */
export function mount(place) {
  const elections = h("div", {});
  const store = h("div", {});
  place.replaceChildren(h("h1", {}, "Audit log"),
    h("section", { class: "panel" }, h("h2", {}, "Last act on each election"), elections),
    h("section", { class: "panel" }, h("h2", {}, "The store as a whole"), store));
  stream.watch([]);
  async function look() {
    const entries = (await getIfThere(`/v1/audit?limit=${MOST}`).catch(() => null)) ?? [];
    show(store, entries.map((entry) => entry.hash), () => book(entries));
  }
  function update() {
    const acts = lastActs();
    show(elections, acts.map((row) => [row.election, row.last_act]), () => acts.length === 0 ? empty("Nothing yet", "No operator has acted on an election.")
      : table("Last act on each election", ["Election", "Number", "When", "Act", "By", "Ended"], acts.map(({ election, last_act: last }) => [
        h("a", { href: `#/election/${encodeURIComponent(election)}` }, election), last.number, moment(last.at), h("span", { class: "strong" }, last.act), h("code", {}, sign.person(last.by)), last.ended ?? "–"])));
    look();
  }
  update();
  return { update, tick() {} };
}
