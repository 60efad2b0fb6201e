// Who is known to be there: what each says of its health and progress, which is believed as far as it can be read.

import { getIfThere } from "./api.js";
import { badge, clean, empty, h, say, show } from "./dom.js";
import * as model from "./model.js";
import * as stream from "./stream.js";
import { span } from "./time.js";

const MOST = 500;
const WORDS = 8;

/** A share between 0 and 1 in whatever an agent says of its progress. */
function share(value) {
  if (typeof value === "number" && Number.isFinite(value)) return Math.max(0, Math.min(1, value > 1 ? value / 100 : value));
  if (!value || typeof value !== "object") return null;
  for (const name of ["progress", "percent", "share", "fraction"]) {
    if (typeof value[name] === "number") return share(value[name]);
  }
  const total = value.total ?? value.of;
  return typeof value.done === "number" && total > 0 ? Math.min(1, Math.max(0, value.done / total)) : null;
}

/** Tasks of an agent: those of its description, else what it says of its progress; the whole of that is one if it names none. */
function tasks(agent) {
  const described = agent.description?.tasks;
  if (described?.length) {
    return described.slice(0, WORDS).map((one) => ({ task: one.name, estimate_ms: one.estimate_ms, ...(one.percent === undefined ? {} : { progress: one.percent / 100 }) }));
  }
  const { progress } = agent;
  if (progress === null || progress === undefined) return [];
  const several = Array.isArray(progress) ? progress : progress.tasks;
  if (Array.isArray(several)) return several.slice(0, WORDS);
  return [progress];
}

function task(value) {
  const part = share(value);
  const name = typeof value === "string" ? value : value?.task ?? value?.name ?? value?.title ?? "";
  const word = typeof name === "string" ? name : JSON.stringify(name);
  const eta = value?.eta_ms ?? value?.estimate_ms;
  return h("div", { class: "task" }, part === null
    ? h("span", {}, word || words(value))
    : [h("progress", { max: "1", value: part, "aria-label": `Progress${word ? ` of ${clean(word)}` : ""}` }), h("span", {}, `${word ? `${word} ` : ""}${Math.round(part * 100)} %`)],
  typeof eta === "number" && h("span", { class: "quiet" }, `, ${span(eta)} to go`));
}

/** Whatever it is, as a few words. */
function words(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  const pairs = Array.isArray(value) ? value.map((one) => ["", one]) : Object.entries(value);
  return pairs.filter(([name]) => name !== "capabilities").slice(0, WORDS)
    .map(([name, one]) => `${name}${name && " "}${typeof one === "object" ? JSON.stringify(one) : one}`).join(", ").slice(0, 300);
}

/** How an agent is, in a few words: what does not work stands first. */
function condition(agent) {
  const { cpu_percent: cpu, memory_bytes: memory, queue_depth: queue, dependencies = {} } = agent.description ?? {};
  const bad = Object.entries(dependencies).filter(([, fares]) => fares !== "ok").slice(0, WORDS).map(([name, fares]) => `${name} ${fares}`);
  return [...bad, cpu !== undefined && `cpu ${cpu} %`, memory !== undefined && `memory ${Math.round(memory / 1048576)} MiB`,
    queue !== undefined && `queue ${queue}`, typeof agent.suspicion === "number" && `φ ${agent.suspicion.toFixed(1)}`, words(agent.health)].filter(Boolean).join(", ");
}

function health(agent, silent) {
  const { suspicion } = agent;
  const failing = Object.values(agent.description?.dependencies ?? {}).includes("failing");
  if (silent > agent.lasts_ms) return badge("gone", "bad");
  const said = agent.health?.status ?? (typeof agent.health === "string" ? agent.health : null);
  if (said && !["ok", "healthy", "good", "up"].includes(String(said).toLowerCase())) return badge(String(said).slice(0, 24), "wait");
  if (failing) return badge("failing", "wait");
  if (typeof suspicion === "number" && suspicion >= 8) return badge("suspect", "wait");
  return silent > agent.lasts_ms / 2 ? badge("late", "wait") : badge("alive", "good");
}

