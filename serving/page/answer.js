// A question with its answer. While the answer arrives, existing elements stay in place, because they may have the focus.
import { AnswerText, marked, markedText, moietiesOf, pagesOf } from "./cited_text.js";
import { button, counted, element, number, sectionWords } from "./dom.js";
import { saveJson, saveMarkdown } from "./exporting.js";
import { linkOf } from "./form.js";
import { answerNotice, errorHeading, isQuoted, errorNotice, gateNotice, stoppedNotice, uploadedTag, uploadedWords, uploadNotice } from "./notices.js";
import { ServiceError } from "./service.js";

/**
 * @typedef {import("./service.js").Answer} Answer @typedef {import("./service.js").Passage} Passage
 * @typedef {import("./service.js").Citation} Citation
 * @typedef {{open: (passage: Passage, places: Citation[], corpus: string, opener: HTMLElement) => void,
 *   again: (entry: Entry) => void, compare: (passages: Passage[], corpus: string) => void,
 *   judge: (answer: Answer) => HTMLElement | null, strategyTitle: (name: string) => string,
 *   sectionTitle: (corpus: string, section: string) => Promise<string>}} Acts
 */

/** Returns what a passage is from; of several pages, those of the cited places. @param {Passage} passage @param {Citation[]} [places] */
export const sourceOf = (passage, places = []) => {
  const { set_id, document_id, labeler, version, effective_date } = passage;
  const date = effective_date ? `label of ${effective_date}, version ${version}` : "";
  const pages = pagesOf(passage, places);
  const about = set_id ? [labeler, date, `set id ${set_id}`] : [pages && `page ${pages}`, `document ${document_id}`];
  return [uploadedWords(passage), ...about].filter(Boolean).join(", ");
};

/** What a filter says for readers, by its name; a section is shown by its title. @type {Record<string, (value: string) => string>} */
const FILTERS = {
  section: (value) => `only the section ${value}`,
  labeler: (value) => `only labels of ${value}`,
  date_from: (value) => `labels from ${value} on`,
  date_to: (value) => `labels up to ${value}`,
};

/** @param {number} value */
const score = (value) => value.toFixed(Math.abs(value) < 10 ? 3 : 1);

/** @param {Passage} passage */
export function scores(passage) {
  const reranked = passage.rerank === null ? "" : `, reranked ${score(passage.rerank)}`;
  return `Score ${score(passage.score)}${reranked}`;
}

/** How much of a passage is shown around its marks, where there is no answer. */
const AROUND = 300;

/** Returns the text of a passage with lines of documents that are wrapped inside a sentence as one; all places stay the same. @param {Passage} passage */
const readable = ({ set_id, text }) => (set_id ? text : text.replace(/(?<=[^\s.:|])\n(?=[a-z])/g, " "));

/** Returns the part of a passage around its marked places, without a place the beginning. @param {string} text @param {Citation[]} places */
function excerpt(text, places) {
  if (!places.length) return [text];
  const nodes = marked(text, places);
  const first = String(nodes[0]);
  const last = String(nodes[nodes.length - 1]);
  if (first.length > AROUND) nodes[0] = `… ${first.slice(-AROUND).replace(/^\S*\s/, "")}`;
  if (last.length > AROUND) nodes[nodes.length - 1] = `${last.slice(0, AROUND).replace(/\s\S*$/, "")} …`;
  return nodes;
}

/** @param {number} ms */
const seconds = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

/**
 * Returns what was searched for in place of a misspelt name, which has small letters, as the passages write it.
 * @param {{written: string, name: string}} correction @param {Passage[]} passages
 */
function correctionWords({ written, name }, passages) {
  const names = passages.flatMap(({ drug, moieties }) => [drug, ...moieties]);
  const found = names.find((one) => one.toLowerCase() === name.toLowerCase()) ?? name;
  return element("span", "corrected", "Showing results for ", element("strong", "", found), `, not for “${written}”. `);
}

export class Entry {
  /** @param {import("./service.js").Ask} ask @param {import("./service.js").Turn[]} history @param {Acts} acts */
  constructor(ask, history, acts) {
    this.ask = ask;
    this.history = history;
    this.acts = acts;
    this.corpus = ask.corpus ?? "";
    /** The time of the answer, in ISO 8601. */
    this.at = "";
    /** @type {Passage[]} */
    this.passages = [];
    /** @type {Citation[]} */
    this.citations = [];
    /** The elements of the passages, in the order of these. @type {HTMLElement[]} */
    this.items = [];
    this.outcome = element("span", "outcome");
    this.standalone = element("p", "soft small asked");
    this.notice = element("div");
    this.text = new AnswerText((passage, places, opener) => this.acts.open(passage, places, this.corpus, opener));
    this.after = element("div", "after");
    this.list = element("ol", "passages");
    this.caption = element("h3", "caption", "Passages");
    this.beside = element("aside", "", this.caption, this.list);
    this.beside.setAttribute("aria-label", "Passages found");
    const summary = element("summary", "", element("h2", "", ask.question), this.outcome);
    const written = element("div", "written", this.notice, this.text.element, this.after);
    const columns = element("div", "columns", written, this.beside);
    this.details = /** @type {HTMLDetailsElement} */ (
      element("details", "", summary, this.asked(), this.standalone, columns)
    );
    this.element = element("article", "entry", this.details);
    this.reset();
  }

