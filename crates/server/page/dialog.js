// The page's one dialog: it asks once more before an operator's order is signed.

import { h } from "./dom.js";
import * as sign from "./sign.js";

/**
 * Asks. `submit` gets the form and a function that shows progress; it returns what is said when the order was sent, and an error that it throws is shown in the dialog.
 * Returns the button and the place for errors, for a caller that has to look something up first.
 */
export function ask({ title, body, fields = [], word, danger = false, submit }) {
  const dialog = document.getElementById("confirm");
  const trouble = h("p", { class: "trouble", role: "alert" });
  const main = h("button", { type: "submit", class: danger ? "danger" : "main", "data-act": "confirm" }, word);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { novalidate: false },
    h("h2", { id: "confirm-title" }, title), body,
    sign.canAct() ? fields : h("p", { class: "notice" }, sign.whyNot()), trouble,
    h("div", { class: "acts end" }, cancel, sign.canAct() && main));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    main.disabled = true;
    trouble.textContent = "";
    try {
      const said = await submit(form, (progress) => { main.textContent = progress; });
      dialog.close();
      toast(said);
    } catch (problem) {
      trouble.textContent = `${problem.message}. ${problem.hint ?? ""}`;
      if (problem.code === "not-signed-in") await sign.refresh();
    } finally {
      main.disabled = false;
      main.textContent = word;
    }
  });
  dialog.replaceChildren(form);
  const returnTo = document.activeElement?.dataset?.key;
  dialog.onclose = () => [...document.querySelectorAll("[data-key]")].find((node) => node.dataset.key === returnTo)?.focus();
  dialog.showModal();
  (form.querySelector("input, textarea") ?? cancel).focus();
  return { main, trouble };
}

/** Says something for a few seconds, also to who does not see it. */
export function toast(text) {
  const node = h("p", { class: "toast" }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), 6_000);
}
