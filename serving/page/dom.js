// Text from the server is inserted only with `element`, which never interprets it as markup.

/**
 * Returns a new element with a class and children; a string becomes text.
 * @param {string} tag
 * @param {string} [name]
 * @param {...(Node | string | null)} children
 */
export function element(tag, name = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  for (const child of children) if (child !== null) made.append(child);
  return made;
}

/**
 * @param {string} text
 * @param {string} name
 * @param {(event: MouseEvent) => void} act
 */
export function button(text, name, act) {
  const made = /** @type {HTMLButtonElement} */ (element("button", name, text));
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** @param {number} value */
export const number = (value) => value.toLocaleString("en");

/** Returns a count with its noun. @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** Returns "A > B" for readers. @param {string} path */
export const sectionWords = (path) => path.split(" > ").join(" › ");

/**
 * Returns a range of a text, which the server counts in characters of Unicode, in the UTF-16 units of JavaScript.
 * @param {string} text @param {number} start @param {number} end @returns {[number, number]}
 */
export function unitsOf(text, start, end) {
  if (!/[\ud800-\udfff]/.test(text)) return [start, end];
  const characters = [...text];
  const units = (/** @type {number} */ count) => characters.slice(0, count).join("").length;
  return [units(start), units(end)];
}

/** Offers a text as a file to save. @param {string} name @param {string} type @param {string} text */
export function save(name, type, text) {
  const link = /** @type {HTMLAnchorElement} */ (element("a"));
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