  asked() {
    const { filter = {}, strategy, k } = this.ask;
    const title = strategy && `strategy: ${this.acts.strategyTitle(strategy)}`;
    const line = element("p", "soft small asked");
    /** @param {string} section its title, "" while it is unknown */
    const show = (section) => {
      const shown = Object.entries({ ...filter, ...("section" in filter && { section: section || "that was chosen" }) });
      const only = shown.map(([name, value]) => (FILTERS[name] ?? ((one) => `only ${one}`))(value));
      line.textContent = [this.corpus, ...only, title, k && `up to ${counted(k, "passage")}`].filter(Boolean).join(" · ");
    };
    show("");
    if (filter.section) void this.acts.sectionTitle(this.corpus, filter.section).then(show);
    return line;
  }

  /** Prepares for the first or another attempt. */
  reset() {
    this.passages = [];
    this.citations = [];
    this.items = [];
    this.text.reset();
    for (const part of [this.standalone, this.notice, this.after, this.list]) part.replaceChildren();
    this.beside.hidden = true;
    this.state("busy", "Searching…");
    this.details.open = true;
  }

  /** @param {string} name @param {string} words */
  state(name, words) {
    this.element.dataset.state = name;
    this.outcome.textContent = words;
  }

  /** @param {Answer} answer */
  found(answer) {
    this.state("busy", "Writing the answer…");
    this.showPassages(answer);
  }

  /** @param {Answer} answer */
  showPassages(answer) {
    this.corpus = answer.index?.corpus ?? this.corpus;
    const { passages, citations, standalone_question: standalone, corrections = [] } = answer;
    this.standalone.replaceChildren(...corrections.map((one) => correctionWords(one, passages)), standalone === this.ask.question ? "" : `Answered as: ${standalone}`);
    const ids = (/** @type {Passage[]} */ some) => some.map((one) => one.chunk_id).join("\n");
    if (ids(passages) !== ids(this.passages)) this.items = passages.map((one) => this.item(one));
    this.passages = passages;
    this.text.passages = passages;
    this.citations = citations;
    this.beside.hidden = !passages.length;
    const cited = new Set(citations.map((one) => one.n));
    passages.forEach((one, at) => {
      const item = this.items[at];
      item.classList.toggle("cited", cited.has(one.n));
      const all = citations.filter(({ n }) => n === one.n);
      const places = isQuoted(answer) ? all : [];
      /** @type {Element} */ (item.querySelector(".source")).textContent = sourceOf(one, all);
      /** @type {Element} */ (item.querySelector(".tag")).textContent = isQuoted(answer) ? "marked" : "cited";
      item.querySelector(".extract")?.replaceChildren(...excerpt(readable(one), places));
    });
    // Without an answer, those with a quotation come first; uploads may be found before or after others.
    const first = isQuoted(answer) ? this.items.filter((_, at) => cited.has(passages[at].n)) : [];
    this.caption.textContent = first.length ? "Passages, those with a marked sentence first" : "Passages";
    const shown = [...first, ...this.items.filter((one) => !first.includes(one))];
    if (shown.length !== this.list.children.length || shown.some((one, at) => one !== this.list.children[at])) this.list.replaceChildren(...shown);
  }

  /** @param {Passage} passage */
  item(passage) {
    const places = () => this.citations.filter((one) => one.n === passage.n);
    const open = () => this.acts.open(passage, places(), this.corpus, title);
    const title = button(passage.title || passage.document_id, "plain title", open);
    title.prepend(element("span", "number", String(passage.n)), " ");
    const section = passage.section ? element("p", "section", sectionWords(passage.section)) : null;
    const cited = element("span", "tag", "cited");
    const about = element("p", "soft small", scores(passage), cited, element("br"), element("span", "source", sourceOf(passage)));
    return element("li", "", title, uploadedTag(passage), section, element("p", "extract", passage.text), about);
  }

  /** @param {string} text @param {import("./service.js").Statement[]} statements */
  delta(text, statements) {
    this.text.add(text, statements);
  }

