// Who led which election when: those that changed last, beside each other.

import { get, of } from "./api.js";
import { empty, h, section, show } from "./dom.js";
import * as model from "./model.js";
import * as stream from "./stream.js";
import { timelines, width } from "./timeline.js";

/** So many elections are looked at, and so much of the history of each. */
const MOST = 12;
const HISTORY = 64;
/** A drawing until now is drawn anew so often. */
const AGAIN = 10_000;

const SINCE = { "3600000": "Last hour", "86400000": "Last day", "604800000": "Last week", "0": "All that is kept" };
let since = "0";

/** By election: its history, and the epoch up to which it tells. */
const known = new Map();

function newest() {
  return [...model.rows.values()].filter((row) => row.last_transition)
    .sort((one, other) => (one.last_transition.at < other.last_transition.at ? 1 : -1)).slice(0, MOST);
}

async function look(rows) {
  await Promise.all(rows.filter((row) => known.get(row.election)?.epoch !== row.last_transition.epoch).map(async (row) => {
    const history = await get(`${of(row.election)}/history?limit=${HISTORY}`);
    known.set(row.election, { epoch: row.last_transition.epoch, history: [...history].sort((one, other) => one.epoch - other.epoch) });
  }));
}

/** Shows it. */
export function mount(place) {
  const drawn = h("div", {}, h("p", { class: "quiet" }, "Loading …"));
  place.replaceChildren(h("h1", {}, "Timeline"),
    h("div", { class: "tools" }, h("label", { class: "named" }, "Show ", h("select", { onchange: (event) => { since = event.target.value; draw(); } },
      Object.entries(SINCE).map(([value, word]) => h("option", { value, selected: since === value }, word)))),
    h("p", { class: "quiet small count" }, `The ${MOST} elections whose leader changed last. Each bar is a leadership; the mark at its beginning tells why it began.`)),
    section("Who led when", drawn));
  stream.watch([]);
  let looking = false;

  function draw() {
    const told = newest().filter((row) => known.has(row.election)).map((row) => ({ row, history: known.get(row.election).history }));
    if (!told.length && !model.known().complete) return;
    const key = [told.map(({ row }) => [row.election, row.last_transition.epoch, model.standing(row).word]), since, width(), Math.floor(Date.now() / AGAIN)];
    show(drawn, key, () => timelines(told, Number(since)));
  }

  async function update() {
    if (looking) return;
    looking = true;
    try {
      await look(newest());
      draw();
    } catch (problem) {
      show(drawn, problem.message, () => empty("The history cannot be read", `${problem.message}. ${problem.hint ?? ""}`));
    } finally {
      looking = false;
    }
  }

  update();
  return { update, tick: draw };
}
