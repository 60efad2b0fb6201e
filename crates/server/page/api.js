// Requests to the server that this page came from.

/** Why a request was not carried out: the server's own words, with its hint. */
export class Problem extends Error {
  constructor(status, said) {
    super(said.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = said.code ?? "unknown";
    this.hint = said.hint ?? "";
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Problem(0, { detail: "the server cannot be reached", code: "unavailable", hint: "is it running?" });
  }
  const text = await response.text();
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    said = {};
  }
  if (!response.ok) throw new Problem(response.status, said);
  return said;
}

/** What stands there. */
export function get(path) {
  return ask(path);
}

/** The same; null if the server has nothing of the kind. */
export async function getIfThere(path) {
  try {
    return await ask(path);
  } catch (problem) {
    if (problem.status === 404 || problem.status === 403) return null;
    throw problem;
  }
}

/** Sends an object, or JSON that is text already: numbers above 2^53 stay what they are. */
export function post(path, body) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: text });
}

/** A name in a path. */
export function of(election) {
  return `/v1/elections/${encodeURIComponent(election)}`;
}
