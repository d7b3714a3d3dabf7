// Conversations are stored in this browser only: one entry of localStorage each, the oldest removed where space ends.
import { button, byId, counted, element } from "./dom.js";

/**
 * @typedef {import("./service.js").Answer} Answer @typedef {import("./service.js").Ask} Ask
 * @typedef {{ask: Ask, at: string, answer: Answer}} AnsweredTurn
 * @typedef {{id: string, at: string, turns: AnsweredTurn[]}} Conversation `at` is the time of the last answer, in ISO 8601
 */

const PREFIX = "fdarx-conversation-";
const CURRENT = "fdarx-conversation";
const MOST = 50;

/** @returns {Conversation} */
export const newConversation = () => ({ id: randomId(), at: "", turns: [] });

/** Works without HTTPS, unlike crypto.randomUUID. */
const randomId = () => [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Returns the stored conversations, the newest first. @returns {Conversation[]} */
export function storedConversations() {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  return keys.flatMap(read).sort((a, b) => b.at.localeCompare(a.at));
}

/** @param {string} key @returns {Conversation[]} */
function read(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "");
    if (!Array.isArray(found.turns) || !found.turns.length) return [];
    return [{ ...found, turns: found.turns.map((/** @type {AnsweredTurn} */ one) => ({ ...one, answer: withStatements(one.answer) })) }];
  } catch {
    return [];
  }
}

/** What the report of an earlier version lacks. */
const EARLIER = { unsupported: 0, verifier: "" };

/** Returns an answer; one that an earlier version stored, without statements, is unverified as a whole. @param {Answer} answer @returns {Answer} */
function withStatements(answer) {
  if (answer.statements || !answer.answer) return { ...answer, statements: answer.statements ?? [], gate: { ...EARLIER, ...answer.gate } };
  const whole = { start: 0, end: [...answer.answer].length, verdict: /** @type {const} */ ("undecided"), citations: [] };
  return { ...answer, statements: [whole], gate: { ...EARLIER, ...answer.gate, uncited: 0 } };
}

/** Stores a conversation, and removes the oldest others where there is no space. @param {Conversation} conversation */
function store(conversation) {
  const others = storedConversations().filter((one) => one.id !== conversation.id);
  while (others.length >= MOST) remove(/** @type {Conversation} */ (others.pop()).id);
  for (;;) {
    try {
      localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
      return;
    } catch {
      const oldest = others.pop();
      if (!oldest) return; // this browser stores nothing: the page works without
      remove(oldest.id);
    }
  }
}

/** @param {string} id */
const remove = (id) => localStorage.removeItem(PREFIX + id);

export class Conversations {
  /** @param {(conversation: Conversation) => void} open shows a conversation; one without turns is a new one */
  constructor(open) {
    this.open = open;
    this.current = newConversation();
    this.list = byId("earlier-list");
    byId("new-conversation").addEventListener("click", () => this.show(newConversation()));
    byId("earlier-clear").addEventListener("click", () => this.clear());
    byId("earlier").addEventListener("toggle", () => this.draw());
    window.addEventListener("storage", () => this.draw());
    this.draw();
  }

  /** @param {AnsweredTurn} turn the next turn of the present conversation */
  add(turn) {
    this.current.turns.push(turn);
    this.current.at = turn.at;
    store(this.current);
    this.mark();
  }

  /** @param {Conversation} conversation */
  show(conversation) {
    this.current = conversation;
    this.mark();
    this.open(conversation);
  }

  /** Returns the conversation that this tab showed before it was loaded again. @returns {Conversation | undefined} */
  last() {
    const id = sessionStorage.getItem(CURRENT);
    return storedConversations().find((one) => one.id === id);
  }

  mark() {
    sessionStorage.setItem(CURRENT, this.current.id);
    byId("new-conversation").hidden = !this.current.turns.length;
    this.draw();
  }

  draw() {
    const stored = storedConversations();
    byId("earlier").hidden = !stored.length;
    byId("earlier-count").textContent = ` (${stored.length})`;
    if (byId("earlier").open) this.list.replaceChildren(...stored.map((one) => this.item(one)));
  }

  /** @param {Conversation} conversation */
  item(conversation) {
    const { question } = conversation.turns[0].ask;
    const open = button(question, "plain title", () => { byId("earlier").open = false; this.show(conversation); });
    if (conversation.id === this.current.id) open.setAttribute("aria-current", "true");
    const about = `${new Date(conversation.at).toLocaleString()} · ${counted(conversation.turns.length, "question")}`;
    const erase = button("×", "close", () => this.erase(conversation));
    erase.setAttribute("aria-label", `Delete the conversation “${question}”`);
    return element("li", "", element("div", "", open, element("span", "soft small", about)), erase);
  }

  /** @param {Conversation} conversation */
  erase({ id }) {
    remove(id);
    if (id === this.current.id) this.show(newConversation());
    else this.draw();
    byId("earlier").querySelector("summary").focus();
  }

  clear() {
    const stored = storedConversations();
    if (!window.confirm(`Delete ${counted(stored.length, "conversation")} from this browser?`)) return;
    for (const { id } of stored) remove(id);
    this.show(newConversation());
    byId("question").focus();
  }
}
