// A reader's judgment of an answer, which the server appends to its file of feedback.
import { button, element } from "./dom.js";
import { isQuoted } from "./notices.js";
import { sendFeedback } from "./service.js";

/** @typedef {import("./service.js").Answer} Answer @typedef {"good" | "bad"} Verdict */

let count = 0;

/** Returns the drawing of a thumb, since many systems have no font with one. */
function thumb() {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("viewBox", "0 0 24 24");
  made.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", "M2 10h4v11H2zM8 21V10l5-8c1.5 0 2.5 1 2.2 2.6L14.5 9H21c1 0 1.7.9 1.5 1.9l-1.8 8.6c-.2.9-1 1.5-1.9 1.5z");
  made.append(path);
  return made;
}

/** Returns two buttons, each of which sends its judgment, and then a field for a comment. @param {Answer} answer */
export function feedbackForm(answer) {
  const id = `remark-${(count += 1)}`;
  const status = element("span", "soft small");
  status.setAttribute("role", "status");
  const remark = /** @type {HTMLTextAreaElement} */ (element("textarea"));
  Object.assign(remark, { id, rows: 2, maxLength: 4000 });
  const label = /** @type {HTMLLabelElement} */ (element("label", "caption", "Comment (optional)"));
  label.htmlFor = id;
  /** @type {Verdict} */
  let chosen = "good";
  /** Sends the judgment; of several about one answer the last counts. @param {string} thanks */
  const sendIt = async (thanks) => {
    status.textContent = "Sending…";
    try {
      await sendFeedback(chosen, remark.value.trim(), answer);
      status.textContent = thanks;
      return true;
    } catch (error) {
      status.textContent = `The judgment could not be sent. ${error instanceof Error ? error.message : ""}`;
      return false;
    }
  };
  const sending = button("Send comment", "", async () => { fields.hidden = await sendIt("Thank you. Your comment is stored too."); });
  const fields = element("div", "remark", label, remark, sending);
  fields.hidden = true;
  /** @param {Verdict} verdict */
  const choose = async (verdict) => {
    chosen = verdict;
    good.setAttribute("aria-pressed", String(verdict === "good"));
    bad.setAttribute("aria-pressed", String(verdict === "bad"));
    fields.hidden = !(await sendIt("Thank you. Your judgment is stored with the question, the answer and its passages."));
    if (!fields.hidden) return;
    good.setAttribute("aria-pressed", "false");
    bad.setAttribute("aria-pressed", "false");
  };
  const good = button("", "thumb", () => choose("good"));
  const bad = button("", "thumb bad", () => choose("bad"));
  for (const one of [good, bad]) one.append(thumb());
  good.setAttribute("aria-label", "Good answer");
  bad.setAttribute("aria-label", "Bad answer");
  for (const one of [good, bad]) one.setAttribute("aria-pressed", "false");
  const group = element("div", "feedback", element("span", "soft small", isQuoted(answer) ? "Do these passages answer the question?" : "Is this answer right?"), good, bad, status, fields);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Your judgment of the answer");
  return group;
}
