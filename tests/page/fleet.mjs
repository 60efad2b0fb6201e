// A server, an operator and agents that really run, in a folder of their own.

import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BATON = process.env.BATON_BINARY;
/** A bound on a hang, not an expectation. */
export const HANG = 60_000;

/** Waits until something is so. */
export async function until(what, is, ms = HANG) {
  const begun = performance.now();
  for (;;) {
    const found = await is();
    if (found) return found;
    if (performance.now() - begun > ms) throw new Error(`${what} did not come within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export class Fleet {
  /** A server; a guarded one asks everybody for a token, and its operator has one. */
  static async start(guarded = false) {
    const fleet = new Fleet();
    fleet.folder = mkdtempSync(join(tmpdir(), "page-"));
    const { HOME, PATH, BATON_TEST_RUN } = process.env;
    fleet.env = { HOME, PATH, ...(BATON_TEST_RUN && { BATON_TEST_RUN }), BATON_CONFIG_DIR: join(fleet.folder, "config"), BATON_STATE_DIR: join(fleet.folder, "state"), BATON_OPERATOR_CODE_FILE: join(fleet.folder, "baton.redb.operator-code") };
    fleet.processes = new Map();
    const address = join(fleet.folder, "address");
    const store = `embedded:${join(fleet.folder, "baton.redb")}`;
    if (guarded) {
      fleet.baton("init", "--store", store);
      fleet.env.BATON_HTTP_TOKEN = fleet.baton("token", "create", "--role", "operator", "--store", store).split("\n")[0];
    }
    fleet.run("server", ["serve", "--listen", "127.0.0.1:0", "--address-file", address, "--store", store, ...(guarded ? ["--require-tokens"] : [])]);
    await until("the server", () => existsSync(address) && readFileSync(address, "utf8").endsWith("\n"));
    fleet.url = `http://${readFileSync(address, "utf8").trim()}`;
    fleet.env.BATON_STORE = fleet.url;
    return fleet;
  }

  /** Starts a process of its own group, and keeps it by a name. */
  run(name, args) {
    const child = spawn(BATON, args, { env: this.env, stdio: "ignore", detached: true });
    this.processes.set(name, child);
    return child;
  }

  /** An agent that leads, or waits for its turn. */
  agent(election, agent, more = [], script = "exec sleep 1000") {
    return this.run(`${election} ${agent}`, ["run", election, "--as", agent, "--ttl", "12s", ...more, "--", "sh", "-c", script]);
  }

  /** Kills `baton run` itself, as a crash would; its warden ends the rest and gives the lease back. */
  kill(election, agent) {
    process.kill(this.processes.get(`${election} ${agent}`).pid, "SIGKILL");
  }

  /** What a command of the first operator prints. */
  baton(...args) {
    return this.batonAs("config", ...args);
  }

  /** The same for who has that configuration. */
  batonAs(config, ...args) {
    return execFileSync(BATON, args, { env: { ...this.env, BATON_CONFIG_DIR: join(this.folder, config) }, encoding: "utf8", timeout: HANG, stdio: ["ignore", "pipe", "pipe"] }).trim();
  }

  async json(path, body) {
    const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(this.url + path, options);
    return response.json();
  }

  async leader(election) {
    return (await this.json(`/v1/elections/${encodeURIComponent(election)}/leader`)).agent;
  }

  /** A file with this text. */
  file(name, text) {
    const path = join(this.folder, name);
    writeFileSync(path, text);
    return path;
  }

  async stop() {
    const ended = [...this.processes.values()].map((child) => child.exitCode !== null || child.signalCode !== null ? null : new Promise((resolve) => child.once("exit", resolve)));
    for (const [name, child] of this.processes) {
      if (name !== "server" && child.exitCode === null) try { process.kill(child.pid, "SIGTERM"); } catch { /* It is gone. */ }
    }
    await Promise.race([Promise.all(ended.slice(1)), new Promise((resolve) => setTimeout(resolve, HANG).unref())]);
    try { process.kill(this.processes.get("server").pid, "SIGTERM"); } catch { /* It is gone. */ }
    await Promise.race([ended[0], new Promise((resolve) => setTimeout(resolve, HANG).unref())]);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
