// A panel with a passage in its section: beside the answer on wide screens, over the page on narrow ones.
import { byId, element, sectionWords } from "./dom.js";
import { scores, sourceOf } from "./answer.js";
import { around, isStop } from "./service.js";

/** @typedef {import("./service.js").Passage} Passage @typedef {import("./service.js").Neighbor} Neighbor */

const WIDE = window.matchMedia("(min-width: 60rem)");
const LEAST_OVERLAP = 20;

/**
 * Returns how many characters at the end of one text begin the next one: chunks of a document overlap.
 * @param {string} a @param {string} b
 */
function overlap(a, b) {
  for (let length = Math.min(a.length, b.length); length >= LEAST_OVERLAP; length -= 1) {
    if (a.endsWith(b.slice(0, length))) return length;
  }
  return 0;
}

/** Removes text from neighbors that overlaps with the text nearer to the passage. @param {Neighbor[]} found */
function withoutRepeats(found) {
  const here = found.findIndex((one) => one.here);
  return found.map((one, at) => {
    if (at < here) return { ...one, text: one.text.slice(0, one.text.length - overlap(one.text, found[at + 1].text)) };
    if (at > here) return { ...one, text: one.text.slice(overlap(found[at - 1].text, one.text)) };
    return one;
  });
}

/** @param {{text: string, here: boolean}} one */
function block({ text, here }) {
  return here ? element("mark", "text here", text) : element("p", "text", text);
}

export class Panel {
  constructor() {
    this.dialog = /** @type {HTMLDialogElement} */ (byId("panel"));
    this.body = /** @type {HTMLElement} */ (byId("panel-body"));
    /** @type {HTMLElement | null} */
    this.opener = null;
    this.request = new AbortController();
    byId("panel-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => this.closed());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.dialog.open && !document.querySelector("dialog:modal")) this.dialog.close();
    });
    WIDE.addEventListener("change", () => { if (this.dialog.open) this.dialog.close(); });
  }

  closed() {
    this.request.abort();
    this.opener?.removeAttribute("aria-expanded");
    this.opener?.focus();
    this.opener = null;
  }

  /** Closes the panel without moving the focus. */
  dismiss() {
    this.opener?.removeAttribute("aria-expanded");
    this.opener = null;
    this.dialog.close();
  }

  /** @param {Passage} passage @param {string} corpus @param {HTMLElement} opener */
  async open(passage, corpus, opener) {
    this.request.abort();
    this.request = new AbortController();
    this.opener?.removeAttribute("aria-expanded");
    this.opener = opener;
    opener.setAttribute("aria-expanded", "true");
    this.head(passage);
    this.show([{ ...passage, here: true }], passage.section);
    if (!this.dialog.open) WIDE.matches ? this.dialog.show() : this.dialog.showModal();
    this.body.focus();
    await this.surround(passage, corpus, this.request.signal);
  }

  /** @param {Passage} passage */
  head(passage) {
    byId("panel-number").textContent = `Passage ${passage.n}`;
    byId("panel-title").textContent = passage.title || passage.document_id;
    byId("panel-section").textContent = sectionWords(passage.section);
    byId("panel-about").textContent = `${scores(passage)}\n${sourceOf(passage)}`;
  }

  /** @param {Passage} passage @param {string} corpus @param {AbortSignal} signal */
  async surround(passage, corpus, signal) {
    this.body.setAttribute("aria-busy", "true");
    try {
      this.show(withoutRepeats(await around(passage.chunk_id, corpus, signal)), passage.section);
    } catch (error) {
      if (isStop(error)) return;
      const reason = error instanceof Error && error.message ? ` ${error.message}` : "";
      this.body.append(element("p", "soft small", `The text around this passage could not be loaded.${reason}`));
    }
    this.body.removeAttribute("aria-busy");
  }

  /**
   * @param {Pick<Neighbor, "section" | "text" | "here">[]} texts
   * @param {string} section the section in the panel's head
   */
  show(texts, section) {
    this.body.replaceChildren(...texts.flatMap((one) => {
      const heading = one.section === section ? [] : [element("h3", "section", sectionWords(one.section))];
      section = one.section;
      return [...heading, block(one)];
    }));
    const here = /** @type {HTMLElement} */ (this.body.querySelector(".here"));
    const room = Math.max(24, (this.body.clientHeight - here.offsetHeight) / 3);
    this.body.scrollTop = here.offsetTop - this.body.offsetTop - room;
  }
}
