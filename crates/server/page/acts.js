// What an operator does: asked about once more, checked, signed here, and sent.

import { get, of, post } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import * as sign from "./sign.js";
import { span } from "./time.js";

/** What stands before the text of an act where it is signed. */
const SIGNED_AS = "baton operator order 1\n";
const MOST_REASON = 500;

/** Each act: what its button says, what it does in words, and whether it takes a reason. */
const ACTS = {
  appoint: { word: "Appoint …", does: (row) => `Another agent shall lead ${row.election}. Whoever leads loses its token at once.`, reason: true, agent: true, force: true },
  depose: { word: "Depose …", does: (row) => `${row.leader?.agent} stops leading ${row.election}. Its token is refused at once; a successor starts when it has stopped or its lease has ended.`, reason: true, force: true, danger: true },
  pause: { word: "Pause …", does: (row) => `Whoever leads ${row.election} stops, and nobody may lead until it is resumed.`, reason: true, danger: true },
  resume: { word: "Resume …", does: (row) => `The pause of ${row.election} is over: candidates may lead again.` },
  approve: { word: "Approve …", does: (row) => `${row.leader?.agent ?? "The leader"} may go on leading ${row.election}.` },
  reject: { word: "Reject …", does: (row) => `${row.leader?.agent ?? "The leader"} may not go on; its leadership of ${row.election} ends.`, reason: true, danger: true },
};

/** Which acts make sense for an election as it stands. */
export function possible(row) {
  const acts = [];
  if (row.question) acts.push("approve", "reject");
  acts.push("appoint");
  if (row.leader) acts.push("depose");
  acts.push(row.state === "paused" ? "resume" : "pause");
  return acts;
}

/** Buttons for these acts. Without a sign-in they say so when they are pressed. */
export function buttons(row, acts = possible(row)) {
  return h("div", { class: "acts" }, acts.map((act) => h("button", {
    type: "button", "data-key": `${row.election} ${act}`, "data-act": act,
    class: ACTS[act].danger ? "danger" : act === "approve" ? "main" : "",
    onclick: () => confirm(row, act),
  }, ACTS[act].word)));
}

/** What a person asks for, as the server takes it. */
function wanted(act, row, form) {
  const reason = form.elements.reason?.value.trim() ?? "";
  const force = form.elements.force?.checked ?? false;
  switch (act) {
    case "appoint": return { act, agent: form.elements.agent.value.trim(), lasts_ms: null, force, reason };
    case "depose": return { act, force, reason };
    case "pause": return { act, reason };
    case "resume": return { act };
    case "approve": return { act, checkpoint: row.question?.hash ?? null };
    case "reject": return { act, reason };
    default: throw new Error(act);
  }
}

/** Whether two values of JSON are the same. */
export function same(one, other) {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => same(one[name], other[name]));
}

/** Refuses a draft that is not what the person confirmed. */
function check(order, row, act) {
  if (order.election !== row.election || order.store !== sign.me.store) throw new Error("the server drafted an order for another election");
  if (!same(order.act, act)) throw new Error("the server drafted another act than the one that was confirmed");
  // One of an epoch before is that which others have signed and which waits for more.
  if (order.epoch > row.token) throw new Error(`${row.election} has changed since this was opened: look again`);
}

/** Has an act signed and sent. */
export async function carryOut(row, act) {
  const path = `${of(row.election)}/operate`;
  return post(path, await sign.order(path, SIGNED_AS, { act }, (drafted) => check(drafted, row, act)));
}

