// A panel with a passage in its section: beside the answer on wide screens, a sheet at the bottom of narrow ones.
import { marked, moietiesOf, pagesOf } from "./cited_text.js";
import { byId, element, sectionWords } from "./dom.js";
import { around, isStop } from "./service.js";

/** @typedef {import("./service.js").Passage} Passage @typedef {import("./service.js").Neighbor} Neighbor
 * @typedef {import("./service.js").Citation} Citation */

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

/** Returns what a reader must know of the source, as pairs of name and value. @param {Passage} passage @param {Citation[]} places */
function factsOf(passage, places) {
  const link = /** @type {HTMLAnchorElement} */ (element("a", "", "DailyMed"));
  Object.assign(link, { href: passage.url, target: "_blank", rel: "noopener noreferrer" });
  const drug = passage.drug && element("span", "", passage.drug, moietiesOf(passage.drug, passage.moieties));
  /** @type {[string, string | Node][]} */
  const facts = [
    ["Uploaded by", passage.uploaded_by], ["Drug", drug], ["Labeler", passage.labeler], ["Effective date", passage.effective_date],
    ["Version", passage.set_id && String(passage.version || "")], ["Section", sectionWords(passage.section)],
    ["Page", pagesOf(passage, places)], ["Set id", passage.set_id],
    ["Document", passage.set_id ? "" : passage.document_id],
    ["Current label", passage.url.startsWith("https://") ? link : ""],
  ];
  return facts.filter(([, value]) => value);
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
    /** The places that the citation names, marked in the passage. @type {Citation[]} */
    this.places = [];
  }

  closed() {
    document.body.classList.remove("reading");
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

  /** @param {Passage} passage @param {Citation[]} places @param {string} corpus @param {HTMLElement} opener */
  async open(passage, places, corpus, opener) {
    this.request.abort();
    this.places = places;
    this.request = new AbortController();
    this.opener?.removeAttribute("aria-expanded");
    this.opener = opener;
    opener.setAttribute("aria-expanded", "true");
    this.head(passage);
    this.show([{ ...passage, here: true }], passage.section);
    if (!this.dialog.open) this.reveal(opener);
    this.toPlace();
    this.body.focus({ preventScroll: true });
    await this.surround(passage, corpus, this.request.signal);
  }

  /** Opens the panel. The page becomes narrower beside it, and the opener stays where it is. @param {HTMLElement} opener */
  reveal(opener) {
    if (!WIDE.matches) return this.dialog.showModal();
    const { top } = opener.getBoundingClientRect();
    document.body.classList.add("reading");
    this.dialog.show();
    window.scrollBy({ top: opener.getBoundingClientRect().top - top, behavior: "instant" });
  }

  /** @param {Passage} passage */
  head(passage) {
    byId("panel-number").textContent = `Passage ${passage.n}`;
    byId("panel-title").textContent = passage.title || passage.document_id;
    const facts = factsOf(passage, this.places).flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]);
    byId("panel-facts").replaceChildren(...facts);
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
      return [...heading, one.here ? element("div", "text here", ...marked(one.text, this.places)) : element("p", "text", one.text)];
    }));
    this.toPlace();
  }

  /** Scrolls to the passage, or to the cited place where that is further down. */
  toPlace() {
    const here = /** @type {HTMLElement} */ (this.body.querySelector(".here"));
    const cited = /** @type {HTMLElement | null} */ (here.querySelector("mark"));
    const below = cited ? cited.getBoundingClientRect().bottom - here.getBoundingClientRect().top : 0;
    const place = cited && below > this.body.clientHeight - 24 ? cited : here;
    const room = place === here ? 24 : Math.max(24, (this.body.clientHeight - place.offsetHeight) / 3);
    this.body.scrollTop += place.getBoundingClientRect().top - this.body.getBoundingClientRect().top - room;
  }
}
