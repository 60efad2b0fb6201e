// One election: how it stands, what may be done, who led when.

import { buttons, checkpointShown, confirm, isDelegable } from "./acts.js";
import { get, getIfThere, of } from "./api.js";
import { book as bookShown, bookOf } from "./audit.js";
import { badge, empty, facts, h, section, show } from "./dom.js";
import { leaseShown } from "./elections.js";
import * as model from "./model.js";
import * as sign from "./sign.js";
import * as stream from "./stream.js";
import { board } from "./tasks.js";
import { timeline, why, width } from "./timeline.js";
import { ago, moment } from "./time.js";

const HISTORY = 256;
const TASKS = 200;
/** So many of those in line are named. */
const WAITING = 20;
/** The line changes without the election: it is looked at so often. */
const LINE = 3_000;
/** From here on an agent is suspected to be gone. */
const SUSPECT = 8;

function policy(rules) {
  if (!rules) return "";
  const parts = [rules.select, `lease ${rules.ttl}`];
  if (rules.designated) parts.push(`designated ${rules.designated}`);
  if (rules.needs?.length) parts.push(`needs ${rules.needs.join(" ")}`);
  if (rules.approval && rules.approval !== "none") parts.push(`approval by ${rules.approval}`);
  if (rules.handover && rules.handover !== "open") parts.push(`hand-over ${rules.handover}`);
  if (rules.performance) parts.push(`${rules.performance.bad} bad verdicts of ${rules.performance.of} end it, cool-off ${rules.performance.cool_off}`);
  const { quorum = 1, acts = [], break_glass: alone } = rules.operators ?? {};
  if (quorum > 1) parts.push(`${quorum} operators for ${acts.length ? acts.join(" ") : "every act"}${alone ? ", one alone with a reason" : ""}`);
  if (rules.depends?.length) parts.push(`depends on ${rules.depends.join(" ")}`);
  const bars = rules.breakers?.bars ?? "tasks";
  if (bars !== "tasks") parts.push(`an open breaker bars from ${bars}`);
  return parts.join(", ");
}

/** How many of the last verdicts were bad: the bits of a number. */
function verdicts({ given, bad }) {
  let count = 0;
  for (let bits = bad; bits > 0; bits = Math.floor(bits / 2)) count += bits % 2;
  return `${given} given, ${count} of the last ${Math.min(given, 32)} bad`;
}

function question(row) {
  if (!row.question) return "";
  return row.question.what === "checkpoint" ? `wanted for checkpoint ${row.question.hash.slice(0, 12)}` : "wanted for more time";
}

/** What goes on and what waits while nobody leads what somebody led. A lease that ran out since the server looked counts too. */
function degraded(row, record, counts) {
  const { word } = model.standing(row);
  if (word !== "no leader" && !(row.degraded && ["paused", "awaiting approval"].includes(word))) return "";
  const since = row.leaderless_since ?? (word === "no leader" ? record?.leader?.expires : null);
  const waits = counts ? `; ${counts.assigned + counts.working} tasks under way go on, ${counts.unled} of ${counts.most_unled} new ones wait` : "";
  const what = word === "awaiting approval" ? "no token is accepted before an approval" : "nobody leads";
  return `${what}${since ? ` since ${moment(since)}, ${ago(since)}` : ""}${waits}`;
}

function standing(row, record, counts, waiting) {
  const leads = model.leads(row);
  const leader = leads && record?.leader;
  return facts([
    ["Trouble", row.trouble],
    ["Degraded", degraded(row, record, counts)],
    ["Leader", leads?.agent ?? "nobody"],
    ["Last leader", row.leader && !leads ? `${row.leader.agent}, whose lease has run out` : ""],
    ["Token", row.token],
    ["Phase", model.phase(row)],
    ["Since", leader?.acquired && `${moment(leader.acquired)}, ${ago(leader.acquired)}`],
    ["Known to", row.participation && `${row.participation.acknowledged} of ${row.participation.expected} that followed when it changed`],
    ["Suspicion", leads?.suspicion >= SUSPECT ? `the leader may be gone (φ ${leads.suspicion.toFixed(1)})` : ""],
    ["Contact", leads?.contact],
    ["Region", leads?.region && `${leads.region.election}, epoch ${leads.region.epoch}`],
    ["Renewals", leader?.renewals],
    ["Tokens spent", leader?.spent_tokens || ""],
    ["Verdicts", leader?.verdicts && verdicts(leader.verdicts)],
    ["In line", waiting.length ? `${waiting.slice(0, WAITING).map((one) => `${one.agent} (since ${moment(one.since)})`).join(", ")}${waiting.length > WAITING ? ` and ${waiting.length - WAITING} more` : ""}` : ""],
    ["Task", row.task],
    ["Outgoing", row.outgoing && `${row.outgoing.agent}, whose lease may still be running`],
    ["Kept for", row.reserved_for],
    ["Paused", row.paused && `${row.paused.reason || "no reason given"} (${moment(row.paused.at)}, by ${sign.person(row.paused.by)})`],
    ["Ended", row.departure && `${row.departure.agent} by ${why(row.departure.cause)}${row.departure.reason ? `: ${row.departure.reason}` : ""}`],
    ["Approval", question(row)],
    ["Policy", policy(record?.policy)],
  ]);
}

