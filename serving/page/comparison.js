// The same section of two labels side by side, with the words marked in which they differ.
import { moietiesOf } from "./cited_text.js";
import { byId, counted, element, sectionWords } from "./dom.js";
import { uploadedTag, uploadedWords } from "./notices.js";
import { compared, isStop, ServiceError } from "./service.js";

/**
 * @typedef {import("./service.js").Passage} Passage @typedef {import("./service.js").Section} Section
 * @typedef {{text: string, same: boolean}} Piece
 */

const TOKEN = /[\p{L}\p{N}]+(?:[.,]\p{N}+)*|\s+|[^\p{L}\p{N}\s]/gu;
/** Texts with a smaller share of common words are marked as a whole. */
const LEAST_COMMON = 0.4;
/** Longer pieces are marked as a whole: their comparison would take too long. */
const MOST_CELLS = 1_000_000;

export class LabelComparison {
  /** @param {(corpus: string, section: string) => Promise<string>} sectionTitle returns the title of a code, "" where it is unknown */
  constructor(sectionTitle) {
    this.sectionTitle = sectionTitle;
    this.dialog = /** @type {HTMLDialogElement} */ (byId("labels"));
    this.selects = ["first", "second", "section"].map((name) => /** @type {HTMLSelectElement} */ (byId(`labels-${name}`)));
    this.texts = byId("labels-texts");
    this.corpus = "";
    this.request = new AbortController();
    byId("labels-close").addEventListener("click", () => this.dialog.close());
    byId("labels-form").addEventListener("change", () => this.load());
    this.dialog.addEventListener("close", () => this.request.abort());
  }

  /** @param {Passage[]} passages those of an answer, of at least two labels @param {string} corpus */
  open(passages, corpus) {
    this.corpus = corpus;
    const labels = new Map(passages.filter((one) => one.set_id).map((one) => [one.set_id, one]));
    const inSections = passages.filter((one) => one.section_code);
    const sections = new Map(inSections.map((one) => [one.section_code, topOf(one.section)]));
    /** @param {string} code returns in how many of the labels a passage of that section was found */
    const spread = (code) => new Set(inSections.filter((one) => one.section_code === code).map((one) => one.set_id)).size;
    const widest = [...sections].sort(([one], [other]) => spread(other) - spread(one));
    const [first, second, section] = this.selects;
    for (const select of [first, second]) select.replaceChildren(...[...labels].map(([id, one]) => new Option(nameOf(one), id)));
    const choices = [...labels.values()];
    const at = choices.findIndex((one, place) => choices.slice(place + 1).some((other) => ofOneDrug(one, other)));
    first.selectedIndex = Math.max(0, at);
    second.selectedIndex = at < 0 ? 1 : choices.findIndex((one, place) => place > at && ofOneDrug(choices[at], one));
    section.replaceChildren(...widest.map(([code, title]) => new Option(title, code)));
    // A passage's path begins with its top section; the code may be that of a section within.
    for (const option of section.options) void this.sectionTitle(corpus, option.value).then((title) => { option.text = title || option.text; });
    this.dialog.showModal();
    void this.load();
  }

  async load() {
    this.request.abort();
    this.request = new AbortController();
    const [first, second, section] = this.selects.map((one) => one.value);
    this.texts.replaceChildren();
    byId("labels-status").textContent = "Loading…";
    try {
      this.show(await compared({ first, second, section, corpus: this.corpus }, this.request.signal));
    } catch (error) {
      if (isStop(error)) return;
      const lacks = error instanceof ServiceError && error.kind === "404";
      const title = this.selects[2].selectedOptions[0].text;
      const message = error instanceof Error && error.message ? error.message : "The labels could not be loaded.";
      byId("labels-status").textContent = lacks ? `One of the two labels has no section “${title}”. Choose another section.` : message;
    }
  }

