// What waits for a person: each with what would be approved, and the hash that the approval names.

import { buttons, checkpointShown } from "./acts.js";
import { get, of } from "./api.js";
import { empty, h, show } from "./dom.js";
import * as model from "./model.js";
import * as stream from "./stream.js";

const MOST = 50;
/** Checkpoints by their hashes: what a hash stands for does not change. */
const seen = new Map();

function card(row) {
  const about = h("div", {});
  const href = `#/election/${encodeURIComponent(row.election)}`;
  const node = h("article", { class: "panel" },
    h("h2", {}, h("a", { href, "data-key": `open ${row.election}` }, row.election)),
    h("p", {}, row.question.what === "checkpoint"
      ? `${row.leader?.agent ?? "The leader"} wants to go on after this checkpoint, under token ${row.token}:`
      : `${row.leader?.agent ?? "The leader"} wants more time, under token ${row.token}.`),
    about, buttons(row, ["approve", "reject"]));
  fill(row, about);
  return node;
}

async function fill(row, about) {
  if (row.question.what !== "checkpoint") return;
  const { hash } = row.question;
  if (!seen.has(hash)) {
    try {
      const { record } = await get(of(row.election));
      if (record?.checkpoint?.hash === hash) seen.set(hash, record.checkpoint);
    } catch (problem) {
      about.replaceChildren(h("p", { class: "trouble" }, problem.message));
      return;
    }
  }
  const checkpoint = seen.get(hash);
  about.replaceChildren(...(checkpoint ? checkpointShown(checkpoint).filter(Boolean) : [h("p", { class: "quiet" }, "Another checkpoint has taken its place.")]));
}

/** Shows what waits. */
export function mount(place) {
  const list = h("div", { class: "cards" });
  place.replaceChildren(h("h1", {}, "Approvals"), list);
  stream.watch([]);
  function update() {
    const waiting = model.questions();
    show(list, waiting.map((row) => [row.election, row.token, row.question]), () => waiting.length
      ? [waiting.slice(0, MOST).map(card), waiting.length > MOST && h("p", { class: "quiet" }, `and ${waiting.length - MOST} more`)]
      : empty("Nothing waits for approval", "Where a policy asks for it (baton policy ELECTION --approval checkpoints), checkpoints stand here until somebody decides."));
  }
  update();
  return { update, tick() {} };
}