/** Shows one election in a place. */
export function mount(place, election) {
  const state = h("span", {});
  const lease = leaseShown();
  const acts = h("div", {});
  const about = h("div", {});
  const left = h("div", { class: "wrap" });
  const led = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  const tasks = h("div", { class: "wrap" });
  const acted = h("div", { class: "wrap" });
  const waits = h("div", { class: "wrap" });
  const head = h("div", { class: "head" }, h("h1", {}, election), state, lease.node);
  place.replaceChildren(
    h("p", { class: "crumbs" }, h("a", { href: "#/elections" }, "Elections"), " / ", election),
    head, acts, waits, section("As it stands", about), left, section("Who led when", led), tasks, acted);
  stream.watch([election]);
  let word = "";
  let seen = null;
  let record = null;
  let counts = null;
  let waiting = [];
  let looked = -LINE;
  let told = [];

  async function look(row) {
    try {
      const [whole, history] = await Promise.all([get(of(election)), get(`${of(election)}/history?limit=${HISTORY}`)]);
      record = whole.record;
      told = [...history].sort((one, other) => one.epoch - other.epoch);
      draw(model.rows.get(election) ?? row);
    } catch (problem) {
      show(led, problem.message, () => empty("The history cannot be read", `${problem.message}. ${problem.hint ?? ""}`));
    }
    const book = await bookOf(election);
    show(acted, book?.map((entry) => entry.hash), () => book?.length ? section("What operators did", bookShown(book)) : []);
    await lookAtBoard();
  }

  /** The board changes without the election. */
  async function lookAtBoard() {
    counts = await getIfThere(`${of(election)}/board`).catch(() => null);
    const row = model.rows.get(election);
    if (row) draw(row);
    const found = await getIfThere(`${of(election)}/tasks?limit=${TASKS}`).catch(() => null);
    show(tasks, found, () => found?.items ? section("Task board", board(found)) : []);
  }

  async function lookAtLine() {
    looked = performance.now();
    waiting = await getIfThere(`${of(election)}/waiting?limit=1000`).catch(() => null) ?? waiting;
    const row = model.rows.get(election);
    if (row) draw(row);
  }

  function gathered(row) {
    const all = record?.gathering ?? [];
    const need = record?.policy?.operators?.quorum ?? 1;
    show(waits, [all, sign.canAct()], () => all.length === 0 ? [] : section("Waits for more operators", all.map(({ order, signed }) => h("div", { class: "gathering" },
      h("p", {}, h("span", { class: "strong" }, order.act.act), ` ${[order.act.agent, order.act.reason].filter(Boolean).join(": ")} – signed by ${signed.length} of ${need}: `,
        h("code", {}, signed.map((one) => sign.person(one.via?.by ?? one.by)).join(", "))),
      order.break_glass ? null : !isDelegable(order.act.act) ? h("p", { class: "quiet small" }, "This takes the operator's own key: ", h("code", {}, `baton cosign ${election}`))
        : h("button", { type: "button", "data-key": `cosign ${order.act.act}`, "data-act": "cosign", onclick: () => confirm(row, order.act.act, order.act) }, "Sign too …")))));
  }

  function draw(row) {
    gathered(row);
    const shownRow = { ...row, until: 0, heard: 0, lease_ms: 0 };
    show(about, [shownRow, record?.leader, record?.policy, model.standing(row).word, counts, waiting], () => standing(row, record, counts, waiting));
    const checkpoint = record?.checkpoint;
    show(left, checkpoint, () => checkpoint ? section("Left for the successor",
      checkpointShown(checkpoint),
      h("p", { class: "quiet small" }, checkpoint.acknowledged_by ? `taken on by ${checkpoint.acknowledged_by}` : "not yet taken on")) : []);
    show(led, [told, model.leads(row)?.agent, row.departure, width()], () => timeline(told, row));
  }

  function update() {
    const row = model.rows.get(election);
    if (!row) {
      if (model.known().complete) {
        show(about, "none", () => empty("There is no such election", "It may not have begun yet, or you may not see it."));
        show(led, "none", () => empty("Nobody has led yet", ""));
      }
      head.lastChild.hidden = true;
      return;
    }
    show(acts, [row.token, row.state, row.question, row.leader?.agent, sign.canAct()], () => buttons(row));
    draw(row);
    tick();
    if (seen !== row.heard) {
      seen = row.heard;
      look(row);
    }
  }

  function tick() {
    const row = model.rows.get(election);
    if (!row) return;
    const now = model.standing(row);
    if (now.word !== word) {
      word = now.word;
      state.replaceChildren(badge(now.word, now.kind));
      draw(row);
    }
    lease.tick(row);
    if (performance.now() - looked > LINE) lookAtLine();
  }

  update();
  return { update, tick, poke: (what) => what === "boards" && lookAtBoard() };
}
