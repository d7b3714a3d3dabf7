// The key is stored for this tab only: not in a cookie, in localStorage or in a link.
import { byId } from "./dom.js";

const PLACE = "fdarx-key";

/** @type {Promise<boolean> | null} */
let asking = null;

export const storedKey = () => sessionStorage.getItem(PLACE);

function showForget() {
  byId("forget-key").hidden = storedKey() === null;
}

/**
 * Asks for a key, once for all requests that wait for it. Returns false if the reader cancels.
 * @param {boolean} wrong whether the server has rejected a key
 */
export function askForKey(wrong) {
  asking ??= prompt(wrong).finally(() => { asking = null; });
  return asking;
}

/** @param {boolean} wrong @returns {Promise<boolean>} */
function prompt(wrong) {
  const dialog = byId("key-dialog");
  byId("key").value = "";
  byId("key-problem").textContent = wrong ? "The server did not accept this key. Check it, and type it again." : "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "given"), { once: true });
  });
}

/** @param {SubmitEvent} event */
function take(event) {
  event.preventDefault();
  const key = byId("key").value.trim();
  if (!/^[\x21-\x7e]+$/.test(key)) {
    byId("key-problem").textContent = key ? "A key has no spaces and no accented letters." : "Type the key first.";
    return;
  }
  sessionStorage.setItem(PLACE, key);
  showForget();
  byId("key-dialog").close("given");
}

export function readyKey() {
  byId("key-form").addEventListener("submit", take);
  byId("key-cancel").addEventListener("click", () => byId("key-dialog").close(""));
  byId("forget-key").addEventListener("click", () => {
    sessionStorage.removeItem(PLACE);
    showForget();
  });
  showForget();
}
