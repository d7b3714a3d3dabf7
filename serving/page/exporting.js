// An answer as a file: the question, the answer, and all that it was made from, for an audit.
import { save, sectionWords } from "./dom.js";
import { REASONS, uploadedWords } from "./notices.js";

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
  const asked = history.map((turn) => `- ${oneLine(turn.question)}`);
  const parts = [
    `# ${oneLine(ask.question)}`,
    "Not for clinical use. Check every answer against its passages.",
    asked.length ? `## Earlier questions\n\n${asked.join("\n")}` : "",
    `## Answer\n\n${answer.answer || "The model gave no answer."}`,
    statements(answer),
    `## Passages\n\n${answer.passages.map((one) => passageText(one, answer)).join("\n\n")}`,
    `## How the answer was made\n\n${facts(ask, at, answer).map(([name, value]) => `- ${name}: ${value}`).join("\n")}`,
  ];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

/** @param {string} text */
const oneLine = (text) => text.replace(/\s+/g, " ").trim();

/** @param {string} text */
const quoted = (text) => text.split("\n").map((line) => `> ${line}`.trimEnd()).join("\n");

/** @param {Answer} answer */
function statements({ gate, citations }) {
  const counts = `${gate.statements} checked: ${gate.supported} supported, ${gate.undecided} unverified, ${gate.dropped.length} removed.`;
  const places = citations.map(({ n, quote, verdict }) => `- [${n}] ${verdict === "supported" ? "supported" : "unverified"}: “${oneLine(quote)}”`);
  const removed = gate.dropped.map(({ text, reason }) => `- removed (${REASONS[reason] ?? reason}): ${oneLine(text)}`);
  return `## Statements\n\n${[counts, [...places, ...removed].join("\n")].filter(Boolean).join("\n\n")}`;
}

/** @param {Passage} passage @param {Answer} answer */
function passageText(passage, { citations }) {
  const cited = citations.some((one) => one.n === passage.n) ? "cited" : "not cited";
  const state = [cited, uploadedWords(passage)].filter(Boolean).join(", ");
  const about = [
    ["Section", sectionWords(passage.section)], ["Drug", [passage.drug, ...passage.moieties].join("; ")],
    ["Labeler", passage.labeler], ["Effective date", passage.effective_date],
    ["Version", passage.set_id && passage.version], ["Set id", passage.set_id], ["Page", passage.page],
    ["Document", passage.document_id], ["Passage id", passage.chunk_id], ["Link", passage.url],
  ];
  const lines = about.filter(([, value]) => value).map(([name, value]) => `- ${name}: ${value}`);
  return `### [${passage.n}] ${oneLine(passage.title || passage.document_id)} (${state})\n\n${lines.join("\n")}\n\n${quoted(passage.text)}`;
}

/** @param {Ask} ask @param {string} at @param {Answer} answer @returns {[string, string | number][]} */
function facts(ask, at, answer) {
  const prompts = answer.prompts.map(({ name, version, model }) => `${name} version ${version} (${model})`);
  const filter = Object.entries(ask.filter ?? {}).map(([name, value]) => `${name} ${value}`);
  /** @type {[string, string | number][]} */
  const found = [
    ["Asked at", at], ["Service", location.origin], ["Request id", answer.id],
    ["Question that was answered", oneLine(answer.standalone_question)], ["Model", answer.model],
    ["Prompts", prompts.join(", ")], ["Corpus", answer.index.corpus], ["Index version", answer.index.version],
    ["Strategy", answer.strategy], ["Retriever", answer.retriever], ["Post-processing", answer.postprocess],
    ["Passages at most", ask.k ?? ""], ["Filter", filter.join(", ")], ["Searches", answer.searches.map(oneLine).join(" | ")],
    ["Failed steps", answer.degraded ?? ""], ["Milliseconds", answer.timings_ms.total],
    ["Tokens", answer.usage.prompt_tokens + answer.usage.completion_tokens],
  ];
  return found.filter(([, value]) => value !== "");
}
