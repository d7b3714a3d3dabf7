// The list of all answers. Answers are numbers into columns; details are decompressed when an answer is opened.
(async () => {
  const found = byId("found"), search = byId("search"), form = byId("controls");
  const selects = [...form.querySelectorAll("select")];
  if (typeof DecompressionStream === "undefined") {
    found.textContent = "This browser cannot read the answers. Open the page in a browser of 2023 or later.";
    return;
  }
  const { columns, values, questions, starts } = await unpack("table");
  const [ID, TEXT, GOLD, DRUG, TOPIC, LABEL] = [0, 1, 2, 3, 4, 5];
  const rows = columns.id.map((_, row) => row);
  const valueOf = (name, row) => values[name][columns[name][row]];
  const askedIn = (row) => questions[columns.question[row]];
  const texts = rows.map((row) => [columns.id[row], columns.answer[row], ...askedIn(row)].join("\n").toLowerCase());
  const blocks = new Map();

  async function detailsOf(row) {
    let block = starts.length - 1;
    while (starts[block] > row) block -= 1;
    if (!blocks.has(block)) blocks.set(block, unpack(`details-${block}`));
    const { passages, rows: listed } = await blocks.get(block);
    return { passages, ...listed[row - starts[block]] };
  }

  const keeps = (row) => selects.every((select) => !select.value || columns[select.dataset.field][row] === Number(select.value))
    && search.value.toLowerCase().split(/\s+/).every((word) => texts[row].includes(word));

  function item(row) {
    const right = ["Correct answer", "Right refusal"].includes(valueOf("kind", row));
    const reason = valueOf("reason", row);
    const tags = element("span", "", "tags", element("span", valueOf("kind", row), `tag kind${right ? " right" : ""}`),
      ...[valueOf("model", row), valueOf("setting", row), valueOf("type", row), reason === "None" ? "" : reason].filter(Boolean).map((name) => element("span", name, "tag")));
    const made = element("details", "", right ? "judged-answer right" : "judged-answer", element("summary", "", "", element("span", askedIn(row)[TEXT], "ask"), element("br"), tags));
    made.id = columns.id[row];
    made.addEventListener("toggle", async () => {
      if (!made.open || made.children.length > 1) return;
      made.append(...body(row, await detailsOf(row)));
      for (const text of made.querySelectorAll(".text")) {
        const first = text.querySelector("mark");
        if (first) text.scrollTop = first.getBoundingClientRect().top - text.getBoundingClientRect().top - 40;
      }
    });
    return made;
  }

  function body(row, details) {
    const asked = askedIn(row);
    const labelled = (name, text, style) => element("p", "", `gold ${style}`, element("b", name), document.createTextNode(text || "(nothing)"));
    const why = element("div", "", "why", element("p", "", "", element("b", details.finding)),
      details.detail && element("p", details.detail), ...details.notes.map((note) => element("p", note)));
    const columnsShown = element("div", "", "pair",
      element("div", "", "", element("h4", "Gold passages"), ...goldPassages(row, details, asked)),
      element("div", "", "", element("h4", "Cited passages"), ...citedPassages(row, details, asked)));
    const legend = element("p", "Marked in the passages: ", "about", element("mark", "words of the gold answer", "by-gold"), document.createTextNode(" "),
      element("mark", "words of the model's answer", "by-model"), document.createTextNode(" "), element("mark", "words of both", "by-both"));
    return [why, element("div", "", "pair", labelled("Gold answer", asked[GOLD], ""), labelled("Answer of the model, complete", columns.answer[row], "answer")), columnsShown, columnsShown.querySelector(".text mark") ? legend : "",
      element("p", `${asked[DRUG]} · ${asked[TOPIC] || "no topic"} · label ${asked[LABEL]} · question ${asked[ID]} · answer ${columns.id[row]}`, "about")];
  }

  function goldPassages(row, details, asked) {
    if (!details.gold.length) return [element("p", details.answerable ? "The benchmark does not contain their text." : "None, because the label does not contain the answer.", "about")];
    return details.gold.map(([at, seen]) => {
      const shown = seen === null ? "" : seen ? " · shown to the model" : " · not shown to the model";
      return passage(details.passages[at], asked, columns.answer[row], `gold${shown}`, "gold-mark");
    });
  }

  function citedPassages(row, details, asked) {
    if (details.cited === null) return [element("p", "This setting does not ask for citations.", "about")];
    const made = details.cited.passages.map(([at, mark, words]) => passage(details.passages[at], asked, columns.answer[row], words, mark ? `${mark}-mark` : ""));
    if (details.cited.more) made.push(element("p", `${details.cited.more} more cited; their text is not on this page.`, "about"));
    return made.length ? made : [element("p", "None.", "about")];
  }

  function passage([marker, section, text, setId], asked, answer, words, style) {
    const where = setId === asked[LABEL] ? "" : ` · label ${setId}`;
    return element("blockquote", "", style, element("p", "", "about", element("span", words, "mark"), document.createTextNode(` · ${marker} · ${section}${where}`)), element("p", "", "text", ...marked(text, asked[GOLD], answer)));
  }

  const RUN = 5, MOST_WORDS = 2000;
  const wordsOf = (text) => [...text.matchAll(/[\p{L}\p{N}]+/gu)].map((found) => [found[0].toLowerCase(), found.index, found.index + found[0].length]);

  /* Returns the positions [start, end], in characters, of runs of at least RUN words that both texts contain. */
  function shared(words, others) {
    const found = [];
    for (let at = 0; at < others.length;) {
      let start = 0, longest = 0;
      for (let from = 0; from < words.length; from += 1) {
        let run = 0;
        while (at + run < others.length && from + run < words.length && others[at + run][0] === words[from + run][0]) run += 1;
        if (run > longest) [start, longest] = [from, run];
      }
      if (longest >= RUN) found.push([words[start][1], words[start + longest - 1][2]]);
      at += longest >= RUN ? longest : 1;
    }
    return found;
  }

  function marked(text, gold, answer) {
    const words = wordsOf(text);
    const [byGold, byModel] = [gold, answer].map((other) => shared(words, wordsOf(other).slice(0, MOST_WORDS)));
    const within = (ranges, at) => ranges.some(([start, end]) => start <= at && at < end);
    const edges = [...new Set([0, text.length, ...byGold.flat(), ...byModel.flat()])].sort((a, b) => a - b);
    return edges.slice(1).map((end, place) => {
      const start = edges[place], [one, other] = [within(byGold, start), within(byModel, start)];
      const piece = text.slice(start, end);
      return one || other ? element("mark", piece, one && other ? "by-both" : one ? "by-gold" : "by-model") : document.createTextNode(piece);
    });
  }

  /* The filters are in the address, so that a link from the report or a colleague opens the same answers. */
  function readAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const select of selects) {
      const place = values[select.dataset.field].indexOf(asked.get(select.dataset.field));
      select.value = place < 0 ? "" : String(place);
    }
    search.value = asked.get("search") || "";
    refresh();
  }

  function writeAddress() {
    const asked = new URLSearchParams();
    for (const select of selects) if (select.value) asked.set(select.dataset.field, values[select.dataset.field][select.value]);
    if (search.value.trim()) asked.set("search", search.value.trim());
    history.replaceState(null, "", `#${asked}`);
  }

  function fill(select) {
    const name = select.dataset.field, counts = new Map();
    for (const place of columns[name]) counts.set(place, (counts.get(place) || 0) + 1);
    const ordered = [...counts].sort((a, b) => values[name][a[0]].localeCompare(values[name][b[0]]));
    select.append(...ordered.map(([place, count]) => new Option(`${values[name][place]} (${count.toLocaleString("en")})`, place)));
  }

  const refresh = browse({ rows, keeps, draw: item, target: byId("answers"), found, more: byId("more"), noun: "answers" });
  const changed = () => { refresh(); writeAddress(); };
  let waiting = 0;
  selects.forEach(fill);
  for (const select of selects) select.addEventListener("change", changed);
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(changed, 150); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed));
  window.addEventListener("hashchange", readAddress);
  readAddress();
  document.documentElement.dataset.ready = "true";
})();