  /** @param {import("./service.js").Compared} found */
  show({ first, second, differences }) {
    const differing = differences.filter((one) => !one.same).length;
    const unlike = !ofOneDrug(first, second);
    const counts = `${counted(differing, "difference")}. Upper and lower case and the drugs' own names do not count.`;
    byId("labels-status").textContent = unlike
      ? `These are labels of two different drugs, ${first.drug} and ${second.drug}. They are shown side by side, without marks: nearly all of their texts differ.`
      : differing ? counts : "The texts do not differ.";
    const rows = differences.map((one) => {
      const [left, right] = unlike || one.same ? [[{ text: one.first, same: true }], [{ text: one.second, same: true }]] : wordDifferences(one.first, one.second);
      return element("div", one.same ? "row" : unlike ? "row apart" : "row differs", cell(left, first), cell(right, second));
    });
    this.texts.replaceChildren(element("div", "row heads", head(first), head(second)), ...rows);
  }
}

/** Returns whether two labels are of the same drug, by its name or its moieties.
 * @param {{drug: string, moieties: string[]}} first @param {{drug: string, moieties: string[]}} second */
function ofOneDrug(first, second) {
  /** @param {{moieties: string[]}} label */
  const moieties = ({ moieties: some }) => some.map((one) => one.toLowerCase()).sort().join("\n");
  return first.drug.toLowerCase() === second.drug.toLowerCase() || (moieties(first) !== "" && moieties(first) === moieties(second));
}

/** @param {Section} label */
function head(label) {
  const about = [label.labeler, label.effective_date, label.version && `version ${label.version}`].filter(Boolean).join(", ");
  const heading = element("h3", "", label.drug, moietiesOf(label.drug, label.moieties));
  return element("div", "", heading, uploadedTag(label), element("p", "soft small", about));
}

/** @param {Piece[]} pieces @param {Section} label whose name narrow screens show above the text */
function cell(pieces, label) {
  const nodes = pieces.map(({ text, same }) => (same ? text : element("mark", "", text)));
  const made = element("div", "text", ...nodes);
  made.dataset.label = [label.drug, label.labeler, uploadedWords(label)].filter(Boolean).join(", ");
  return made;
}

/** @param {Passage} passage */
const nameOf = (passage) => [passage.drug, passage.labeler, passage.effective_date, uploadedWords(passage)].filter(Boolean).join(", ");

/** @param {string} section */
const topOf = (section) => sectionWords(section).split(" › ")[0];

/**
 * Returns the pieces of two texts, with those that the other lacks, by the longest common subsequence of words.
 * @param {string} first @param {string} second @returns {[Piece[], Piece[]]}
 */
export function wordDifferences(first, second) {
  const [a, b] = [first.match(TOKEN) ?? [], second.match(TOKEN) ?? []];
  if (!a.length || !b.length || a.length * b.length > MOST_CELLS) return [whole(first), whole(second)];
  const lengths = commonLengths(a, b);
  if (lengths[0][0] < LEAST_COMMON * Math.min(a.length, b.length)) return [whole(first), whole(second)];
  const [left, right] = [/** @type {Piece[]} */ ([]), /** @type {Piece[]} */ ([])];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && alike(a[i], b[j])) {
      push(left, a[i++], true);
      push(right, b[j++], true);
    } else if (j === b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) push(left, a[i++], false);
    else push(right, b[j++], false);
  }
  return [joined(left), joined(right)];
}

/** Returns the pieces with the signs and spaces between two that differ as parts of these. @param {Piece[]} pieces */
function joined(pieces) {
  /** @type {Piece[]} */
  const found = [];
  pieces.forEach(({ text, same }, at) => {
    const between = at > 0 && at < pieces.length - 1 && !/[\p{L}\p{N}]/u.test(text);
    push(found, text, same && !between);
  });
  return found;
}

/** @param {string} text @returns {Piece[]} */
const whole = (text) => (text ? [{ text, same: false }] : []);

/** @param {string} a @param {string} b */
const alike = (a, b) => (a.trim() ? a.toLowerCase() === b.toLowerCase() : !b.trim());

/** Returns the length of the longest common subsequence from each pair of positions on. @param {string[]} a @param {string[]} b */
function commonLengths(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = alike(a[i], b[j]) ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

/** @param {Piece[]} pieces @param {string} text @param {boolean} same */
function push(pieces, text, same) {
  const last = pieces.at(-1);
  if (last?.same === same) last.text += text;
  else pieces.push({ text, same });
}
