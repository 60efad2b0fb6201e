// All elections: a filter, an order, and pages of fifty, so that ten thousand are as quick as ten.

import { badge, empty, h, say, section, show } from "./dom.js";
import * as everything from "./everything.js";
import * as model from "./model.js";
import * as sign from "./sign.js";
import * as stream from "./stream.js";
import { left, moment } from "./time.js";
import { why } from "./timeline.js";

const PAGE = 50;
const CHANGES = 10;
const wish = { text: "", only: "all", order: "name", page: 0 };

const ONLY = {
  all: ["All", () => true],
  led: ["Led", (row) => model.standing(row).kind === "good"],
  bad: ["No leader", (row) => model.standing(row).kind === "bad"],
  wait: ["Waiting", (row) => model.standing(row).kind === "wait"],
};

const URGENCY = { bad: 0, wait: 1, calm: 2, good: 3 };

const ORDER = {
  name: ["Name", model.byName],
  urgency: ["Attention first", (one, other) =>
    URGENCY[model.standing(one).kind] - URGENCY[model.standing(other).kind] || model.byName(one, other)],
  change: ["Last change", (one, other) =>
    (other.last_transition?.at ?? "").localeCompare(one.last_transition?.at ?? "") || model.byName(one, other)],
};

function fits(row) {
  const text = wish.text.toLowerCase();
  return ONLY[wish.only][1](row)
    && (!text || row.election.includes(text) || (row.leader?.agent ?? "").includes(text) || (row.task ?? "").toLowerCase().includes(text));
}

/** The newest changes of all elections. */
function lastChanges() {
  const newest = [];
  for (const row of model.rows.values()) {
    const at = row.last_transition?.at;
    if (!at || (newest.length === CHANGES && at <= newest[CHANGES - 1].last_transition.at)) continue;
    const place = newest.findIndex((other) => other.last_transition.at < at);
    newest.splice(place < 0 ? newest.length : place, 0, row);
    newest.length = Math.min(newest.length, CHANGES);
  }
  return newest;
}

function told({ election, last_transition: last }) {
  return h("li", {},
    h("span", { class: "quiet number" }, moment(last.at)), " ",
    h("a", { href: `#/election/${encodeURIComponent(election)}`, "data-key": `change ${election}` }, election), " ",
    last.from && last.from !== last.to ? `${last.from} → ` : "", h("span", { class: "strong" }, last.to), ` (${why(last.cause)}) `,
    h("span", { class: "quiet" }, last.reason));
}

/** A lease as a bar and a number, both of which count by themselves. */
export function leaseShown() {
  const bar = h("progress", { max: "1", value: "0", "aria-hidden": "true", tabindex: "-1" });
  const text = h("span", { class: "number" });
  const node = h("span", { class: "lease" }, bar, text);
  return {
    node,
    tick(row) {
      const ms = model.remaining(row);
      const holder = row.leader ?? row.outgoing;
      // One that has run out says so by its state.
      node.hidden = !holder || ms <= 0;
      if (node.hidden) return;
      const share = Math.max(0, Math.min(1, ms / (holder.ttl_ms || 1)));
      if (Math.abs(bar.value - share) > 0.002) bar.value = share;
      bar.className = share < 0.2 ? "low" : "";
      say(text, left(ms));
    },
  };
}