  /** @param {Answer} answer @param {string} at the time of the answer, in ISO 8601 */
  done(answer, at) {
    this.at = at;
    this.showPassages(answer);
    if (isQuoted(answer)) this.text.reset();
    else this.text.finish(answer);
    this.element.classList.toggle("quoted", isQuoted(answer));
    this.notice.replaceChildren(...[answerNotice(answer)].filter((one) => one !== null));
    const parts = [groupsTable(answer), uploadNotice(answer), gateNotice(answer), this.actions(answer), this.acts.judge(answer)];
    this.after.replaceChildren(...parts.filter((one) => one !== null), ...this.searches(answer), this.made(answer));
    const count = new Set(answer.citations.map((one) => one.n)).size;
    const cited = count ? counted(count, "passage") : "No passage";
    if (isQuoted(answer)) this.state("answered", "Passages only");
    else if (answer.degraded !== null) this.state("degraded", answer.answer ? "Answered in part" : "Passages only");
    else if (answer.withheld) this.state("refused", "Withheld");
    else if (answer.refused) this.state("refused", answer.passages.length ? "Not in the passages" : "Not in the corpus");
    else this.state("answered", `${cited} cited`);
  }

  /** @param {Answer} answer */
  actions(answer) {
    const answered = { ask: this.ask, history: this.history, at: this.at, answer };
    const link = button("Copy link", "", () => copy(link, linkOf(this.ask)));
    const whole = button(isQuoted(answer) ? "Copy quotations and sources" : "Copy answer and sources", "", () => copy(whole, this.asText(markedText(answer))));
    const labels = new Set(answer.passages.map((one) => one.set_id).filter(Boolean));
    const compare = button("Compare labels", "", () => this.acts.compare(answer.passages, this.corpus));
    return element(
      "div", "actions", link, answer.answer ? whole : null,
      button("Save as Markdown", "", () => saveMarkdown(answered)), button("Save as JSON", "", () => saveJson(answered)),
      labels.size > 1 ? compare : null,
    );
  }

  /** @param {string} text */
  asText(text) {
    const sources = this.passages.filter((_, at) => this.items[at].classList.contains("cited"));
    const parts = (/** @type {Passage} */ one) => [one.title, sectionWords(one.section), sourceOf(one, this.citations.filter(({ n }) => n === one.n))].filter(Boolean);
    const lines = sources.map((one) => `[${one.n}] ${parts(one).join(", ")}`);
    return [this.ask.question, text, lines.join("\n")].filter(Boolean).join("\n\n");
  }

  /** Returns the texts of the searches, if they are not only the question. @param {Answer} answer */
  searches(answer) {
    if (answer.searches.every((text) => text === this.ask.question)) return [];
    const list = element("ul", "", ...answer.searches.map((text) => element("li", "", text)));
    return [element("details", "searches small", element("summary", "", "Texts of the searches"), list)];
  }

  /** Returns the model, index, retriever, times and tokens of the answer. @param {Answer} answer */
  made({ model, prompts, index, retriever, postprocess, timings_ms, usage }) {
    const parts = ["rewrite", "search", "postprocess", "answer"].filter((part) => timings_ms[part] > 0);
    const times = parts.map((part) => `${part} ${seconds(timings_ms[part])}`).join(", ");
    const tokens = usage.prompt_tokens + usage.completion_tokens;
    const asked = prompts.map(({ name, version }) => `${name} version ${version}`).join(", ");
    const facts = [
      model === "baseline" ? "No model" : model && `Model ${model}`, asked && `prompts ${asked}`, `index ${index.corpus}, version ${index.version}`, `retriever ${retriever}`,
      postprocess && postprocess !== "none" && `post-processing ${postprocess}`,
      `${seconds(timings_ms.total)}${times && ` (${times})`}`, tokens && `${number(tokens)} tokens`,
    ];
    return element("p", "soft small made", facts.filter(Boolean).join(" · "));
  }

  /** @param {ServiceError} error */
  failed(error) {
    this.state("failed", errorHeading(error));
    this.notice.replaceChildren(errorNotice(error, () => this.acts.again(this)));
  }

  stopped() {
    this.state("stopped", "Stopped");
    this.notice.replaceChildren(stoppedNotice(() => this.acts.again(this)));
  }
}

/** Returns the drugs whose labels say what was asked, as a table; null for other questions. @param {Answer} answer */
function groupsTable({ groups = [] }) {
  if (!groups.length) return null;
  const head = ["Drug", "Labels", "Newest", "Passages"].map((name) => element("th", "", name));
  const rows = groups.map(({ drug, moieties, labels, newest, citations }) => element(
    "tr", "", element("td", "", drug, moietiesOf(drug, moieties)), element("td", "", number(labels)), element("td", "", newest),
    element("td", "", citations.map((n) => `[${n}]`).join(" ")),
  ));
  return element("table", "groups", element("thead", "", element("tr", "", ...head)), element("tbody", "", ...rows));
}

/** Copies text and confirms it on the button. Without a clipboard (plain HTTP), shows the text to copy by hand.
 * @param {HTMLButtonElement} from @param {string} text */
async function copy(from, text) {
  const words = from.textContent;
  try {
    await navigator.clipboard.writeText(text);
    from.textContent = "Copied";
    setTimeout(() => { from.textContent = words; }, 2000);
  } catch {
    const field = /** @type {HTMLTextAreaElement} */ (element("textarea", "by-hand", text));
    Object.assign(field, { readOnly: true, ariaLabel: "Copy this text by hand" });
    from.after(field);
    field.select();
  }
}
