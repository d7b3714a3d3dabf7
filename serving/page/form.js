// The question form, and links to a question.
import { byId, counted, element, number } from "./dom.js";
import { Names } from "./names.js";
import { filterValues, names } from "./service.js";

/** @typedef {import("./service.js").Ask} Ask @typedef {import("./service.js").Offer} Offer
 * @typedef {{section: import("./service.js").FilterValue[], labeler: import("./service.js").FilterValue[]}} Values */

const SET_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const LOINC = /^\d+-\d$/;
const K = 6;
/** Filters of the search beside the drug; the ids of their fields are their names. */
const FILTERS = ["section", "labeler", "date_from", "date_to"];

/**
 * Title and description of each strategy for readers; the server's titles are those of tables.
 * @type {Record<string, [string, string]>}
 */
const STRATEGIES = {
  question: ["Question", "The search uses your question. No model is asked before the search."],
  hypothetical_answer: ["Hypothetical answer", "A model writes a draft of the answer, and the search uses the draft."],
  qa_rag: ["Question and hypothetical answer", "Half of the passages are found with your question, half with a draft of the answer."],
  hyde: ["HyDE", "A model writes a passage that could contain the answer, and the search uses it."],
  multiquery: ["Multiquery", "A model rephrases your question three times, and the search uses all four questions."],
};

const LEAVE_OUT = "You can leave out the drug or the topic of the last question.";

export class Form {
  /** @param {(ask: Ask) => void} send @param {(corpus: import("./service.js").Corpus) => void} showContents */
  constructor(send, showContents) {
    this.send = send;
    this.showContents = showContents;
    /** The sections and labelers of each corpus, once they are asked for. @type {Map<string, Promise<Values>>} */
    this.values = new Map();
    /** @type {Offer} */
    this.offer = { corpora: [], feedback: false, upload: [], strategies: [], model: "", defaults: {} };
    /** Filters to set once their values are listed. @type {import("./service.js").Filter} */
    this.wanted = {};
    this.element = /** @type {HTMLFormElement} */ (byId("ask"));
    this.question = /** @type {HTMLTextAreaElement} */ (byId("question"));
    this.corpus = /** @type {HTMLSelectElement} */ (byId("corpus"));
    this.k = /** @type {HTMLInputElement} */ (byId("k"));
    this.names = new Names((prefix, signal) => names(this.corpus.value, prefix, signal));
    this.corpus.addEventListener("change", () => { this.names.set(""); this.showCorpus(); });
    this.element.addEventListener("change", () => this.showOptions());
    this.element.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.question.addEventListener("input", () => this.complain("question", ""));
    this.k.addEventListener("input", () => this.complain("k", ""));
  }

  /** @param {Offer} offer */
  offers(offer) {
    this.offer = offer;
    this.corpus.replaceChildren(...offer.corpora.map(({ name }) => new Option(name, name)));
    byId("corpus-field").hidden = offer.corpora.length < 2;
    byId("strategies").append(...offer.strategies.map(({ name }) => this.strategy(name)));
    if (offer.defaults.corpus) this.corpus.value = offer.defaults.corpus;
    this.k.max = String(offer.defaults.candidates ?? 24);
    this.choose(offer.defaults.strategy ?? "question", offer.defaults.k ?? K);
    this.showCorpus();
  }

  /** @param {string} name */
  strategy(name) {
    const radio = /** @type {HTMLInputElement} */ (element("input"));
    Object.assign(radio, { type: "radio", name: "strategy", value: name });
    const about = element("span", "soft small", STRATEGIES[name]?.[1] ?? "");
    return element("label", "strategy", radio, element("span", "", this.titleOf(name)), about);
  }

  /** @param {string} strategy @param {number} k */
  choose(strategy, k) {
    const radios = this.element.elements.namedItem("strategy");
    if (radios instanceof RadioNodeList) radios.value = strategy;
    else if (radios instanceof HTMLInputElement) radios.checked = true;
    this.k.value = String(k);
    this.showOptions();
  }

  get strategyName() {
    return String(new FormData(this.element).get("strategy") ?? "");
  }

  /** @param {string} name */
  titleOf(name) {
    return STRATEGIES[name]?.[0] ?? this.offer.strategies.find((one) => one.name === name)?.title ?? name;
  }

  showOptions() {
    const passages = counted(Number(this.k.value), "passage");
    const { length } = Object.keys(this.narrower());
    const parts = [this.titleOf(this.strategyName), `up to ${passages}`, length && counted(length, "filter")];
    byId("options-now").textContent = parts.filter(Boolean).join(", ");
  }

  /** Names the field for the next question of a conversation, or for its first. @param {boolean} follows */
  followUp(follows) {
    byId("question-label").textContent = follows ? "Next question" : "Question";
    this.question.placeholder = follows && this.offer.model !== "baseline" ? LEAVE_OUT : "";
  }

  get chosen() {
    return this.offer.corpora.find(({ name }) => name === this.corpus.value);
  }

