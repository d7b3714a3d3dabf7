// The page: loads the server's options, then sends the reader's questions, one at a time.
import { Entry } from "./answer.js";
import { byId } from "./dom.js";
import { Form, linked, linkOf } from "./form.js";
import { readyKey } from "./key.js";
import { errorHeading, errorNotice, NO_ANSWER, REFUSED } from "./notices.js";
import { Panel } from "./panel.js";
import { answer, isStop, offered, ServiceError } from "./service.js";

/** @typedef {import("./service.js").Ask} Ask @typedef {import("./service.js").Answer} Answer */

const send = /** @type {HTMLButtonElement} */ (byId("send"));
const panel = new Panel();
const form = new Form(ask);
/** @type {import("./answer.js").Acts} */
const acts = { open: (...args) => panel.open(...args), again, strategyTitle: (name) => form.titleOf(name) };
/** @type {AbortController | null} */
let running = null;
/** Whether the reader has sent a question before the server's options were loaded; it is sent once they are. */
let waiting = false;
/** Earlier turns that are sent with a question; the server reads no more. */
const TURNS = 10;
/** The answered questions of the running conversation, oldest first. @type {import("./service.js").Turn[]} */
let turns = [];

/** Announces text to screen readers; not called for every piece of an answer. @param {string} words */
function say(words) {
  byId("status").textContent = words;
}

/** @param {AbortController | null} now */
function setRunning(now) {
  running = now;
  send.textContent = now ? "Stop" : "Ask";
  // While it stops an answer it is not a submit button, so that it keeps the focus and Enter in a field does not stop the answer.
  send.type = now ? "button" : "submit";
}

/** @param {Answer} done */
function sayDone({ answer: text, refused, degraded }) {
  if (degraded !== null && !text) return say(NO_ANSWER);
  return say(refused ? `${REFUSED} ${text}` : `Answer: ${text}`);
}

/** @param {Ask} asked */
function ask(asked) {
  if (running) return say("An answer is still being received. Stop it first.");
  byId("empty").hidden = true;
  for (const one of document.querySelectorAll(".entry > details")) /** @type {HTMLDetailsElement} */ (one).open = false;
  const entry = new Entry(asked, turns.slice(-TURNS), acts);
  byId("answers").prepend(entry.element);
  panel.dismiss();
  entry.element.scrollIntoView({ block: "nearest" });
  return run(entry);
}

/** Ends the running conversation: the next question is answered by itself. */
function endConversation() {
  if (turns.length) say("The next question begins a new conversation.");
  turns = [];
  byId("new-conversation").hidden = true;
}

/** @param {Entry} entry */
function again(entry) {
  if (running) return say("An answer is still being received. Stop it first.");
  return run(entry);
}

/** @param {Entry} entry */
async function run(entry) {
  const stop = new AbortController();
  setRunning(stop);
  history.replaceState(null, "", linkOf(entry.ask));
  entry.reset();
  say("Searching.");
  try {
    const done = await answer({ ...entry.ask, history: entry.history }, stop.signal, {
      passages: (found) => { entry.found(found); say(`${found.passages.length} passages found. Writing the answer.`); },
      delta: (text) => entry.delta(text),
    });
    entry.done(done);
    turns = [...entry.history, { question: entry.ask.question, answer: done.answer }];
    byId("new-conversation").hidden = false;
    sayDone(done);
  } catch (error) {
    fail(entry, error);
  } finally {
    setRunning(null);
  }
}

/** @param {Entry} entry @param {unknown} error */
function fail(entry, error) {
  if (isStop(error)) {
    entry.stopped();
    say("Stopped.");
  } else if (error instanceof ServiceError) {
    entry.failed(error);
    say(`${errorHeading(error)} ${error.message}`);
  } else {
    throw error;
  }
}

function askLinked() {
  const wanted = linked();
  if (!wanted) return;
  form.fill(wanted);
  endConversation();
  void ask({ ...form.read(), ...wanted });
}

async function start() {
  const notice = byId("service-notice");
  notice.replaceChildren();
  try {
    form.offers(await offered());
    send.disabled = false;
    if (waiting) form.submit();
    else askLinked();
    waiting = false;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    notice.replaceChildren(errorNotice(error, start));
  }
}

send.disabled = true;
send.addEventListener("click", (event) => {
  // The second click of a double click must not stop the answer that the first has started.
  if (!running || event.detail > 1) return;
  event.preventDefault();
  running.abort();
});
form.question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!send.disabled) return form.submit();
  waiting = true;
  say("The service is not ready yet. The question is sent as soon as it is.");
});
window.addEventListener("hashchange", askLinked);
byId("new-conversation").addEventListener("click", () => { endConversation(); form.question.focus(); });
form.corpus.addEventListener("change", endConversation);
readyKey();
void start();
