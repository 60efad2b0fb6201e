// The task board of an election, where there is one.

import { badge, empty, h, table } from "./dom.js";
import { span } from "./time.js";

const MOST = 200;
const KIND = { queued: "calm", assigned: "wait", working: "wait", done: "good", failed: "bad", cancelled: "calm" };

function progress({ state, progress: said }) {
  if (!said || state === "queued") return "";
  const estimate = said.estimate_ms ? `, ${span(said.estimate_ms)} to go` : "";
  return [h("progress", { max: "100", value: said.percent, "aria-label": "Progress" }), ` ${said.percent} %${estimate}${said.note ? `: ${said.note}` : ""}`];
}

/** A board as the server told it. */
export function board({ items, more }) {
  if (!items.length) return empty("No tasks", "The leader puts some on the board with: baton task add");
  const rows = items.slice(0, MOST).map((task) => [
    h("span", { class: "strong" }, task.id),
    badge(task.state, KIND[task.state] ?? "calm"),
    task.attempts?.at(-1)?.agent ?? "–",
    progress(task),
    h("span", { class: "number" }, task.attempts?.length ?? 0),
    h("span", { class: "reason" }, [task.title, task.result, task.reason].filter(Boolean).join(" – ")),
  ]);
  return [table("Tasks", ["Task", "State", "Agent", "Progress", "Attempts", "What"], rows),
    (more || items.length > MOST) && h("p", { class: "quiet" }, "There are more: baton task list")];
}
