// Adding documents to the chosen corpus, where the server lets this reader.
import { byId, counted, element } from "./dom.js";
import { errorHeading } from "./notices.js";
import { addDocuments, ServiceError } from "./service.js";

/** @typedef {import("./service.js").Added} Added */

const SHOWN = 20;

export class Upload {
  /** @param {() => string} corpus returns the name of the chosen corpus @param {() => void} done is called once documents were added */
  constructor(corpus, done) {
    this.corpus = corpus;
    this.done = done;
    this.file = /** @type {HTMLInputElement} */ (byId("upload-file"));
    this.send = /** @type {HTMLButtonElement} */ (byId("upload-send"));
    this.status = byId("upload-status");
    this.file.addEventListener("change", () => { this.send.disabled = !this.file.files?.length; });
    this.send.addEventListener("click", () => void this.add());
  }

  /** Shows the fields if files with some endings are taken. @param {string[]} endings */
  offers(endings) {
    byId("upload").hidden = endings.length === 0;
    this.file.accept = endings.join(",");
    this.send.disabled = !this.file.files?.length;
  }

  async add() {
    const file = this.file.files?.[0];
    if (!file) return;
    this.send.disabled = true;
    this.status.textContent = `Adding ${file.name}…`;
    try {
      this.show(file.name, await addDocuments(this.corpus(), file));
      this.file.value = "";
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      this.status.textContent = error.message || errorHeading(error);
      this.send.disabled = false;
    }
  }

  /** @param {string} name @param {Added} added */
  show(name, { added, rejected, corpus, version }) {
    if (added) this.done();
    const left = rejected.length ? ` ${counted(rejected.length, "part")} could not be added:` : "";
    const what = added ? counted(added, "document") : "No document";
    const reasons = rejected.slice(0, SHOWN).map((one) => element("li", "", `${one.name}: ${one.detail || one.reason}`));
    this.status.replaceChildren(
      `${what} of ${name} added to ${corpus}, version ${version}.${left}`,
      ...(reasons.length ? [element("ul", "", ...reasons)] : []),
    );
  }
}
