// Requests to the server and its replies. Addresses are relative, because the service may have a path prefix.
import { askForKey, storedKey } from "./key.js";

/**
 * @typedef {Record<string, string>} Filter
 * @typedef {{question: string, answer: string}} Turn
 * @typedef {{question: string, corpus?: string, filter?: Filter, strategy?: string, k?: number}} Ask
 * @typedef {{n: number, chunk_id: string, document_id: string, title: string, section: string, text: string,
 *   section_code: string, set_id: string, drug: string, moieties: string[], labeler: string, version: number,
 *   effective_date: string, url: string, page: number, uploaded_by: string, score: number, rerank: number | null,
 *   cited: boolean}} Passage
 * @typedef {{n: number, start: number, end: number, quote: string, statement_start: number, statement_end: number,
 *   page: number, uploaded_by: string, verdict: "supported" | "unsupported" | "undecided"}} Citation
 * @typedef {{start: number, end: number, verdict: "supported" | "unsupported" | "undecided" | "uncited" | "unchecked", citations: number[]}} Statement
 * @typedef {{drug: string, moieties: string[], answer_start: number, answer_end: number, refused: boolean}} Column
 * @typedef {{drug: string, moieties: string[], labels: number, newest: string, citations: number[]}} Group
 * @typedef {{id: string, question: string, standalone_question: string, answer: string, refused: boolean, withheld: boolean, degraded: string | null, passages: Passage[],
 *   statements: Statement[], citations: Citation[], columns: Column[], groups: Group[], prompts: {name: string, version: number, model: string}[],
 *   gate: {statements: number, supported: number, unsupported: number, undecided: number, uncited: number, dropped: {text: string, reason: string}[], verifier: string},
 *   columns: {drug: string, moieties: string[], answer_start: number, answer_end: number, refused: boolean}[],
 *   strategy: string, retriever: string, postprocess: string, searches: string[], corrections?: {written: string, name: string}[], timings_ms: Record<string, number>,
 *   model: string, index: {corpus: string, version: string},
 *   usage: {prompt_tokens: number, completion_tokens: number}}} Answer
 * @typedef {{name: string, version: string, chunks: number, documents: number, kind: "labels" | "documents"}} Corpus
 * @typedef {{corpora: Corpus[], feedback: boolean, upload: string[], strategies: {name: string, title: string}[], model: string, defaults: Record<string, any>}} Offer
 * @typedef {{chunk_id: string, title: string, section: string, text: string, here: boolean}} Neighbor
 * @typedef {{name: string, stands_for: string, of_drug: boolean}} Name
 * @typedef {{value: string, title: string, labels: number}} FilterValue
 * @typedef {{drug: string, moieties: string[], labeler: string, set_id: string, version: number, effective_date: string,
 *   url: string, uploaded_by: string}} Section
 * @typedef {{first: Section, second: Section, differences: {first: string, second: string, same: boolean}[]}} Compared
 * @typedef {{added: number, chunks: number, rejected: {name: string, reason: string, detail: string}[], corpus: string,
 *   version: string}} Added
 * @typedef {{passages: (answer: Answer) => void, delta: (text: string, statements: Statement[]) => void}} Listener
 */

/** `kind` is the HTTP status, "unreachable" if there was no response, or "broken" if the answer's stream was incomplete. */
export class ServiceError extends Error {
  /** @param {string} kind @param {string} message @param {number | null} [wait] seconds until the next attempt */
  constructor(kind, message, wait = null) {
    super(message);
    this.kind = kind;
    this.wait = wait;
  }
}

/** @param {unknown} error */
export const isStop = (error) => error instanceof DOMException && error.name === "AbortError";

/** @param {any} body an error of the service, or of FastAPI */
function messageOf(body) {
  if (body?.error?.message) return String(body.error.message);
  return typeof body?.detail === "string" ? body.detail : "";
}

/** @param {Response} response */
async function errorOf(response) {
  const body = await response.json().catch(() => null);
  const wait = Number(response.headers.get("Retry-After"));
  return new ServiceError(String(response.status), messageOf(body), wait > 0 ? Math.ceil(wait) : null);
}

/** @param {string} path @param {RequestInit} options @param {string | null} key */
async function send(path, options, key) {
  const headers = { ...options.headers, ...(key === null ? {} : { Authorization: `Bearer ${key}` }) };
  try {
    return await fetch(path, { ...options, headers, credentials: "same-origin" });
  } catch (error) {
    if (isStop(error)) throw error;
    throw new ServiceError("unreachable", "");
  }
}

