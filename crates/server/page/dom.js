// Makes what is shown. Text of others is only ever put in as text: there is no other way in this page.

const SVG = "http://www.w3.org/2000/svg";

/** Control characters, those that turn the direction of writing, and those without a width would hide what a text says. */
// eslint-disable-next-line no-control-regex
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Text as it may be shown. */
export function clean(text) {
  return String(text).replace(ODD, "\ufffd");
}

function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
}

function dress(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : clean(value));
  }
}

/** An element: its name, its attributes (those that begin with `on` are listeners), what is in it. */
export function h(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  dress(node, attributes);
  fill(node, children);
  return node;
}

/** The same for a drawing. */
export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  dress(node, attributes);
  fill(node, children);
  return node;
}

/** Puts text there if it is another one: whoever has selected it keeps the selection. */
export function say(node, text) {
  const shown = clean(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/** Fills a place anew if what it shows has changed, and leaves the focus where it was. */
export function show(place, key, build) {
  const now = JSON.stringify(key);
  if (place.dataset.shows === now) return;
  place.dataset.shows = now;
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren();
  fill(place, [build()]);
  if (focused) [...place.querySelectorAll("[data-key]")].find((node) => node.dataset.key === focused)?.focus();
}

/** A heading with something below it. */
export function section(title, ...children) {
  return h("section", { class: "panel" }, h("h2", {}, title), ...children);
}

/** Pairs of words and what they stand for; pairs without the latter are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, known.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** A table: a caption for who does not see it, heads, rows of cells. */
export function table(caption, heads, rows) {
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: "rows" },
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, place) => h("td", { "data-head": heads[place] }, cell)))))));
}

/** What stands where there is nothing. */
export function empty(title, text) {
  return h("div", { class: "empty" }, h("p", { class: "strong" }, title), h("p", {}, text));
}

/** A word in a coloured frame. The colour repeats what the word says. */
export function badge(word, kind) {
  return h("span", { class: `badge ${kind}` }, word);
}
