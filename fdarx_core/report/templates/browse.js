"use strict";
// Functions for pages with filtered lists. Text of labels and models is inserted as text, never as markup.
const PAGE = 25;
const byId = (id) => document.getElementById(id);
const dataOf = (id) => { const found = byId(id); return found ? JSON.parse(found.textContent) : null; };

function element(tag, text, name, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (name) made.className = name;
  made.append(...children.filter(Boolean));
  return made;
}

function fillSelect(select, values, all) {
  const counts = new Map();
  for (const value of values) if (value) counts.set(value, (counts.get(value) || 0) + 1);
  select.append(new Option(all, ""));
  for (const [value, count] of [...counts].sort((a, b) => a[0].localeCompare(b[0]))) {
    select.append(new Option(`${value} (${count.toLocaleString("en")})`, value));
  }
}

/* Shows a list that controls filter, one page at a time; `target.everyRow()` has all rows that pass. */
function browse({ rows, keeps, draw, target, found, more, noun, tell }) {
  let drawn = 0, kept = rows;
  const next = () => {
    target.append(...kept.slice(drawn, drawn + PAGE).map(draw));
    drawn = Math.min(drawn + PAGE, kept.length);
    found.textContent = tell ? tell(drawn, kept.length) : `${drawn.toLocaleString("en")} of ${kept.length.toLocaleString("en")} ${noun} shown`;
    more.hidden = drawn >= kept.length;
  };
  target.everyRow = () => kept.map(draw);
  more.addEventListener("click", () => {
    const first = target.children.length;
    next();
    // In a table of limited height the new rows are below what is visible.
    target.children[first]?.scrollIntoView({ block: target.closest(".scroll") ? "center" : "nearest" });
  });
  return (order) => {
    kept = rows.filter(keeps);
    if (order) kept.sort(order);
    target.replaceChildren();
    drawn = 0;
    next();
  };
}

/* Returns the value of a compressed block of JSON. */
async function unpack(id) {
  const letters = atob(byId(id).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