/** Which elections an agent leads, as far as this page knows. */
function leads(name) {
  const led = [];
  for (const row of model.rows.values()) if (row.leader?.agent === name && model.remaining(row) > 0) led.push(row.election);
  return led.sort();
}

/** Who leads something. */
function leaders() {
  const all = new Set();
  for (const row of model.rows.values()) if (row.leader && model.remaining(row) > 0) all.add(row.leader.agent);
  return all;
}

function names(all) {
  return all.length > 3 ? `${all.slice(0, 3).join(", ")} and ${all.length - 3} more` : all.join(", ");
}

function line(agent, at) {
  const state = h("td", { "data-head": "State" });
  const heard = h("td", { class: "quiet number", "data-head": "Heard" });
  const capabilities = agent.description?.capabilities ?? agent.health?.capabilities ?? [];
  const led = leads(agent.agent);
  const node = h("tr", {},
    h("th", { scope: "row" }, agent.agent), state, heard,
    h("td", { "data-head": "Leads" }, led.length ? names(led) : "–"),
    h("td", { "data-head": "Capabilities" }, h("div", {}, Array.isArray(capabilities) && capabilities.length ? capabilities.slice(0, 16).map((one) => h("span", { class: "tag" }, String(one))) : "–")),
    h("td", { "data-head": "Progress" }, tasks(agent).length > 0 && h("div", {}, tasks(agent).map(task))),
    h("td", { class: "quiet", "data-head": "Health" }, condition(agent)),
    h("td", { class: "quiet", "data-head": "Follows" }, names(agent.follows ?? [])));
  let word = "";
  return {
    node,
    tick() {
      if (agent.silent_ms === null) {
        if (!word) state.replaceChildren(badge(word = "no session", "calm"));
        return say(heard, "–");
      }
      const silent = agent.silent_ms + (performance.now() - at);
      const now = health(agent, silent);
      if (now.textContent !== word) {
        word = now.textContent;
        state.replaceChildren(now);
      }
      say(heard, `${span(silent)} ago`);
    },
  };
}

/** Shows who is there. */
export function mount(place) {
  const list = h("div", {});
  place.replaceChildren(h("h1", {}, "Agents"), list);
  stream.watch([]);
  let lines = [];
  let asking = false;

  async function look() {
    if (asking) return;
    asking = true;
    try {
      const all = await getIfThere("/v1/sessions");
      const agents = [...(all ?? [])];
      const at = performance.now();
      const there = new Set(agents.map((agent) => agent.agent));
      for (const agent of leaders()) if (!there.has(agent)) agents.push({ agent, silent_ms: null, lasts_ms: 0, follows: [] });
      agents.sort((one, other) => (one.agent < other.agent ? -1 : 1));
      lines = agents.slice(0, MOST).map((agent) => line(agent, at));
      const heads = ["Agent", "State", "Heard", "Leads", "Capabilities", "Progress", "Health", "Follows"];
      show(list, [at], () => all === null ? empty("Not for this token", "Who is there is shown to tokens for all elections.")
        : agents.length === 0 ? empty("Nobody is known to be there", "Agents are shown here once they lead, or announce a session with this server.")
          : [h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Agents" },
            h("table", { class: "agents" }, h("caption", { class: "hidden" }, "Agents"),
              h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
              h("tbody", {}, lines.map((one) => one.node)))),
          agents.length > MOST && h("p", { class: "quiet" }, `and ${agents.length - MOST} more: baton agents shows them`)]);
      tick();
    } catch (problem) {
      show(list, problem.message, () => empty("Agents cannot be read", problem.message));
    } finally {
      asking = false;
    }
  }

  function tick() {
    for (const one of lines) one.tick();
  }

  look();
  return { update: () => model.rows.size && lines.length === 0 && look(), tick, poke: (what) => what !== "boards" && look() };
}
