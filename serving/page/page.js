// The page: loads the server's options, then sends the reader's questions, one at a time.
import { Entry } from "./answer.js";
import { LabelComparison } from "./comparison.js";
import { Conversations, newConversation } from "./conversations.js";
import { byId } from "./dom.js";
import { feedbackForm } from "./feedback.js";
import { FirstScreen } from "./first_screen.js";
import { Form, linked, linkOf } from "./form.js";
import { readyKey } from "./key.js";
import { errorHeading, errorNotice, isQuoted, NO_ANSWER, refusal } from "./notices.js";
import { Panel } from "./panel.js";
import { answer, isStop, offered, ServiceError } from "./service.js";
import { Upload } from "./upload.js";

/** @typedef {import("./service.js").Ask} Ask @typedef {import("./service.js").Answer} Answer
 * @typedef {import("./service.js").Turn} Turn @typedef {import("./conversations.js").Conversation} Conversation */

const send = /** @type {HTMLButtonElement} */ (byId("send"));
const panel = new Panel();
const first = new FirstScreen((question) => {
  form.question.value = question;
  form.submit();
});
const form = new Form(ask, (corpus) => { if (!linked() && !document.querySelector(".entry")) void first.show(corpus); });
const upload = new Upload(() => form.corpus.value, () => void showAdded());
const comparison = new LabelComparison((corpus, section) => form.sectionTitle(corpus, section));
const conversations = new Conversations(showConversation);
/** @type {import("./answer.js").Acts} */
const acts = {
  open: (...args) => panel.open(...args),
  again,
  compare: (...args) => comparison.open(...args),
  judge: (done) => (form.offer.feedback ? feedbackForm(done) : null),
  strategyTitle: (name) => form.titleOf(name),
  sectionTitle: (corpus, section) => form.sectionTitle(corpus, section),
};
/** @type {AbortController | null} */
let running = null;
/** Whether the reader has sent a question before the server's options were loaded; it is sent once they are. */
let waiting = false;
/** Earlier turns that are sent with a question; the server reads no more. */
const TURNS = 10;
const NARROW = window.matchMedia("(max-width: 40rem)");

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
function sayDone(done) {
  const { answer: text, refused, withheld, degraded } = done;
  if (degraded !== null && !text) return say(NO_ANSWER);
  if (withheld || isQuoted(done)) return say(text);
  return say(refused ? text || refusal(done) : `Answer: ${text}`);
}

/** @param {Ask} asked */
function ask(asked) {
  if (running) return say("An answer is still being received. Stop it first.");
  const entry = addEntry(asked, turnsOf(conversations.current.turns, asked.corpus));
  panel.dismiss();
  form.question.value = "";
  // On a narrow screen the form fills the screen: the answer must not begin below it.
  if (NARROW.matches) form.question.blur();
  entry.element.scrollIntoView({ block: NARROW.matches ? "start" : "nearest" });
  return run(entry);
}

/**
 * Returns the latest of some answered questions on a corpus, as the server reads them.
 * @param {import("./conversations.js").AnsweredTurn[]} answered @param {string | undefined} corpus @returns {Turn[]}
 */
function turnsOf(answered, corpus) {
  const same = answered.filter((turn) => turn.ask.corpus === corpus);
  return same.map((turn) => ({ question: turn.ask.question, answer: turn.answer.answer })).slice(-TURNS);
}

/** Adds a question to the page, above the earlier ones, which are closed. @param {Ask} asked @param {Turn[]} history */
function addEntry(asked, history) {
  for (const one of document.querySelectorAll(".entry > details")) /** @type {HTMLDetailsElement} */ (one).open = false;
  const entry = new Entry(asked, history, acts);
  byId("answers").prepend(entry.element);
  return entry;
}

/** Shows a stored conversation, or the empty page for a new one. @param {Conversation} conversation */
function showConversation({ turns: stored }) {
  running?.abort();
  panel.dismiss();
  byId("answers").replaceChildren();
  stored.forEach(({ ask: asked, at, answer: done }, place) => {
    addEntry(asked, turnsOf(stored.slice(0, place), asked.corpus)).done(done, at);
  });
  const last = stored.at(-1);
  if (last) form.fill({ ...last.ask, question: "" });
  form.followUp(stored.length > 0);
  window.history.replaceState(null, "", last ? linkOf(last.ask) : location.pathname + location.search);
  if (!last && form.chosen) void first.show(form.chosen);
  say(last ? `Conversation of ${stored.length} questions.` : "The next question begins a new conversation.");
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
  window.history.replaceState(null, "", linkOf(entry.ask));
  entry.reset();
  say("Searching.");
  try {
    const done = await answer({ ...entry.ask, history: entry.history }, stop.signal, {
      passages: (found) => {
        entry.found(found);
        if (NARROW.matches) entry.element.scrollIntoView();
        say(`${found.passages.length} passages found. Writing the answer.`);
      },
      delta: (text, statements) => entry.delta(text, statements),
    });
    const at = new Date().toISOString();
    entry.done(done, at);
    conversations.add({ ask: entry.ask, at, answer: done });
    form.followUp(true);
    sayDone(done);
  } catch (error) {
    fail(entry, error);
  } finally {
    setRunning(null);
  }
}

/** @param {Entry} entry @param {unknown} error */
function fail(entry, error) {
  form.question.value ||= entry.ask.question;
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
  conversations.show(newConversation());
  form.fill(wanted);
  void ask({ ...form.read(), ...wanted });
}

/** Tells the first screen, and with it the reader, that documents were added. */
async function showAdded() {
  form.offer.corpora = (await offered()).corpora;
  if (form.chosen) void first.show(form.chosen);
}

async function start() {
  const notice = byId("service-notice");
  notice.replaceChildren();
  try {
    form.offers(await offered());
    upload.offers(form.offer.upload);
    send.disabled = false;
    const last = conversations.last();
    const asked = last?.turns.at(-1)?.ask;
    if (waiting) form.submit();
    else if (last && asked && linkOf(asked) === location.href) conversations.show(last);
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
byId("new-conversation").addEventListener("click", () => form.question.focus());
readyKey();
void start();