  showCorpus() {
    const corpus = this.chosen;
    if (!corpus) return;
    const labels = corpus.kind === "labels";
    byId("only-label").textContent = labels ? "Only this drug or set id" : "Only this document";
    this.names.input.placeholder = labels ? "all drugs" : "all documents";
    byId("filters").hidden = !labels;
    for (const name of FILTERS) byId(name).value = "";
    if (labels) void this.showFilters(corpus.name);
    const quotes = this.offer.model === "baseline";
    byId("no-model").hidden = !quotes;
    byId("about-answers").hidden = quotes;
    this.showContents(corpus);
  }

  /** Returns the sections and labelers of a corpus. @param {string} corpus */
  valuesOf(corpus) {
    // The page works without these filters; errors of the server are shown when a question is sent.
    const values = this.values.get(corpus) ?? filterValues(corpus).catch(() => {
      this.values.delete(corpus);
      return { section: [], labeler: [] };
    });
    this.values.set(corpus, values);
    return values;
  }

  /** Returns the title of a section that a filter names, "" for an unknown code. @param {string} corpus @param {string} section */
  async sectionTitle(corpus, section) {
    const found = (await this.valuesOf(corpus)).section.find(({ value }) => value === section);
    return found?.title || (LOINC.test(section) ? "" : section);
  }

  /** Lists the sections and labelers of the corpus. @param {string} corpus */
  async showFilters(corpus) {
    const values = await this.valuesOf(corpus);
    if (corpus !== this.corpus.value) return;
    for (const name of /** @type {const} */ (["section", "labeler"])) {
      const options = values[name].map((one) => new Option(`${one.title || one.value} (${number(one.labels)})`, one.value));
      const chosen = byId(name).value || this.wanted[name] || "";
      byId(name).replaceChildren(new Option(name === "section" ? "all sections" : "all labelers", ""), ...options);
      byId(name).value = chosen;
    }
    this.showOptions();
  }

  /** Returns the filters beside the drug that are set. @returns {import("./service.js").Filter} */
  narrower() {
    if (this.chosen?.kind !== "labels") return {};
    return Object.fromEntries(FILTERS.map((name) => [name, byId(name).value]).filter(([, value]) => value));
  }

  /** Shows an error at a field; "" removes it. @param {string} field @param {string} message */
  complain(field, message) {
    byId(`${field}-problem`).textContent = message;
    byId(field).setAttribute("aria-invalid", String(Boolean(message)));
    if (!message) return;
    if (field === "k") byId("options").open = true;
    byId(field).focus();
  }

  submit() {
    const error = this.error();
    if (error) this.complain(...error);
    else this.send(this.read());
  }

  /** Returns the first field with an error, and the message. @returns {[string, string] | null} */
  error() {
    const { length } = this.question.value.trim();
    const longest = this.offer.defaults.longest_question ?? Infinity;
    if (!length) return ["question", "Type a question first."];
    const tooLong = `The question has ${number(length)} characters; the maximum is ${number(longest)}.`;
    if (length > longest) return ["question", tooLong];
    const k = this.k.valueAsNumber;
    const max = Number(this.k.max);
    return Number.isInteger(k) && k >= 1 && k <= max ? null : ["k", `Enter a whole number from 1 to ${max}.`];
  }

  /** @returns {Ask} */
  read() {
    const question = this.question.value.trim();
    const [strategy, k] = [this.strategyName, this.k.valueAsNumber];
    return { question, corpus: this.corpus.value, ...this.filter(), strategy, k };
  }

  /** @returns {{filter?: import("./service.js").Filter}} */
  filter() {
    const name = this.names.value;
    const field = this.chosen?.kind !== "labels" ? "title" : SET_ID.test(name) ? "set_id" : "drug";
    const filter = { ...(name && { [field]: name }), ...this.narrower() };
    return Object.keys(filter).length ? { filter } : {};
  }

  /** @param {Ask} ask */
  fill(ask) {
    this.question.value = ask.question;
    if (ask.corpus) this.corpus.value = ask.corpus;
    const { drug, set_id, title, ...narrower } = ask.filter ?? {};
    this.names.set(drug ?? set_id ?? title ?? "");
    this.wanted = narrower;
    this.showCorpus();
    for (const [name, value] of Object.entries(narrower)) if (FILTERS.includes(name)) byId(name).value = value;
    this.choose(ask.strategy ?? this.strategyName, ask.k ?? this.offer.defaults.k ?? K);
  }
}

/** Returns the page's address with the question after "#", a part that browsers do not send to servers. @param {Ask} ask */
export function linkOf(ask) {
  const { question, filter, ...rest } = ask;
  const parts = Object.entries({ q: question, ...rest, ...filter }).map(([name, value]) => [name, String(value)]);
  return `${location.origin}${location.pathname}#${new URLSearchParams(parts)}`;
}

/** Returns the question in the page's address, null if it has none. @returns {Ask | null} */
export function linked() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const question = parts.get("q")?.trim();
  if (!question) return null;
  /** @param {string[]} keys */
  const given = (...keys) => Object.fromEntries(keys.flatMap((key) => (parts.get(key) ? [[key, parts.get(key)]] : [])));
  const filter = given("drug", "set_id", "title", ...FILTERS);
  const k = Number(parts.get("k"));
  const more = { ...(k > 0 && { k }), ...(Object.keys(filter).length && { filter }) };
  return { question, ...given("corpus", "strategy"), ...more };
}
