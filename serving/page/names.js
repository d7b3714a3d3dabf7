// A text field with suggestions of names: the ARIA pattern of a combobox with a listbox.
import { byId, element } from "./dom.js";

const PAUSE_MS = 150;

/** @typedef {import("./service.js").Name} Name */

export class Names {
  /** @param {(prefix: string, signal: AbortSignal) => Promise<Name[]>} suggest */
  constructor(suggest) {
    this.suggest = suggest;
    this.input = /** @type {HTMLInputElement} */ (byId("only"));
    this.list = /** @type {HTMLElement} */ (byId("only-list"));
    this.clear = /** @type {HTMLElement} */ (byId("only-clear"));
    this.active = -1;
    this.timer = 0;
    this.request = new AbortController();
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    this.input.addEventListener("blur", () => this.close());
    this.clear.addEventListener("click", () => { this.set(""); this.input.focus(); });
    // Without this, pressing the mouse button on a name would move the focus and close the list before the click.
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
  }

  get value() {
    return this.input.value.trim();
  }

  /** @param {string} value */
  set(value) {
    this.input.value = value;
    this.clear.hidden = !value;
    this.close();
  }

  typed() {
    this.clear.hidden = !this.input.value;
    this.close();
    if (this.value) this.timer = window.setTimeout(() => this.look(), PAUSE_MS);
  }

  async look() {
    this.request = new AbortController();
    // The field works without suggestions; errors of the server are shown when a question is sent.
    const found = await this.suggest(this.value, this.request.signal).catch(() => []);
    if (!this.request.signal.aborted && document.activeElement === this.input) this.open(found);
  }

  /** @param {Name[]} found */
  open(found) {
    this.list.replaceChildren(...found.map((one, at) => this.option(one, at)));
    this.show(found.length > 0);
  }

  /** @param {Name} found @param {number} at */
  option({ name, stands_for: moieties }, at) {
    const made = element("li", "", name, moieties ? element("span", "soft", ` (${moieties})`) : null);
    made.dataset.name = name;
    made.id = `only-${at}`;
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", "false");
    made.addEventListener("click", () => this.set(name));
    return made;
  }

  close() {
    clearTimeout(this.timer);
    this.request.abort();
    this.show(false);
  }

  /** @param {boolean} open */
  show(open) {
    this.list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
    this.choose(-1);
  }

  /** @param {number} at -1 selects none */
  choose(at) {
    this.active = at;
    [...this.list.children].forEach((one, place) => one.setAttribute("aria-selected", String(place === at)));
    const chosen = this.list.children[at];
    if (chosen) this.input.setAttribute("aria-activedescendant", chosen.id);
    else this.input.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (this.list.hidden) {
      if (event.key === "ArrowDown" && this.value) void this.look();
      return;
    }
    const count = this.list.children.length;
    if (event.key === "ArrowDown") this.choose((this.active + 1) % count);
    else if (event.key === "ArrowUp") this.choose((this.active <= 0 ? count : this.active) - 1);
    else if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && this.active >= 0) this.set(/** @type {HTMLElement} */ (this.list.children[this.active]).dataset.name ?? "");
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
