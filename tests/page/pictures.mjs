// Takes the pictures of the docs: BATON_BINARY=… node pictures.mjs FOLDER

import { chromium } from "playwright-core";

import { Fleet, until } from "./fleet.mjs";

const folder = process.argv[2];
const fleet = await Fleet.start();
let beats = 0;

async function beat() {
  const said = {
    "agent-2": { health: { status: "ok", cpu: 0.42, memory: 0.61, queue: 3, capabilities: ["rust", "review"] }, progress: [{ task: "move the parser", progress: 0.35, eta_ms: 480_000 }] },
    "agent-3": { health: { status: "degraded", cpu: 0.97, capabilities: ["rust"] }, progress: { task: "tests", done: 3, total: 4 } },
    "agent-6": { health: { status: "ok", cpu: 0.11, capabilities: ["deploy"] } },
  };
  for (const [place, [agent, words]] of Object.entries(said).entries()) {
    const credential = { incarnation: `000000000000000${place}`, key: "0".repeat(32) };
    beats += 2;
    if (beats <= 6) await fleet.json("/v1/sessions", { agent, credential, number: beats - 1, follows: ["refactor-auth"] });
    await fleet.json("/v1/sessions/heartbeat", { credential, number: beats, ...words });
  }
}

async function pictures() {
  fleet.baton("init");
  for (let number = 1; number <= 5; number += 1) {
    fleet.agent("refactor-auth", `agent-${number}`, ["--task", "Split the auth module"]);
    if (number === 1) await until("a leader", () => fleet.leader("refactor-auth"));
  }
  for (const [region, agent] of [["eu", "agent-6"], ["us", "agent-7"]]) fleet.agent(`fleet/${region}`, agent, ["--task", `Coordinate ${region}`]);
  fleet.baton("pause", "nightly", "--reason", "release freeze");
  fleet.baton("acquire", "deploy", "--as", "agent-8", "--task", "Roll out 1.4");
  fleet.baton("release", "deploy", "--as", "agent-8");
  fleet.baton("policy", "release", "--approval", "checkpoints");
  const state = fleet.file("state.json", JSON.stringify({ files: ["auth/session.rs", "auth/token.rs"], tests: { passed: 212, failed: 0 } }));
  fleet.agent("release", "agent-9", ["--task", "Release 1.4"], `"${process.env.BATON_BINARY}" checkpoint release --summary 'The module is split and all tests pass' --state @${state}; exec sleep 1000`);
  await beat();
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  const first = await fleet.leader("refactor-auth");
  fleet.kill("refactor-auth", first);
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  fleet.baton("depose", "refactor-auth", "--reason", "goes in circles");
  await until("a leader", () => fleet.leader("refactor-auth"));
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  await beat();
  const browser = await chromium.launch({ executablePath: process.env.BATON_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
  for (const [name, options, views] of [
    ["desktop", { viewport: { width: 1200, height: 640 }, colorScheme: "light" }, { "": "elections", "-approvals": "approvals", "-timeline": "timeline" }],
    ["dark", { viewport: { width: 1200, height: 720 }, colorScheme: "dark" }, { "": "election/refactor-auth", "-agents": "agents" }],
    ["phone", { viewport: { width: 390, height: 780 }, colorScheme: "light", isMobile: true, hasTouch: true }, { "": "elections", "-timeline": "timeline" }],
  ]) {
    const link = fleet.baton("dashboard", "--print").split("\n").find((line) => line.includes("#sign-in="));
    const context = await browser.newContext(options);
    if (process.env.BATON_PAGE_FILES) await context.route("**/page/*", (route) => route.fulfill({ path: `${process.env.BATON_PAGE_FILES}/${new URL(route.request().url()).pathname.split("/").pop()}` }));
    const page = await context.newPage();
    await page.goto(link);
    await page.getByText(/operator [0-9a-f]{8}/).waitFor();
    for (const [suffix, view] of Object.entries(views)) {
      await page.goto(`${fleet.url}/#/${view}`);
      await page.waitForTimeout(800);
      await page.screenshot({ path: `${folder}/dashboard-${name}${suffix}.png` });
    }
    await context.close();
  }
  await browser.close();
}

try {
  await pictures();
} finally {
  await fleet.stop();
}
