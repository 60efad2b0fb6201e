// Who sits here: a one-time link of `baton dashboard` brings a key that this browser keeps and cannot show again. It signs acts; the
// operator's own key never comes here.

import { get, post } from "./api.js";

/** What stands before the seed of an Ed25519 key in PKCS #8. */
const PKCS8 = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const LINK = /^#sign-in=([0-9a-f]{64})\.([0-9a-f]{64})$/;

/** What is known of this page's own standing. */
export const me = { store: null, version: null, paused: null, waiting: [], operators: {}, observes: false, locked: false, session: null, key: null, why: "" };

let memory = null;

/** Takes the secrets out of the address, so that neither the history nor a bookmark has them. */
function takeLink() {
  const found = LINK.exec(location.hash);
  if (location.hash.startsWith("#sign-in=")) history.replaceState(null, "", `${location.pathname}#/elections`);
  return found && { code: found[1], seed: found[2] };
}

/** Finds out who sits here; signs in if the address is a link for that. Returns what went wrong, for people. */
export async function arrive() {
  const link = takeLink();
  let trouble = "";
  if (link) {
    try {
      const session = await post("/v1/sign-ins/open", { code: link.code });
      await keep(session.key, link.seed);
    } catch (problem) {
      trouble = `${problem.message}. ${problem.hint ?? ""}`;
    }
  }
  await refresh();
  return trouble;
}

/** Asks the server again who sits here. */
export async function refresh() {
  try {
    const { store, version, paused, waiting, operators, observes, signed_in: session } = await get("/v1/sign-in");
    Object.assign(me, { store, version, paused, waiting, operators, observes, locked: false, session });
  } catch (problem) {
    if (problem.status !== 401) throw problem;
    Object.assign(me, { locked: true, session: null });
  }
  if (me.session) me.session.until = performance.now() + me.session.lasts_ms;
  me.key = me.session ? await kept(me.session.key) : null;
}

/** What people call an operator, beside the first digits of its key: those are what counts. */
export function person(key) {
  const name = Object.hasOwn(me.operators ?? {}, key) ? me.operators[key] : "";
  return name ? `${name} (${key.slice(0, 8)})` : key.slice(0, 8);
}

/** Whether acts can be signed here. */
export function canAct() {
  return Boolean(me.session && me.key && me.session.until > performance.now());
}

/** Why they cannot, in words. */
export function whyNot() {
  if (me.observes) return "This page only observes. Act in the store itself, with the `baton` command.";
  if (!me.session) return "Run `baton dashboard` on the operator's machine to sign in here.";
  if (me.session.until <= performance.now()) return "The sign-in is over. Run `baton dashboard` again.";
  return me.why || "This browser has no key for this sign-in. Run `baton dashboard` again.";
}

/** Ends the sign-in, here and at the server. */
export async function signOut() {
  const session = me.session;
  Object.assign(me, { session: null, key: null });
  memory = null;
  await withStore("readwrite", (store) => store.clear()).catch(() => {});
  if (session) await post("/v1/sign-ins/close", { key: session.key });
}

/** The signature of this browser's key over a text, in hexadecimal digits. */
export async function sign(text) {
  const signature = await crypto.subtle.sign("Ed25519", me.key, new TextEncoder().encode(text));
  return [...new Uint8Array(signature)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Has the server draft an order, looks at it, and signs it. Returns it as it is sent: the text is sent as it was signed. */
export async function order(path, signedAs, wanted, check) {
  const { key } = me.session;
  const { text, via } = await post(`${path}/draft`, { key, ...wanted });
  if (JSON.parse(via).order.key !== key) throw new Error("the server drafted an order for another browser");
  check(JSON.parse(text));
  return `{"order":${text},"by":"${key}","signature":"${await sign(signedAs + text)}","via":${via}}`;
}

/** Keeps a key so that pages of this server can sign with it and nobody can read it. */
async function keep(id, seed) {
  const bytes = new Uint8Array([...PKCS8, ...seed.match(/../g).map((pair) => parseInt(pair, 16))]);
  try {
    if (!globalThis.crypto?.subtle) throw new Error("no WebCrypto");
    const key = await crypto.subtle.importKey("pkcs8", bytes, "Ed25519", false, ["sign"]);
    memory = { id, key };
    await withStore("readwrite", (store) => (store.clear(), store.put(key, id))).catch(() => {});
  } catch {
    me.why = "This browser cannot sign (its WebCrypto has no Ed25519): you see everything, and act with the `baton` command.";
  } finally {
    bytes.fill(0);
  }
}

async function kept(id) {
  if (memory?.id === id) return memory.key;
  return (await withStore("readonly", (store) => store.get(id)).catch(() => null)) ?? null;
}

/** Does something with the one table of this page's database. */
function withStore(mode, use) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("baton", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const transaction = database.transaction("keys", mode);
      const asked = use(transaction.objectStore("keys"));
      transaction.oncomplete = () => {
        database.close();
        resolve(asked?.result);
      };
      transaction.onerror = () => reject(transaction.error);
    };
  });
}
