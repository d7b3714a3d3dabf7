// The table of all questions. Rows are numbers into columns; details are decompressed when a question is opened.
(async () => {
  const ROWS = 50;
  const names = dataOf("names");
  const found = byId("found"), body = document.querySelector("#questions tbody"), form = byId("controls");
  const search = byId("search"), pageField = byId("page");
  const selects = [...form.querySelectorAll("select")];
  const plain = (value) => value.toLocaleString("en");

  if (typeof DecompressionStream === "undefined") {
    found.textContent = "This browser cannot read the questions. Open the page in a browser of 2023 or later.";
    return;
  }
  const { columns, values, starts } = await unpack("table");
  const rowOf = new Map(columns.id.map((id, row) => [id, row]));
  const valueOf = (name, row) => values[name][columns[name][row]];
  const texts = columns.id.map((id, row) => [id, columns.question[row], columns.answer[row], valueOf("drug", row),
    valueOf("name", row), valueOf("label", row), valueOf("entity", row)].join("\n").toLowerCase());
  const everything = columns.id.map((_, row) => row);
  const details = new Map();
  let kept = everything, page = 0, sorted = { name: "", down: false }, opened = "";

  function detailsOf(row) {
    let block = starts.length - 1;
    while (starts[block] > row) block -= 1;
    if (!details.has(block)) details.set(block, unpack(`details-${block}`));
    return details.get(block).then(({ passages, rows }) => rows[row - starts[block]].map(([at, has, marks]) => [passages[at], has, marks]));
  }

  /* Filters, search and the open question are in the address, so that it can be kept and shared. */
  function readAddress() {
    const hash = location.hash.slice(1);
    if (hash && byId(hash)) return;
    const asked = new URLSearchParams(hash.includes("=") ? hash : hash && `open=${hash}`);
    for (const select of selects) {
      const place = values[select.dataset.field].indexOf(asked.get(select.dataset.field));
      select.value = place < 0 ? "" : String(place);
    }
    search.value = asked.get("search") || "";
    opened = asked.get("open") || "";
    narrow();
    if (!rowOf.has(opened)) {
      if (opened) found.textContent = `There is no question ${opened} on this page. ${found.textContent}`;
      return;
    }
    const place = kept.indexOf(rowOf.get(opened));
    page = Math.max(0, Math.floor(place / ROWS));
    draw();
    const opener = byId(`open-${opened}`);
    if (!opener) return;
    show(opener, rowOf.get(opened));
    opener.focus({ preventScroll: true });
    opener.scrollIntoView({ block: "start" });
  }

  function writeAddress() {
    const asked = new URLSearchParams();
    for (const select of selects) if (select.value) asked.set(select.dataset.field, values[select.dataset.field][select.value]);
    if (search.value.trim()) asked.set("search", search.value.trim());
    if (opened) asked.set("open", opened);
    const hash = [...asked.keys()].join() === "open" ? opened : asked.toString();
    history.replaceState(null, "", `#${hash}`);
  }

  function narrow() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = selects.filter((select) => select.value).map((select) => [columns[select.dataset.field], Number(select.value)]);
    byId("in-use").textContent = wanted.length ? `(${wanted.length} in use)` : "";
    kept = everything.filter((row) => wanted.every(([column, value]) => (Array.isArray(column[row]) ? column[row].includes(value) : column[row] === value))
      && words.every((word) => texts[row].includes(word)));
    order();
    page = 0;
    draw();
  }

  function order() {
    for (const button of document.querySelectorAll("[data-sort]")) {
      const state = button.dataset.sort !== sorted.name ? "none" : sorted.down ? "descending" : "ascending";
      button.closest("th").setAttribute("aria-sort", state);
    }
    if (!sorted.name) return;
    const column = columns[sorted.name], sign = sorted.down ? -1 : 1;
    const collator = new Intl.Collator("en", { numeric: true });
    if (!(sorted.name in values)) { kept = [...kept].sort((a, b) => sign * collator.compare(column[a], column[b]) || a - b); return; }
    const ranks = new Map([...values[sorted.name].keys()].sort((a, b) => collator.compare(values[sorted.name][a], values[sorted.name][b])).map((place, rank) => [place, rank]));
    kept = [...kept].sort((a, b) => sign * (ranks.get(column[a]) - ranks.get(column[b])) || a - b);
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(kept.length / ROWS));
    const first = page * ROWS, shown = kept.slice(first, first + ROWS);
    body.replaceChildren(...shown.map(tableRow));
    found.textContent = kept.length
      ? `${plain(kept.length)} of ${plain(columns.id.length)} questions match. Rows ${plain(first + 1)} to ${plain(first + shown.length)} are shown.`
      : `None of the ${plain(columns.id.length)} questions match. Clear a filter or change the search.`;
    byId("page-of").textContent = `of ${plain(pages)}`;
    pageField.value = page + 1;
    pageField.max = pages;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page >= pages - 1;
    document.querySelector(".pages").hidden = pages === 1;
  }

  function tableRow(row) {
    const opener = element("button", columns.question[row], "opener");
    opener.type = "button";
    opener.id = `open-${columns.id[row]}`;
    opener.setAttribute("aria-expanded", "false");
    opener.addEventListener("click", () => {
      if (opener.getAttribute("aria-expanded") === "true") hide(opener);
      else show(opener, row);
      opened = opener.getAttribute("aria-expanded") === "true" ? columns.id[row] : "";
      writeAddress();
    });
    return element("tr", "", "", element("td", "", "", opener, element("span", columns.answer[row], "short")),
      element("td", "", "", element("span", valueOf("type", row), `type ${valueOf("type", row)}`)),
      element("td", valueOf("drug", row)), element("td", valueOf("topic", row)));
  }

  function hide(opener) {
    const line = opener.closest("tr");
    opener.setAttribute("aria-expanded", "false");
    opener.removeAttribute("aria-controls");
    line.classList.remove("open");
    if (line.nextElementSibling && line.nextElementSibling.classList.contains("detail")) line.nextElementSibling.remove();
  }

  function show(opener, row) {
    if (opener.getAttribute("aria-expanded") === "true") return;
    const cell = element("td");
    cell.colSpan = 4;
    const detail = element("tr", "", "detail", cell);
    detail.id = `detail-${columns.id[row]}`;
    opener.setAttribute("aria-expanded", "true");
    opener.setAttribute("aria-controls", detail.id);
    opener.closest("tr").classList.add("open");
    opener.closest("tr").after(detail);
    cell.append(element("p", "", "gold", element("b", "Gold answer"), columns.answer[row]));
    detailsOf(row).then((gold) => {
      if (gold.length) cell.append(byId("legend").content.cloneNode(true), ...gold.map(passage));
      else cell.append(element("p", "There are no gold passages. The correct answer is that the label does not contain the answer.", "about"));
      cell.append(facts(row));
    });
  }

  function facts(row) {
    const linked = (id) => {
      const link = element("a", id);
      link.href = `#${id}`;
      return link;
    };
    const section = columns.section[row].map((place) => values.section[place]).join("; ");
    const lines = [["Asks about", valueOf("entity", row)], ["Name in the label", valueOf("name", row)],
      ...Object.entries(names.fields).filter(([name]) => name !== "type").map(([name, title]) => [title, name === "section" ? section : valueOf(name, row)]),
      ["Set id of the label", valueOf("label", row)], ["Id of the question", linked(columns.id[row])],
      ["Twin", columns.twin[row] && linked(columns.twin[row])]];
    return element("dl", "", "", ...lines.filter(([, value]) => value).map(([title, value]) => {
      const given = element("dd");
      given.append(value);
      return element("div", "", "", element("dt", title), given);
    }));
  }

  function passage([[marker, place, text], has, marks]) {
    const about = element("p", `${marker} · ${place}`, "about");
    if (has) about.append(" · ", element("b", "✓ contains the answer"));
    const shown = element("p", "", "text");
    shown.tabIndex = 0;
    let at = 0;
    for (const [start, end, kind] of marks) {
      shown.append(text.slice(at, start), element("mark", text.slice(start, end), names.marks[kind]));
      at = end;
    }
    shown.append(text.slice(at));
    return element("blockquote", "", "evidence", about, shown);
  }

  function fill(select) {
    const name = select.dataset.field, counts = new Map();
    for (const place of columns[name].flat()) counts.set(place, (counts.get(place) || 0) + 1);
    const collator = new Intl.Collator("en", { numeric: true });
    const ordered = [...counts].sort((a, b) => collator.compare(values[name][a[0]], values[name][b[0]]));
    select.append(...ordered.map(([place, count]) => new Option(`${values[name][place]} (${plain(count)})`, place)));
  }

  function turn(to) {
    page = Math.min(Math.max(to, 0), Math.max(0, Math.ceil(kept.length / ROWS) - 1));
    draw();
    byId("questions").scrollIntoView({ block: "start" });
  }

  const changed = () => { opened = ""; narrow(); writeAddress(); };
  let waiting = 0;
  if (matchMedia("(max-width: 640px)").matches) byId("filters").open = false;
  selects.forEach(fill);
  for (const select of selects) select.addEventListener("change", changed);
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(changed, 150); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed));
  byId("previous").addEventListener("click", () => turn(page - 1));
  byId("next").addEventListener("click", () => turn(page + 1));
  pageField.addEventListener("change", () => turn((Number(pageField.value) || 1) - 1));
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      const name = button.dataset.sort;
      sorted = sorted.name !== name ? { name, down: false } : sorted.down ? { name: "", down: false } : { name, down: true };
      narrow();
    });
  }
  window.addEventListener("hashchange", readAddress);
  readAddress();
  document.documentElement.dataset.ready = "true";
})();
