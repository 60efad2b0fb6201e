// The page: which view is shown, what its head says, and what is said aloud.

import * as agents from "./agents.js";
import * as alerts from "./alerts.js";
import * as approvals from "./approvals.js";
import * as audit from "./audit.js";
import { toast } from "./dialog.js";
import { h, say, show } from "./dom.js";
import * as election from "./election.js";
import * as elections from "./elections.js";
import * as everything from "./everything.js";
import * as model from "./model.js";
import * as sign from "./sign.js";
import * as stream from "./stream.js";
import * as timelines from "./timelines.js";
import { span } from "./time.js";
import { why } from "./timeline.js";

const TICK = 200;
/** At most so many changes are said aloud one by one. */
const ALOUD = 3;
const ALOUD_EVERY = 2_000;
/** How often it is asked at most whether everything is paused, when elections say otherwise. */
const ASK_AGAIN = 1_000;

const views = {
  elections: { title: "Elections", mount: elections.mount },
  approvals: { title: "Approvals", mount: approvals.mount, count: () => model.questions().length },
  timeline: { title: "Timeline", mount: timelines.mount },
  agents: { title: "Agents", mount: agents.mount },
  alerts: { title: "Alerts", mount: alerts.mount, count: () => alerts.alerts().length },
  audit: { title: "Audit", mount: audit.mount, hidden: true },
};

const main = document.getElementById("main");
const tabs = document.getElementById("tabs");
const live = document.getElementById("live");
const who = document.getElementById("who");
const halted = document.getElementById("halted");
const said = document.getElementById("said");

let view = null;
let begun = false;
let lives = false;
let unsaid = [];
let asked = -Infinity;

function place() {
  const [, name = "elections", ...rest] = location.hash.split("/");
  if (name === "election" && rest.length) {
    let given = rest.join("/");
    try {
      given = decodeURIComponent(given);
    } catch {
      // It is shown as it was written, and is no election.
    }
    return { name: "elections", election: given };
  }
  return { name: views[name] ? name : "elections" };
}

function route() {
  if (location.hash === "#main") return;
  if (location.hash.startsWith("#sign-in=")) return void start();
  if (sign.me.locked) return locked();
  const here = place();
  view = here.election ? election.mount(main, here.election) : views[here.name].mount(main);
  document.title = `${here.election ?? views[here.name].title} – Baton`;
  head();
}

function locked() {
  view = null;
  stream.close();
  main.replaceChildren(h("h1", {}, "Sign in"), h("div", { class: "panel" },
    h("p", {}, "This server shows its elections to those who are signed in. On a machine with an operator's key:"),
    h("pre", {}, `baton dashboard --store ${location.origin}`),
    h("p", { class: "quiet" }, "It opens this page with a link that works once.")));
  head();
}

function head() {
  const here = place();
  const shown = Object.entries(views).filter(([, one]) => !one.hidden).map(([name, one]) => [name, one.title, one.count?.() ?? 0, name === here.name && !sign.me.locked]);
  show(tabs, shown, () => shown.map(([name, title, count, current]) =>
    h("a", { href: `#/${name}`, "data-key": name, "aria-current": current ? "page" : null }, title, count > 0 && h("span", { class: "bubble" }, count))));
  say(live, sign.me.locked ? "" : lives ? "live" : begun ? "not connected, trying again" : "connecting");
  show(halted, sign.me.locked ? [] : everything.bannerKey(), () => sign.me.locked ? [] : everything.banner());
  live.className = `live ${lives ? "on" : "off"}`;
  const { session } = sign.me;
  const state = session ? [sign.person(session.operator), sign.canAct(), Math.ceil((session.until - performance.now()) / 60_000)] : [];
  show(who, [state, sign.me.locked], () => session
    ? [h("span", { title: `Operator ${session.operator}` }, sign.canAct() ? `operator ${sign.person(session.operator)}, ${span(session.until - performance.now())} left` : "read only"),
      h("button", { type: "button", "data-key": "sign-out", onclick: leave }, "Sign out")]
    : h("span", { title: sign.whyNot() }, "read only"));
}

async function leave() {
  await sign.signOut().catch((problem) => toast(problem.message));
  await start();
}

/** Says changes of leader aloud, a few at a time: a countdown is never said. */
function hear(changes) {
  unsaid.push(...changes);
}

function speak() {
  if (!unsaid.length) return;
  const changes = unsaid;
  unsaid = [];
  say(said, changes.length > ALOUD ? `${changes.length} changes of leader`
    : changes.map((change) => `${change.election}: ${change.to} leads (${why(change.cause)})`).join("; "));
}

function update() {
  head();
  view?.update();
  if (!sign.me.locked && everything.isBehind() && performance.now() - asked > ASK_AGAIN) {
    asked = performance.now();
    sign.refresh().then(head, () => {});
  }
}

async function start() {
  try {
    const trouble = await sign.arrive();
    if (trouble) toast(trouble);
    if (sign.me.locked) return locked();
    if (begun) stream.open();
    else {
      begun = true;
      stream.begin({ tell: (now) => { lives = now; head(); if (!now) check(); }, hear, poke: (what) => view?.poke?.(what) });
    }
    route();
    views.audit.hidden = !(await audit.isThere());
    await alerts.look(true);
    update();
  } catch (problem) {
    lives = false;
    toast(`${problem.message}. ${problem.hint ?? ""}`);
    setTimeout(start, 2_000);
  }
}

/** The stream ended: perhaps because the sign-in did. */
async function check() {
  const before = sign.me.locked;
  await sign.refresh().catch(() => {});
  if (sign.me.locked && !before) locked();
}

addEventListener("hashchange", route);
model.listen(update);
setInterval(() => {
  if (document.hidden) return;
  view?.tick();
  alerts.look();
}, TICK);
setInterval(async () => {
  if (document.hidden || sign.me.locked) return;
  await sign.refresh().catch(() => {});
  update();
}, 10_000);
setInterval(speak, ALOUD_EVERY);
start();
