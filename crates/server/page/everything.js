// Everything at once: pause and resume all elections. The order on the store comes first, so that nobody is granted anything new; then an act on each
// election. Each is drafted by the server, checked and signed here.

import { carryOut, same } from "./acts.js";
import { post } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import * as model from "./model.js";
import * as sign from "./sign.js";
import { moment } from "./time.js";

/** What stands before the text of an order on the store where it is signed. */
const SIGNED_AS = "baton operator store 1\n";
const ORDERS = "/v1/store/orders";
/** The election of the servers themselves goes on: without them nobody could end the pause. */
const SERVERS = "_baton/servers";
const MOST_REASON = 500;
/** How many elections are changed at the same time. */
const AT_ONCE = 6;
/** How often an act is signed anew for an election that changes under it. */
const TRIES = 8;
/** How many elections are named. */
const NAMED = 3;

const elections = () => [...model.rows.values()].filter((row) => row.election !== SERVERS);
const toHalt = () => elections().filter((row) => row.state !== "paused");
const toResume = () => elections().filter((row) => row.paused?.halted);
const many = (count, word = "election") => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Has an order on the store signed and sent. Returns what came of it. */
async function order(change) {
  const signed = await sign.order(ORDERS, SIGNED_AS, { change }, (drafted) => {
    if (drafted.store !== sign.me.store) throw new Error("the server drafted an order for another store");
    if (drafted.break_glass || !same(drafted.change, change)) throw new Error("the server drafted another order than the one that was confirmed");
  });
  return post(ORDERS, `{"order":${signed}}`);
}

/** Carries an act out on an election, whatever happens to its leadership meanwhile. */
async function insist(row, act, isLeft) {
  for (let tries = 1; ; tries += 1) {
    try {
      return (await carryOut({ ...row, token: Infinity }, act)).answer;
    } catch (problem) {
      if (problem.code === "stale" && tries < TRIES) continue;
      // Somebody else did it.
      if (!isLeft().some((other) => other.election === row.election)) return null;
      throw problem;
    }
  }
}

/** Carries an act out on each election that is left, some at a time. */
async function spread(act, isLeft, tell) {
  const rows = isLeft();
  const left = [...rows];
  const found = { done: 0, waiting: [], failed: [] };
  async function work() {
    for (let row = left.shift(); row; row = left.shift()) {
      try {
        const answer = await insist(row, act, isLeft);
        if (answer?.outcome === "signed") found.waiting.push(row.election);
        else found.done += 1;
      } catch (problem) {
        if (problem.code === "not-signed-in") throw problem;
        found.failed.push(`${row.election}: ${problem.message}`);
      }
      tell(`${rows.length - left.length} of ${rows.length} …`);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found;
}

function report(words, { done, waiting, failed }) {
  const named = (all) => all.slice(0, NAMED).join(", ") + (all.length > NAMED ? ` and ${all.length - NAMED} more` : "");
  return [`${words}; ${many(done)} changed`,
    waiting.length && `another operator must sign it in ${named(waiting)}`,
    failed.length && `it failed in ${named(failed)}`].filter(Boolean).join("; ");
}

const signedBy = ({ have, need }) => `signed by ${have} of ${need} operators; nothing is done yet`;

/** Pauses everything; once that is ordered, the elections that are left. */
export function pause() {
  const begun = sign.me.paused;
  const led = toHalt().filter((row) => row.leader && model.remaining(row) > 0).length;
  const count = toHalt().length;
  const fields = begun ? [] : h("label", {}, "Reason, for those who ask", h("textarea", { name: "reason", required: true, maxlength: MOST_REASON, rows: "2" }));
  ask({
    title: begun ? "Pause the rest" : "Pause everything",
    word: begun ? "Pause the rest" : "Pause everything",
    danger: true,
    fields,
    body: [
      h("p", {}, begun
        ? `Everything is paused, but ${many(count)} ${count === 1 ? "is" : "are"} not yet stopped. ${led === 1 ? "Its leader loses" : "Their leaders lose"} the token at once.`
        : `This pauses ${many(count)}: ${led === 0 ? "nobody leads one now" : `${many(led, "leader")} lose${led === 1 ? "s" : ""} the token at once and stop${led === 1 ? "s" : ""}`}.`),
      !begun && h("p", {}, "Nobody may lead anything, also in elections that begin, until everything is resumed. Elections that are paused already stay as they are."),
    ],
    async submit(form, tell) {
      if (!begun) {
        const outcome = await order({ change: "pause", reason: form.elements.reason.value.trim() });
        if (outcome.outcome === "signed") return `Pause everything: ${signedBy(outcome)}`;
        await sign.refresh();
        model.changed();
      }
      const pause = sign.me.paused;
      if (!pause) throw new Error("everything was resumed meanwhile");
      return report("everything is paused", await spread({ act: "halt", reason: pause.reason, since: pause.at }, toHalt, tell));
    },
  });
}

/** Resumes everything. */
export function resume() {
  const count = toResume().length;
  const others = elections().filter((row) => row.state === "paused" && !row.paused?.halted).length;
  ask({
    title: "Resume everything",
    word: "Resume everything",
    body: [
      h("p", {}, `The pause of everything is over: agents may lead ${many(count)} again, and new ones may begin.`),
      others > 0 && h("p", {}, `${many(others)} that ${others === 1 ? "was" : "were"} paused by ${others === 1 ? "itself stays" : "themselves stay"} paused.`),
    ],
    async submit(_form, tell) {
      if (sign.me.paused) {
        const outcome = await order({ change: "resume" });
        await sign.refresh();
        model.changed();
        if (outcome.outcome === "signed") return `Resume everything: ${signedBy(outcome)}`;
      }
      return report("everything is resumed", await spread({ act: "resume" }, toResume, tell));
    },
  });
}

/** What the head says while everything is paused, and what can be done about it; nothing while nothing is. */
export function banner() {
  const { paused, waiting } = sign.me;
  const left = toResume().length;
  if (!paused) {
    // A resume that was broken off.
    return left === 0 ? [] : [h("p", {}, h("strong", {}, "Everything is resumed"), `, but not ${many(left)}`), h("button", { type: "button", "data-key": "resume everything", onclick: resume }, "Resume the rest …")];
  }
  const resuming = waiting?.find((one) => one.what === "resume");
  const rest = model.except();
  return [
    h("p", {}, h("strong", {}, `Everything is paused${rest}`), ` since ${moment(paused.at)} by `, h("code", {}, sign.person(paused.by)), paused.reason && [": ", h("span", { class: "why" }, paused.reason)],
      resuming && h("span", { class: "quiet" }, ` Resume: signed by ${resuming.have} of ${resuming.need} operators.`)),
    !sign.me.observes && rest && h("button", { type: "button", class: "danger", "data-key": "pause the rest", onclick: pause }, "Pause the rest …"),
    !sign.me.observes && h("button", { type: "button", "data-key": "resume everything", onclick: resume }, "Resume everything …"),
  ];
}

/** Whether the elections, which the stream tells of, say otherwise than what is known of the pause. */
export const isBehind = () => Boolean(sign.me.paused) !== toResume().length > 0;

/** What decides whether that is shown anew. */
export function bannerKey() {
  return [sign.me.paused, sign.me.operators, sign.me.waiting, model.except(), toResume().length > 0 && !sign.me.paused];
}
