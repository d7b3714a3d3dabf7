// An answer as a file: the question, the answer, and all that it was made from, for an audit.
import { TAGS, markedText } from "./cited_text.js";
import { save, sectionWords } from "./dom.js";
import { REASONS, isQuoted, uploadedWords } from "./notices.js";

/**
 * @typedef {import("./service.js").Answer} Answer @typedef {import("./service.js").Passage} Passage
 * @typedef {import("./service.js").Ask} Ask @typedef {import("./service.js").Turn} Turn
 * @typedef {{ask: Ask, history: Turn[], at: string, answer: Answer}} Answered an answered question; `at` is in ISO 8601
 */

/** @param {Answered} answered */
export const saveJson = (answered) => save(`${fileName(answered)}.json`, "application/json", asJson(answered));

/** @param {Answered} answered */
export const saveMarkdown = (answered) => save(`${fileName(answered)}.md`, "text/markdown", asMarkdown(answered));

/** @param {Answered} answered */
const fileName = ({ answer, at }) => `fdarx-answer-${at.slice(0, 10)}-${answer.id.slice(0, 8)}`;

/** @param {Answered} answered */
export function asJson({ ask, history, at, answer }) {
  return `${JSON.stringify({ asked_at: at, service: location.origin, request: { ...ask, history }, reply: answer }, null, 2)}\n`;
}

/** @param {Answered} answered */
export function asMarkdown({ ask, history, at, answer }) {
  const asked = history.map((turn) => `- ${line(turn.question)}`);
  const parts = [
    `# ${line(ask.question)}`,
    "Not for clinical use. Check every answer against its passages.",
    asked.length ? `## Earlier questions\n\n${asked.join("\n")}` : "",
    `## ${isQuoted(answer) ? "Quotations" : "Answer"}\n\n${markedText(answer, UNVERIFIED, escaped) || "The model gave no answer."}`,
    statements(answer),
    `## Passages\n\n${answer.passages.map((one) => passageText(one, answer)).join("\n\n")}`,
    `## How the answer was made\n\n${facts(ask, at, answer).map(([name, value]) => `- ${name}: ${value}`).join("\n")}`,
  ];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

/** In bold, which the text of an answer cannot be, because its asterisks are escaped. */
const UNVERIFIED = "**[unverified]**";
const MARKUP = /\[\d+(?:\s*[,;]\s*\d+)*\](?![(:])|[\\`*~[\]<&]|_(?![\p{L}\p{N}])|(?<![\p{L}\p{N}])_/gu;
const ENTITIES = new Map([["<", "&lt;"], ["&", "&amp;"]]);

/** Returns a text that Markdown shows as it is, without HTML, links and headings. Lists and citations stay. @param {string} text */
export function escaped(text) {
  return text
    .replace(MARKUP, (found) => (found.length > 1 ? found : (ENTITIES.get(found) ?? `\\${found}`)))
    .replace(/:\/\//g, ":\\//").replace(/www\./gi, (found) => `${found.slice(0, -1)}\\.`)
    .replace(/^([ \t]*(?:(?:[-+]|\d+[.)])[ \t]+)*)([#>])/gm, "$1\\$2")
    .replace(/^([ \t]*)([=-])(?=[ \t=-]*$)/gm, "$1\\$2");
}

/** @param {string} text */
const line = (text) => escaped(text.replace(/\s+/g, " ").trim());

/** @param {string} text */
const quoted = (text) => escaped(text).split("\n").map((part) => `> ${part}`.trimEnd()).join("\n");

/** @param {Answer} answer */
function statements({ answer, gate, citations, statements: all }) {
  const counts =
    `${gate.statements} checked${gate.verifier && ` by ${gate.verifier}`}: ${gate.supported} supported, ` +
    `${gate.unsupported} not supported, ${gate.undecided} unverified, ` +
    `${gate.uncited} without a citation, ${gate.dropped.length} removed.`;
  const places = citations.map(({ n, quote, verdict }) => `- [${n}] ${verdict === "supported" ? "supported" : TAGS[verdict][0]}: “${line(quote)}”`);
  const text = [...answer];
  const uncited = all.filter(({ citations: numbers, verdict }) => verdict !== "supported" && !numbers.length);
  const open = uncited.map(({ start, end, verdict }) => `- ${TAGS[verdict][0]}: ${line(text.slice(start, end).join(""))}`);
  const removed = gate.dropped.map((one) => `- removed (${REASONS[one.reason] ?? one.reason}): ${line(one.text)}`);
  return `## Statements\n\n${[counts, [...places, ...open, ...removed].join("\n")].filter(Boolean).join("\n\n")}`;
}

/** @param {Passage} passage @param {Answer} answer */
function passageText(passage, { citations }) {
  const cited = citations.some((one) => one.n === passage.n) ? "cited" : "not cited";
  const state = [cited, uploadedWords(passage)].filter(Boolean).join(", ");
  const about = [
    ["Section", sectionWords(passage.section)], ["Drug", [passage.drug, ...passage.moieties].join("; ")],
    ["Labeler", passage.labeler], ["Effective date", passage.effective_date],
    ["Version", passage.set_id && passage.version], ["Set id", passage.set_id], ["Page", passage.page],
    ["Document", passage.document_id], ["Passage id", passage.chunk_id],
  ];
  const lines = about.filter(([, value]) => value).map(([name, value]) => `- ${name}: ${line(String(value))}`);
  if (passage.url) lines.push(`- Link: ${encodeURI(passage.url)}`);
  return `### [${passage.n}] ${line(passage.title || passage.document_id)} (${state})\n\n${lines.join("\n")}\n\n${quoted(passage.text)}`;
}

/** @param {Ask} ask @param {string} at @param {Answer} answer @returns {[string, string][]} */
function facts(ask, at, answer) {
  const prompts = answer.prompts.map(({ name, version, model }) => `${name} version ${version} (${model})`);
  const filter = Object.entries(ask.filter ?? {}).map(([name, value]) => `${name} ${value}`);
  /** @type {[string, string | number][]} */
  const found = [
    ["Asked at", at], ["Request id", answer.id],
    ["Question that was answered", answer.standalone_question], ["Model", answer.model],
    ["Prompts", prompts.join(", ")], ["Corpus", answer.index.corpus], ["Index version", answer.index.version],
    ["Strategy", answer.strategy], ["Retriever", answer.retriever], ["Post-processing", answer.postprocess],
    ["Passages at most", ask.k ?? ""], ["Filter", filter.join(", ")], ["Searches", answer.searches.join(" | ")],
    ["Failed steps", answer.degraded ?? ""], ["Milliseconds", answer.timings_ms.total],
    ["Tokens", answer.usage.prompt_tokens + answer.usage.completion_tokens],
  ];
  const shown = found.filter(([, value]) => value !== "").map(([name, value]) => /** @type {[string, string]} */ ([name, line(String(value))]));
  return [["Service", location.origin], ...shown];
}
