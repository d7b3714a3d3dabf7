// Plain words for what is not an answer.
import { button, element } from "./dom.js";

/** @typedef {import("./service.js").ServiceError} ServiceError @typedef {import("./service.js").Answer} Answer */

/** @type {Record<string, [string, string]>} what happened, and what to do where the server does not say */
const ERRORS = {
  unreachable: ["The server cannot be reached.", "Check the connection, and that the service runs."],
  broken: ["The answer broke off.", "The connection ended before the answer was complete."],
  401: ["The server wants a key.", "Try again, and give the key that you were given for this service."],
  404: ["Nothing was found to answer from.", "Ask without the filter, or check its spelling."],
  413: ["The question is too long for the server.", "Shorten it."],
  422: ["The server cannot take this question.", "Change the question or the options."],
  429: ["Too many questions in a short time.", "The server takes the next one after a pause."],
  503: ["The service is busy, or is still starting.", "Try again in a moment."],
  504: ["The answer took too long.", "Try again, or choose fewer passages."],
};

/** @type {Record<string, string>} by the step that the server had to do without */
const WITHOUT = {
  hypothetical_answer: "The model drafted no answer to search with.",
  hyde_passage: "The model wrote no passage to search with.",
  more_questions: "The model did not word the question in other ways to search with.",
  score_chunk: "The model did not score every passage, so that their order is less sure.",
};

export const NO_ANSWER = "The model gave no answer. These are the passages found.";
export const REFUSED = "The passages found do not hold the answer.";
const LESS = "A step before the answer failed, so the answer rests on less.";

/** @param {string} kind @param {string} heading @param {...(Node | string | null)} rest */
function notice(kind, heading, ...rest) {
  return element("div", `notice ${kind}`, element("p", "heading", heading), ...rest);
}

/** @param {string} text */
const paragraph = (text) => (text ? element("p", "", text) : null);

/**
 * A "Try again" that counts down while the server asks to wait.
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

/** What must be said of an answer beside its text, if anything. @param {Answer} answer */
export function answerNotice(answer) {
  if (answer.degraded !== null) {
    const heading = answer.answer ? LESS : NO_ANSWER;
    const told = answer.degraded.split("; ").map((step) => paragraph(WITHOUT[step.split(":")[0]] ?? ""));
    return notice("degraded", heading, ...told, element("p", "soft small", `Reason: ${answer.degraded}`));
  }
  return answer.refused ? notice("refused", REFUSED) : null;
}
