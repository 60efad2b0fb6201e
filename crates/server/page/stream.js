// One stream of all changes. It is opened anew when other leases are looked at, from where it was.

import * as model from "./model.js";

/** How long a stream may be silent: the server says every ten seconds that it lives. */
const SILENT = 25_000;
/** How soon a stream is opened again. */
const AGAIN = [250, 500, 1_000, 2_000, 5_000];
const SETTLE = 300;

let source = null;
let after = "";
let watched = [];
let failures = 0;
let heard = 0;
let timer = null;
let tell = () => {};
let hear = () => {};
let poke = () => {};

/** Begins. `tell` is told whether the stream lives; `hear` of changes of leader; `poke` that agents, boards, or something else, changed. */
export function begin(on) {
  ({ tell, hear, poke } = on);
  setInterval(() => {
    if (source && performance.now() - heard > SILENT) lost();
  }, 5_000);
  open();
}

/** These elections are looked at: renewals of their leases are told, and what else changes without them. */
export function watch(elections) {
  const wanted = [...elections].sort().slice(0, 100);
  if (wanted.join() === watched.join()) return;
  watched = wanted;
  clearTimeout(timer);
  timer = setTimeout(open, SETTLE);
}

/** Closes it: there is nobody to be told, or another one is wanted. */
export function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

/** Opens it, from where it was. */
export function open() {
  close();
  heard = performance.now();
  const leases = watched.map(encodeURIComponent).join(",");
  const query = [after && `after=${encodeURIComponent(after)}`, leases && `leases=${leases}`].filter(Boolean);
  const opened = new EventSource(`/v1/events${query.length ? `?${query.join("&")}` : ""}`);
  source = opened;
  const on = (kind, take) => opened.addEventListener(kind, (event) => {
    if (source !== opened) return;
    heard = performance.now();
    if (event.lastEventId) after = event.lastEventId;
    take(JSON.parse(event.data));
  });
  on("hello", ({ fresh }) => {
    tell(true);
    // Only what changes after this is told: the rest is looked at.
    if (fresh) reload();
    else failures = 0;
  });
  on("alive", () => {});
  on("changes", ({ rows }) => {
    const changes = rows.map(model.take).filter(Boolean);
    if (changes.length) hear(changes);
    model.changed();
  });
  on("leases", ({ leases: renewed }) => {
    for (const [election, token, leaseMs] of renewed) model.renew(election, token, leaseMs);
  });
  on("attended", ({ rows }) => {
    rows.forEach(model.attend);
    model.changed();
  });
  on("boards", () => poke("boards"));
  on("gap", reload);
  on("agents", () => poke("agents"));
  opened.onerror = () => {
    if (source === opened) lost();
  };
}

async function reload() {
  try {
    await model.load();
    failures = 0;
    poke("gap");
  } catch {
    // What the stream did not tell is still to be looked at: the next one must begin anew.
    after = "";
    lost();
  }
}

function lost() {
  close();
  tell(false);
  const wait = AGAIN[Math.min(failures, AGAIN.length - 1)];
  failures += 1;
  timer = setTimeout(open, wait);
}