/** @param {string} path @param {RequestInit} [options] */
async function call(path, options = {}) {
  for (;;) {
    const key = storedKey();
    const response = await send(path, options, key);
    if (response.ok) return response;
    if (response.status !== 401) throw await errorOf(response);
    if (storedKey() === key && !(await askForKey(key !== null))) throw await errorOf(response);
    options.signal?.throwIfAborted();
  }
}

/** @returns {Promise<Offer>} */
export const offered = async () => (await call("v1/corpora")).json();

/**
 * @param {string} corpus "" for the default corpus
 * @param {string} prefix @param {AbortSignal} signal @param {number} [limit] @returns {Promise<Name[]>}
 */
export async function names(corpus, prefix, signal, limit = 8) {
  const query = new URLSearchParams({ ...(corpus && { corpus }), prefix, limit: String(limit) });
  return (await (await call(`v1/names?${query}`, { signal })).json()).names;
}

/** @param {string} corpus @returns {Promise<{section: FilterValue[], labeler: FilterValue[]}>} */
export async function filterValues(corpus) {
  return (await call(`v1/filters?${new URLSearchParams({ corpus, limit: "100" })}`)).json();
}

/** @param {string} id @param {string} corpus @param {AbortSignal} signal @returns {Promise<Neighbor[]>} */
export async function around(id, corpus, signal) {
  const query = new URLSearchParams({ corpus });
  return (await (await call(`v1/passages/${encodeURIComponent(id)}?${query}`, { signal })).json()).around;
}

/**
 * Returns the texts of a section of a drug's newest label that has it.
 * @param {string} corpus @param {string} label @param {string} section @param {AbortSignal} signal @returns {Promise<{text: string}[]>}
 */
export async function sectionOf(corpus, label, section, signal) {
  const query = new URLSearchParams({ corpus, label, section });
  return (await (await call(`v1/sections?${query}`, { signal })).json()).passages;
}

/** Returns the passages for a question, without an answer. @param {Ask} ask @param {AbortSignal} signal @returns {Promise<Passage[]>} */
export async function foundPassages(ask, signal) {
  const headers = { "Content-Type": "application/json" };
  return (await (await call("v1/search", { method: "POST", headers, signal, body: JSON.stringify(ask) })).json()).passages;
}

/**
 * Returns the same section of two labels, in pieces that are the same or differ.
 * @param {{first: string, second: string, section: string, corpus: string}} wanted labels by set id, the section by code
 * @param {AbortSignal} signal @returns {Promise<Compared>}
 */
export async function compared(wanted, signal) {
  return (await call(`v1/sections/compared?${new URLSearchParams({ ...wanted, whole: "true" })}`, { signal })).json();
}

/** @param {"good" | "bad"} verdict @param {string} remark @param {Answer} reply */
export async function sendFeedback(verdict, remark, reply) {
  const headers = { "Content-Type": "application/json" };
  await call("v1/feedback", { method: "POST", headers, body: JSON.stringify({ verdict, remark, reply }) });
}

/** Adds the documents of a file to a corpus. @param {string} corpus @param {File} file @returns {Promise<Added>} */
export async function addDocuments(corpus, file) {
  const query = new URLSearchParams({ name: file.name, ...(corpus && { corpus }) });
  const headers = { "Content-Type": "application/octet-stream" };
  return (await call(`v1/documents?${query}`, { method: "POST", headers, body: file })).json();
}

/** @param {string} block the lines of one event */
function eventOf(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^(event|data): ?(.*)$/.exec(line) ?? [];
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
  return { event, data: data.join("\n") };
}

/** @param {ReadableStream<any>} body */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = /** @type {string} */ (blocks.pop());
    yield* blocks.map(eventOf);
  }
}

/** @param {Response} response @param {Listener} listener @returns {Promise<Answer>} */
async function listen(response, listener) {
  for await (const { event, data } of events(/** @type {any} */ (response.body))) {
    if (event === "passages") listener.passages(JSON.parse(data));
    if (event === "delta") {
      const { text, statements } = JSON.parse(data);
      listener.delta(text, statements);
    }
    if (event === "done") return JSON.parse(data);
    if (event === "error") throw new ServiceError("broken", messageOf(JSON.parse(data)));
  }
  throw new ServiceError("broken", "");
}

/**
 * Sends a question; the listener receives the passages and each piece of the answer.
 * @param {Ask & {history: Turn[]}} ask @param {AbortSignal} signal @param {Listener} listener
 */
export async function answer(ask, signal, listener) {
  const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
  const body = JSON.stringify({ ...ask, stream: true });
  const response = await call("v1/answers", { method: "POST", headers, signal, body });
  try {
    return await listen(response, listener);
  } catch (error) {
    if (isStop(error) || error instanceof ServiceError) throw error;
    throw new ServiceError("broken", "");
  }
}
