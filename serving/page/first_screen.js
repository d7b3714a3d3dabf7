// What a reader sees before the first question: what is indexed, and questions to try that it answers.
import { button, byId, counted, element, number } from "./dom.js";
import { foundPassages, names, sectionOf } from "./service.js";

/** @typedef {import("./service.js").Corpus} Corpus @typedef {import("./service.js").Name} Name */

/** Names that are shown; of more, the number is told. */
const SHOWN = 12;
/** Names that the server lists at most. */
const LISTED = 100;
const EXAMPLES = 3;
/** Labels in which each question is looked for. */
const TRIED = 4;
/** Characters of the shortest section that answers a question: shorter ones say "None." */
const SHORTEST = 60;

/** A question in a text: most guidelines with questions and answers have them as headings. */
const QUESTION = /(?<=^|[.:?)] )[A-Z][^.?!:\n]{14,110}\?/gm;
/** A heading: a line between blank ones without a stop. */
const HEADING = /(?<=\n\s*\n)(?:#+ )?([A-Z][^.?!:;|\n]{3,60})(?=\n\s*\n)/g;

/** Questions about a drug, with the LOINC code of the section that answers them. @type {[string, (drug: string) => string][]} */
const OF_LABELS = [
  ["34070-3", (drug) => `What are the contraindications of ${drug}?`],
  ["34067-9", (drug) => `What is ${drug} indicated for?`],
  ["34088-5", (drug) => `How is an overdosage of ${drug} managed?`],
];

export class FirstScreen {
  /** @param {(question: string) => void} send asks an example */
  constructor(send) {
    this.send = send;
    this.request = new AbortController();
    /** The corpus that is shown, and its version. */
    this.shown = "";
  }

  /** Shows what a corpus contains. The page works without, so errors are left to the first question. @param {Corpus} corpus */
  async show(corpus) {
    const shown = `${corpus.name} ${corpus.version}`;
    if (shown === this.shown) return;
    this.shown = shown;
    this.request.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    byId("contents").textContent = contentsOf(corpus, []);
    byId("examples").hidden = true;
    const found = await names(corpus.name, "", signal, LISTED).catch(() => []);
    if (signal.aborted) return;
    byId("contents").textContent = contentsOf(corpus, found);
    const drugs = found.filter((one) => one.of_drug);
    const examples = await (drugs.length ? labelExamples(corpus, drugs, signal) : documentExamples(corpus, found, signal));
    if (signal.aborted) return;
    byId("examples-list").replaceChildren(...examples.map((one) => element("li", "", button(one, "", () => this.send(one)))));
    byId("examples").hidden = !examples.length;
  }
}

/** @param {Corpus} corpus @param {Name[]} found at most `LISTED` names */
function contentsOf({ documents }, found) {
  const cut = found.length === LISTED;
  const drugs = listed("drug", found.filter((one) => one.of_drug), ", ", cut);
  const titles = listed("document", found.filter((one) => !one.of_drug), "; ", cut);
  const whole = counted(documents, "document");
  return `Indexed: ${[drugs && `the labels of ${drugs}`, titles].filter(Boolean).join(" and ") || whole}.`;
}

/**
 * Returns how many names there are, and the first of them.
 * @param {string} noun @param {Name[]} found @param {string} between @param {boolean} cut whether there are more
 */
function listed(noun, found, between, cut) {
  if (!found.length) return "";
  const rest = found.length - SHOWN;
  const more = rest > 0 ? ` and ${cut ? "others" : `${number(rest)} more`}` : "";
  return `${cut ? "more than " : ""}${counted(found.length, noun)} (${found.slice(0, SHOWN).map(({ name }) => name).join(between)}${more})`;
}

/**
 * Returns questions about different drugs, each answered by a section of the drug's label.
 * @param {Corpus} corpus @param {Name[]} found @param {AbortSignal} signal
 */
async function labelExamples(corpus, found, signal) {
  const step = Math.max(1, Math.floor(found.length / OF_LABELS.length));
  const looked = OF_LABELS.map(async ([code, question], at) => {
    for (const { name } of found.slice(at * step, at * step + TRIED)) {
      const passages = await sectionOf(corpus.name, name, code, signal).catch(() => []);
      if (passages.map((one) => one.text).join("\n").length >= SHORTEST) return question(name);
    }
    return "";
  });
  return (await Promise.all(looked)).filter(Boolean);
}

/**
 * Returns questions that the documents have themselves, or about their headings; of several documents where they can.
 * @param {Corpus} corpus @param {Name[]} found @param {AbortSignal} signal
 */
async function documentExamples(corpus, found, signal) {
  if (!found.length) return [];
  const titles = found.slice(0, EXAMPLES).map(({ name }) => name);
  const searched = await Promise.all(titles.map((title) => foundPassages({ question: title, corpus: corpus.name, filter: { title }, k: 1 }, signal).catch(() => [])));
  const questions = searched.flat().map(({ text, title }) => {
    const asked = [...text.matchAll(QUESTION)].map(([question]) => question);
    const headings = [...text.matchAll(HEADING)].map(([, heading]) => `What does “${title}” say about ${inSentence(heading)}?`);
    return [...asked, ...headings];
  });
  const inTurn = Array.from({ length: EXAMPLES }, (_, at) => questions.flatMap((some) => some.slice(at, at + 1))).flat();
  return inTurn.slice(0, EXAMPLES);
}

/** Returns a heading with a small letter, unless its first word has more capitals. @param {string} heading */
const inSentence = (heading) => (/^[A-Z][^A-Z ]* /.test(`${heading} `) ? heading[0].toLowerCase() + heading.slice(1) : heading);
