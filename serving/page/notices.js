// Messages for errors and incomplete answers.
import { button, counted, element, unitsOf } from "./dom.js";

/** @typedef {import("./service.js").ServiceError} ServiceError @typedef {import("./service.js").Answer} Answer */

/** @type {Record<string, [string, string]>} for each error a heading, and advice for when the server gives none */
const ERRORS = {
  unreachable: ["The server cannot be reached.", "Check the connection, and whether the service is running."],
  broken: ["The answer is incomplete.", "The connection ended before the answer was complete."],
  401: ["The server requires a key.", "Try again, and enter your key for this service."],
  404: ["No passage matches the filter.", "Remove the filter, or check its spelling."],
  413: ["The question is too long for the server.", "Shorten the question."],
  422: ["The server rejects this question.", "Change the question or the options."],
  429: ["Too many questions in a short time.", "The server accepts the next question after a pause."],
  503: ["The service is busy, or is still starting.", "Try again in a moment."],
  504: ["The answer took too long.", "Try again, or choose fewer passages."],
};

/** @type {Record<string, string>} messages by the name of the failed step */
const WITHOUT = {
  hypothetical_answer: "The model wrote no draft of the answer for the search.",
  hyde_passage: "The model wrote no passage for the search.",
  more_questions: "The model did not rephrase the question for the search.",
  score_chunk: "The model did not score every passage, so their order is less reliable.",
};

/** Why the service removed a statement. @type {Record<string, string>} */
export const REASONS = {
  drug: "the cited passages are not about its drug",
  number: "the cited passages lack one of its numbers",
  contradicted: "the cited passages contradict it",
  uncited: "the answer has no citation",
  instructions: "it repeats the instructions to the model",
};

/** Returns whether a reply quotes passages because the service has no model. @param {Answer} answer */
export const isQuoted = ({ model, answer, refused }) => model === "baseline" && answer !== "" && !refused;

export const NO_ANSWER = "The model gave no answer. These passages were found.";
/** @param {Answer} answer that declines */
export const refusal = ({ passages }) =>
  passages.length ? "The passages found do not answer the question." : "The corpus has no passage for this question.";
export const WITHHELD = "The model answered, but no statement of its answer passed the check against the passages.";
const LESS = "A step before the answer failed, so the answer may be less reliable.";

/** @param {string} kind @param {string} heading @param {...(Node | string | null)} rest */
function notice(kind, heading, ...rest) {
  return element("div", `notice ${kind}`, element("p", "heading", heading), ...rest);
}

/** @param {string} text */
const paragraph = (text) => (text ? element("p", "", text) : null);

/**
 * Returns a button "Try again" that counts down the seconds for which the server asks to wait.
 * @param {number | null} wait seconds @param {() => void} again
 */
function tryAgain(wait, again) {
  const made = button("Try again", "", again);
  let left = wait ?? 0;
  const tick = () => {
    made.disabled = left > 0;
    made.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
    left -= 1;
    if (made.disabled) setTimeout(tick, 1000);
  };
  tick();
  return made;
}

/** @param {ServiceError} error */
export const errorHeading = (error) => (ERRORS[error.kind] ?? [`The server failed (${error.kind}).`])[0];

/** @param {ServiceError} error @param {() => void} again */
export function errorNotice(error, again) {
  const advice = error.message || ERRORS[error.kind]?.[1] || "";
  return notice("error", errorHeading(error), paragraph(advice), tryAgain(error.wait, again));
}

/** @param {() => void} again */
export function stoppedNotice(again) {
  return notice("stopped", "Stopped.", button("Ask again", "", again));
}

/** Returns the notice for an incomplete or refused answer, null for others. @param {Answer} answer */
export function answerNotice(answer) {
  if (isQuoted(answer)) return quotedNotice(answer);
  if (answer.degraded !== null) {
    const heading = answer.answer ? LESS : NO_ANSWER;
    const steps = answer.degraded.split("; ").map((step) => paragraph(WITHOUT[step.split(":")[0]] ?? ""));
    return notice("degraded", heading, ...steps, element("p", "soft small", `Reason: ${answer.degraded}`));
  }
  if (answer.withheld) return notice("refused", WITHHELD);
  return answer.refused && !answer.answer ? notice("refused", refusal(answer)) : null;
}

/** Returns the notice that there is no model, with what the text says beside its quotations. @param {Answer} answer */
function quotedNotice({ answer, statements }) {
  const [heading] = answer.split("\n\n");
  const [end] = unitsOf(answer, statements.at(-1)?.end ?? [...heading].length, 0);
  return notice("refused", heading, ...answer.slice(end).split("\n\n").map((text) => paragraph(text.trim())));
}

/** Returns who uploaded a passage or label, "" where nobody did. @param {{uploaded_by: string}} source */
export const uploadedWords = ({ uploaded_by: client }) => (client ? `uploaded by ${client}` : "");

/** @param {{uploaded_by: string}} source */
export const uploadedTag = (source) => (source.uploaded_by ? element("span", "uploaded", uploadedWords(source)) : null);

/** Returns the notice that names the cited passages that were uploaded, null where none was. @param {Answer} answer */
export function uploadNotice(answer) {
  const { passages, citations } = answer;
  const cited = new Set(citations.map((one) => one.n));
  const uploads = passages.filter((one) => one.uploaded_by && cited.has(one.n));
  if (!uploads.length) return null;
  const named = uploads.map((one) => `[${one.n}] by ${one.uploaded_by}`).join(", ");
  const cites = `${isQuoted(answer) ? "The marked sentences are also of" : "This answer cites"} ${uploads.length === 1 ? "an uploaded passage" : "uploaded passages"}: ${named}.`;
  return notice("uploads", cites, paragraph("Uploaded documents are not published labels or guidelines."));
}

/** Returns what became of the statements of the model's answer, null where none was checked. @param {Answer} answer */
export function gateNotice({ gate }) {
  const { statements, supported, unsupported, undecided, uncited, dropped, verifier } = gate;
  if (!statements) return null;
  const denied = unsupported && `${unsupported} not supported`;
  const open = uncited && `${uncited} without a citation`;
  const counts = [supported && `${supported} supported`, denied, undecided && `${undecided} unverified`, open].filter(Boolean).join(", ");
  const kept = element("p", "soft small", `${counted(statements, "statement")} checked${verifier && ` by ${verifier}`}${counts && `: ${counts}`}.`);
  if (!dropped.length) return element("div", "gate", kept);
  const reasons = [...new Set(dropped.map((one) => REASONS[one.reason] ?? one.reason))].join("; ");
  const summary = element("summary", "", `${counted(dropped.length, "statement")} removed: ${reasons}`);
  const items = dropped.map(({ text, reason }) => element("li", "", text, element("span", "soft", ` (${REASONS[reason] ?? reason})`)));
  return element("div", "gate", kept, element("details", "removed small", summary, element("ul", "", ...items)));
}