/** What is approved: the words, the state, and the hash that the approval names. */
export function checkpointShown(checkpoint) {
  const state = checkpoint.state === undefined ? null : JSON.stringify(checkpoint.state, null, 2);
  return [
    h("p", { class: "quoted" }, checkpoint.summary || "(no summary)"),
    state && state !== "null" && state !== "{}" && h("pre", { class: "state", tabindex: "0", role: "region", "aria-label": "State" }, state),
    h("p", { class: "quiet small" }, `checkpoint ${checkpoint.seq} by ${checkpoint.by}, SHA-256 `, h("code", { class: "hash" }, checkpoint.hash)),
    checkpoint.reference && h("p", { class: "quiet small" }, `more at ${checkpoint.reference.location}, SHA-256 `, h("code", { class: "hash" }, checkpoint.reference.sha256)),
    checkpoint.covers && h("p", { class: "quiet small" }, `covers ${checkpoint.covers.paths} paths (${(checkpoint.covers.manifest?.roots ?? []).map((root) => root.path).join(", ") || checkpoint.covers.location}), SHA-256 `, h("code", { class: "hash" }, checkpoint.covers.sha256)),
  ];
}

/** The checkpoint that waits, whole; none if another has come. */
async function waiting(row) {
  if (row.question?.what !== "checkpoint") return null;
  const { record } = await get(of(row.election));
  const checkpoint = record?.checkpoint;
  return checkpoint?.hash === row.question.hash ? checkpoint : null;
}

function fields(act, row) {
  const { agent, reason, force } = ACTS[act];
  return [
    agent && h("label", {}, "Agent", h("input", { name: "agent", required: true, maxlength: "64", pattern: "[a-z0-9_][a-z0-9._\\-]*", autocomplete: "off", spellcheck: "false" })),
    reason && h("label", {}, "Reason, for the history", h("textarea", { name: "reason", required: true, maxlength: MOST_REASON, rows: "2" })),
    force && row.leader && h("label", { class: "check" }, h("input", { type: "checkbox", name: "force" }), "Do not wait for the running lease (safe only behind fences)"),
  ];
}

/** Whether a browser may sign such an act: the others take the operator's own key. */
export const isDelegable = (act) => Object.hasOwn(ACTS, act);

/** Asks once more, and carries it out. The election is taken as it was shown when the button was pressed. */
export async function confirm(shown, act, given = null) {
  const row = { ...shown };
  const about = h("div", {});
  const word = ACTS[act].word.replace(" …", "");
  const { main, trouble } = ask({
    title: `${word}: ${row.election}`,
    word,
    danger: ACTS[act].danger,
    body: [h("p", {}, ACTS[act].does(row)), about,
      given && h("p", { class: "quoted" }, [given.agent, given.reason, given.force && "without waiting for the lease"].filter(Boolean).join("; ") || given.act)],
    fields: given ? [] : fields(act, row),
    async submit(form) {
      const { answer } = await carryOut(row, given ?? wanted(act, row, form));
      return done(act, row, answer);
    },
  });
  // A checkpoint is decided on once it is shown.
  main.disabled = row.question?.what === "checkpoint" && (act === "approve" || act === "reject");
  if (!row.question || (act !== "approve" && act !== "reject")) return;
  try {
    const checkpoint = await waiting(row);
    if (checkpoint) {
      about.replaceChildren(...checkpointShown(checkpoint).filter(Boolean));
      main.disabled = false;
    } else if (row.question?.what === "checkpoint") throw new Error("another checkpoint has taken its place: look again");
  } catch (problem) {
    // What is not seen is not approved.
    trouble.textContent = problem.message;
    main.disabled = true;
  }
}

function done(act, row, answer) {
  if (answer?.outcome === "signed") return `${row.election}: signed by ${answer.have} of ${answer.need} operators; nothing is done yet`;
  const waits = answer?.waits_ms ? `; its lease may last ${span(answer.waits_ms)} more` : "";
  const ended = answer?.ended ? `; the token of ${answer.ended} is refused` : "";
  const words = { appoint: "is kept for the appointed agent", depose: "leader deposed", pause: "paused", resume: "resumed", approve: "approved", reject: "rejected" };
  return `${row.election}: ${words[act]}${ended}${waits}`;
}
