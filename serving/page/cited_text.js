// The text of an answer: each citation is a button, statements that are not supported have a tag, drugs stand in columns.
import { button, element, sectionWords, unitsOf } from "./dom.js";
import { uploadedWords } from "./notices.js";

/**
 * @typedef {import("./service.js").Answer} Answer @typedef {import("./service.js").Passage} Passage
 * @typedef {import("./service.js").Citation} Citation @typedef {import("./service.js").Statement} Statement
 * @typedef {(passage: Passage, citations: Citation[], opener: HTMLElement) => void} Open
 * @typedef {{start: number, end: number, nodes: Node[]}} Mark a part of the text that is shown as nodes
 */

const CITATION = /\[(\d+(?:\s*[,;]\s*\d+)*)\]/g;
const LONGEST_CITATION = 24;

/** The tag of a statement and its explanation, by verdict; one that is supported has none. @type {Record<string, [string, string]>} */
export const TAGS = {
  unsupported: ["not supported", "Unverified: the passages that this statement of the model cites do not support it."],
  undecided: ["unverified", "The service could not decide whether the passage supports this statement."],
  uncited: ["no citation", "Unverified: this statement of the model cites no passage."],
  unchecked: ["not checked", "Unverified: headings and lead-ins of the model are not compared with the passages."],
};

export class AnswerText {
  /** @param {Open} open shows a passage with the places that a citation names */
  constructor(open) {
    this.open = open;
    this.element = element("div", "answer");
    this.reset();
  }

  reset() {
    /** @type {Passage[]} */
    this.passages = [];
    /** Citations, with the places of statements in UTF-16 units. @type {Citation[]} */
    this.citations = [];
    /** Statements, with their places in UTF-16 units. @type {Statement[]} */
    this.statements = [];
    /** The buttons of the citations, in order; they are used again when the text is shown anew. @type {HTMLButtonElement[]} */
    this.buttons = [];
    this.used = 0;
    /** The text received so far, and the number of its characters on the page. */
    this.received = "";
    this.shown = 0;
    this.element.replaceChildren();
  }

  /**
   * Shows the new part of a growing text, up to an incomplete citation.
   * @param {string} text the next piece @param {Statement[]} statements those that end in it
   */
  add(text, statements) {
    this.received += text;
    this.statements.push(...statements.map((one) => inUnits(this.received, one)));
    const open = this.received.lastIndexOf("[");
    const length = this.received.length;
    const begun = open >= this.shown && length - open < LONGEST_CITATION && !this.received.includes("]", open);
    const end = begun ? open : length;
    this.element.append(...this.nodes(this.shown, end));
    this.shown = end;
  }

  /** Shows the whole text, with what is known of its statements. The focus stays. @param {Answer} answer */
  finish(answer) {
    const focused = this.buttons.find((one) => one === document.activeElement);
    this.received = answer.answer;
    this.citations = answer.citations.map((one) => {
      const [statement_start, statement_end] = unitsOf(answer.answer, one.statement_start, one.statement_end);
      return { ...one, statement_start, statement_end };
    });
    this.statements = answer.statements.map((one) => inUnits(answer.answer, one));
    this.used = 0;
    this.element.replaceChildren(...this.whole(answer));
    this.shown = this.received.length;
    focused?.focus();
  }

  /** @param {Answer} answer @returns {(Node | string)[]} */
  whole({ answer, columns, groups = [] }) {
    if (columns.length < 2) return this.nodes(0, answer.length);
    const ranges = columns.map((one) => unitsOf(answer, one.answer_start, one.answer_end));
    const drugs = columns.map(({ drug, moieties, refused }, at) => {
      const heading = element("h3", "", drug, moietiesOf(drug, moieties));
      const [start, end] = ranges[at];
      return element("section", refused ? "drug refused" : "drug", heading, element("div", "", ...this.nodes(start, end)));
    });
    const grid = element("div", "drugs", ...drugs);
    grid.style.setProperty("--drugs", String(groups.length ? 1 : drugs.length));
    const end = ranges[ranges.length - 1][1];
    const closing = answer.length - answer.slice(end).trimStart().length;
    return [grid, element("div", "closing", ...this.nodes(closing, answer.length))];
  }