function line(row) {
  const state = h("td", { "data-head": "State" });
  const leader = h("td", { class: "strong", "data-head": "Leader" });
  const inLine = h("td", { class: "number", "data-head": "In line" });
  const token = h("td", { class: "number", "data-head": "Token" });
  const lease = leaseShown();
  const phase = h("td", { "data-head": "Phase" });
  const changed = h("td", { class: "quiet", "data-head": "Changed" });
  const task = h("td", { class: "task", "data-head": "Task" });
  const node = h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/election/${encodeURIComponent(row.election)}`, "data-key": row.election }, row.election)),
    state, leader, inLine, token, h("td", { "data-head": "Lease" }, lease.node), phase, changed, task);
  let word = "";
  /** State, leader and phase change together, also when a lease runs out and nothing else happens. */
  function people(now) {
    const leads = model.leads(now);
    say(leader, leads?.region ? `${leads.agent} from ${leads.region.election}` : leads?.agent ?? "–");
    say(phase, model.phase(now) || "–");
  }
  return {
    node,
    update(now) {
      people(now);
      say(inLine, now.in_line || "");
      say(token, now.token);
      say(changed, now.last_transition ? `${moment(now.last_transition.at)} (${why(now.last_transition.cause)})` : "–");
      say(task, now.task ?? "");
    },
    tick(now) {
      const standing = model.standing(now);
      if (standing.word !== word) {
        word = standing.word;
        state.replaceChildren(badge(standing.word, standing.kind));
        people(now);
      }
      lease.tick(now);
    },
  };
}

/** Shows it in a place; returns what updates it each moment, and what ends it. */
export function mount(place) {
  const lines = new Map();
  const body = h("tbody", {});
  const count = h("p", { class: "quiet count", role: "status" });
  const before = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
  const nothing = h("div", { class: "wrap" });
  const stop = h("button", { type: "button", class: "danger stop", "data-key": "pause everything", onclick: everything.pause }, "Pause everything …");
  const changes = h("div", { class: "wrap" });
  const wide = h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Elections" },
    h("table", { class: "elections" }, h("caption", { class: "hidden" }, "Elections"),
      h("thead", {}, h("tr", {}, ["Election", "State", "Leader", "In line", "Epoch", "Lease", "Phase", "Changed", "Task"].map((head) => h("th", { scope: "col" }, head)))), body));
  place.replaceChildren(
    h("div", { class: "head" }, h("h1", {}, "Elections"), stop),
    h("div", { class: "tools" },
      h("label", {}, h("span", { class: "hidden" }, "Filter by election, leader or task"),
        h("input", { type: "search", id: "filter", placeholder: "Filter by election, leader or task", value: wish.text, spellcheck: "false",
          oninput: (event) => { wish.text = event.target.value.trim(); wish.page = 0; update(); } })),
      h("label", {}, h("span", { class: "hidden" }, "Show only"),
        h("select", { onchange: (event) => { wish.only = event.target.value; wish.page = 0; update(); } },
          Object.entries(ONLY).map(([value, [word]]) => h("option", { value, selected: wish.only === value }, word)))),
      h("label", {}, h("span", { class: "hidden" }, "Order"),
        h("select", { onchange: (event) => { wish.order = event.target.value; wish.page = 0; update(); } },
          Object.entries(ORDER).map(([value, [word]]) => h("option", { value, selected: wish.order === value }, word)))),
      count, h("div", { class: "turn" }, before, next)),
    wide, nothing, changes);

  function turn(by) {
    wish.page += by;
    update();
    wide.scrollIntoView({ block: "nearest" });
  }

  function update() {
    const all = [...model.rows.values()].filter(fits).sort(ORDER[wish.order][1]);
    wish.page = Math.max(0, Math.min(wish.page, Math.ceil(all.length / PAGE) - 1));
    const from = wish.page * PAGE;
    const shown = all.slice(from, from + PAGE);
    const { complete, more } = model.known();
    stop.hidden = Boolean(sign.me.paused) || sign.me.observes;
    say(count, all.length === 0 ? "" : `${from + 1}–${from + shown.length} of ${all.length}${all.length === model.rows.size ? "" : ` (${model.rows.size} in all)`}${complete ? "" : ", loading …"}${more ? "; there are more than this page keeps" : ""}`);
    before.disabled = wish.page === 0;
    next.disabled = from + PAGE >= all.length;
    before.parentNode.hidden = all.length <= PAGE;
    wide.hidden = shown.length === 0;
    nothing.replaceChildren(...(shown.length || !complete ? [] : [model.rows.size
      ? empty("Nothing fits", "Clear the filter to see all elections.")
      : empty("No elections yet", "The first one begins with: baton run NAME -- CMD")]));
    const wanted = new Set(shown.map((row) => row.election));
    for (const [election, old] of lines) if (!wanted.has(election)) (old.node.remove(), lines.delete(election));
    shown.forEach((row, place) => {
      let one = lines.get(row.election);
      if (!one) lines.set(row.election, one = line(row));
      one.update(row);
      one.tick(row);
      if (body.children[place] !== one.node) body.insertBefore(one.node, body.children[place] ?? null);
    });
    stream.watch(wanted);
    const last = lastChanges();
    show(changes, last.map((one) => [one.election, one.last_transition.epoch]), () => last.length ? section("Last changes of leader", h("ul", { class: "changes" }, last.map(told))) : []);
  }

  update();
  return {
    update,
    tick() {
      for (const [election, one] of lines) {
        const row = model.rows.get(election);
        if (row) one.tick(row);
      }
    },
  };
}