  /** Returns a part of the text as nodes. @param {number} from @param {number} to @returns {(Node | string)[]} */
  nodes(from, to) {
    const nodes = [];
    let at = from;
    for (const mark of this.marks(from, to)) {
      if (mark.start < at) continue;
      nodes.push(this.received.slice(at, mark.start), ...mark.nodes);
      at = mark.end;
    }
    return [...nodes, this.received.slice(at, to)];
  }

  /** Returns the citations of passages, and the tags at the ends of statements. @param {number} from @param {number} to */
  marks(from, to) {
    /** @type {Mark[]} */
    const marks = [];
    for (const match of this.received.slice(from, to).matchAll(CITATION)) {
      const numbers = match[1].split(/\D+/).map(Number);
      const passages = numbers.map((n) => this.passages.find((one) => one.n === n));
      if (passages.includes(undefined)) continue;
      const start = from + match.index;
      const nodes = passages.map((one) => this.citation(/** @type {Passage} */ (one), start));
      marks.push({ start, end: start + match[0].length, nodes });
    }
    for (const { end, verdict } of this.statements) {
      if (verdict !== "supported" && end > from && end <= to) marks.push({ start: end, end, nodes: [tagOf(verdict)] });
    }
    return marks.sort((a, b) => a.start - b.start);
  }

  /** @param {Passage} passage @param {number} at the citation's place in the text */
  citation(passage, at) {
    const made = (this.buttons[this.used] ??= button("", "citation", () => {}));
    this.used += 1;
    const page = pagesOf(passage, this.placesOf(passage.n, at));
    made.textContent = page ? `[${passage.n}, p. ${page}]` : `[${passage.n}]`;
    const about = [passage.title, sectionWords(passage.section), page && `page ${page}`, uploadedWords(passage)].filter(Boolean).join(", ");
    made.setAttribute("aria-label", `Passage ${passage.n}: ${about}`);
    made.onclick = () => this.open(passage, this.placesOf(passage.n, at), made);
    return made;
  }

  /** Returns the citations of a passage in the statement at a place of the text. @param {number} n @param {number} at */
  placesOf(n, at) {
    return this.citations.filter((one) => one.n === n && one.statement_start <= at && at < one.statement_end);
  }
}

/** @param {string} verdict */
function tagOf(verdict) {
  const [words, explanation] = TAGS[verdict];
  const made = element("span", "unverified", words);
  made.title = explanation;
  return made;
}

/** Returns a statement with its place in UTF-16 units. @param {string} text @param {Statement} one @returns {Statement} */
function inUnits(text, one) {
  const [start, end] = unitsOf(text, one.start, one.end);
  return { ...one, start, end };
}

/**
 * Returns an answer as text, with a mark before each statement that is not supported; in a table, in the first cell.
 * @param {Answer} answer @param {string} [mark] @param {(text: string) => string} [shown] what a part of the answer becomes
 */
export function markedText({ answer, statements }, mark = "[unverified]", shown = (text) => text) {
  const parts = [];
  let at = 0;
  for (const one of statements.filter(({ verdict }) => verdict !== "supported")) {
    const { start } = inUnits(answer, one);
    const inRow = answer[start] === "|";
    const place = inRow ? start + 1 : start;
    parts.push(shown(answer.slice(at, place)), inRow ? ` ${mark} ` : `${mark} `);
    at = place;
  }
  return [...parts, shown(answer.slice(at))].join("");
}

/** Returns the pages of the cited places, else of the passage; "" where it has none. @param {Passage} passage @param {Citation[]} places */
export const pagesOf = (passage, places) =>
  [...new Set(places.length ? places.map((one) => one.page || passage.page) : [passage.page])].filter(Boolean).sort((a, b) => a - b).join(", ");

/** @param {string} drug @param {string[]} moieties */
export function moietiesOf(drug, moieties) {
  const others = moieties.filter((one) => one.toLowerCase() !== drug.toLowerCase());
  return others.length ? element("span", "soft moieties", ` (${others.join(", ")})`) : null;
}

/** Returns the text of a passage with the cited places marked. @param {string} text @param {Citation[]} places @returns {(Node | string)[]} */
export function marked(text, places) {
  const ranges = places.map(({ start, end }) => unitsOf(text, start, end)).sort((a, b) => a[0] - b[0]);
  const nodes = [];
  let at = 0;
  for (const [start, end] of ranges) {
    if (end <= at) continue;
    nodes.push(text.slice(at, Math.max(at, start)), element("mark", "", text.slice(Math.max(at, start), end)));
    at = end;
  }
  return [...nodes, text.slice(at)];
}
