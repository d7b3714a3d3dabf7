// The list of all answers by question. Answers are numbers into columns; details are decompressed when an answer is opened.
(async () => {
  const found = byId("found"), search = byId("search"), form = byId("controls");
  const selects = [...form.querySelectorAll("select")];
  if (typeof DecompressionStream === "undefined") {
    found.textContent = "This browser cannot read the answers. Open the page in a browser of 2023 or later.";
    return;
  }
  const { columns, values, questions, starts, about } = await unpack("table");
  const [ID, TEXT, GOLD, DRUG, TOPIC, LABEL] = [0, 1, 2, 3, 4, 5];
  const plain = (value) => value.toLocaleString("en");
  const rows = columns.id.map((_, row) => row);
  const valueOf = (name, row) => values[name][columns[name][row]];
  const askedIn = (row) => questions[columns.question[row]];
  const texts = rows.map((row) => [columns.id[row], columns.answer[row], ...askedIn(row)].join("\n").toLowerCase());
  const blocks = new Map();

  /* The answers of all models to a question in a setting stand side by side. */
  const groups = questions.map(() => new Map());
  for (const row of rows) {
    const settings = groups[columns.question[row]], setting = columns.setting[row];
    settings.set(setting, [...(settings.get(setting) || []), row]);
  }
  const isRight = (row) => about.right.includes(valueOf("kind", row));
  const hasVerdict = (row) => !about.no_verdict.includes(valueOf("kind", row));
  const differing = new Set(groups.flatMap((settings) => [...settings.values()])
    .filter((group) => new Set(group.filter(hasVerdict).map((row) => columns.kind[row])).size > 1).flat());
  const views = {
    "": () => true,
    differ: (row) => differing.has(row),
    wrong: (row) => hasVerdict(row) && !isRight(row),
    no_verdict: (row) => !hasVerdict(row),
    cut: (row) => valueOf("kind", row) === about.cut[0] && valueOf("reason", row) === about.cut[1],
    marked: (row) => columns.id[row] in marks.all(),
  };

  async function detailsOf(row) {
    let block = starts.length - 1;
    while (starts[block] > row) block -= 1;
    if (!blocks.has(block)) blocks.set(block, unpack(`details-${block}`));
    const { passages, rows: listed } = await blocks.get(block);
    return { passages, ...listed[row - starts[block]] };
  }

  let matched = new Set(rows);
  function match() {
    const wanted = selects.filter((select) => select.value).map((select) => [columns[select.dataset.field], Number(select.value)]);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const filtered = rows.filter((row) => wanted.every(([column, value]) => column[row] === value) && words.every((word) => texts[row].includes(word)));
    for (const [name, keeps] of Object.entries(views)) form.querySelector(`[data-count="${name}"]`).textContent = plain(filtered.filter(keeps).length);
    matched = new Set(filtered.filter(views[form.elements.view.value]));
    byId("in-use").textContent = wanted.length ? `(${wanted.length} in use)` : "";
  }

  function question(at) {
    const asked = questions[at], first = [...groups[at].values()][0][0];
    const shown = [...groups[at]].filter(([, group]) => group.some((row) => matched.has(row)));
    const gold = asked[GOLD] || (about.graded ? "" : "The label does not have the answer.");
    return element("section", "", "card asked", element("h3", asked[TEXT]),
      element("p", [!about.graded && valueOf("type", first), asked[DRUG], asked[TOPIC]].filter(Boolean).join(" · "), "about"),
      gold && element("p", "", "gold", element("b", "Gold answer"), document.createTextNode(gold)),
      ...shown.map(([setting, group]) => element("div", "", "answers-row", element("h4", values.setting[setting]), ...group.map(item))));
  }

  function item(row) {
    const reason = valueOf("reason", row);
    const tags = element("span", "", "tags", element("span", valueOf("kind", row), "tag kind"), reason === "None" ? "" : element("span", reason, "tag"));
    const summary = element("summary", "", "", element("span", valueOf("model", row), "model"), document.createTextNode(" "), tags, element("span", columns.answer[row], "short"));
    const made = element("details", "", `judged-answer${isRight(row) ? " right" : ""}${matched.has(row) ? "" : " other"}`, summary);
    made.id = columns.id[row];
    const showMark = () => {
      for (const old of tags.querySelectorAll(".mine")) old.remove();
      const mine = marks.all()[columns.id[row]];
      if (mine) tags.append(element("span", `✎ ${mine.mark ? marks.nameOf(mine.mark) : "comment"}`, "tag mine"));
    };
    showMark();
    made.addEventListener("toggle", async () => {
      if (!made.open || made.children.length > 1) return;
      made.append(...body(row, await detailsOf(row)), marks.form(columns.id[row], showMark));
      for (const text of made.querySelectorAll(".text")) {
        const first = text.querySelector("mark");
        if (first) text.scrollTop = first.getBoundingClientRect().top - text.getBoundingClientRect().top - 40;
      }
    });
    return made;
  }

  function body(row, details) {
    const asked = askedIn(row);
    const why = element("div", "", "why", element("p", "", "", element("b", details.finding)),
      details.detail && element("p", details.detail), ...details.notes.map((note) => element("p", note)));
    const given = (details.gold.length || !about.graded) && goldPassages(row, details, asked);
    const parts = [[details.context ? "Given context" : "Gold passages", given], ["Cited passages", details.cited && citedPassages(row, details, asked)]];
    const columnsShown = element("div", "", "pair", ...parts.filter(([, made]) => made).map(([name, made]) => element("div", "", "", element("h4", name), ...made)));
    const legend = element("p", "Marked in the passages: ", "about", element("mark", "words of the gold answer", "by-gold"), document.createTextNode(" "),
      element("mark", "words of the model's answer", "by-model"), document.createTextNode(" "), element("mark", "words of both", "by-both"));
    const whole = element("p", "", "gold answer", element("b", "Answer of the model, complete"), document.createTextNode(columns.answer[row] || "(nothing)"));
    return [why, whole, columnsShown, columnsShown.querySelector(".text mark") ? legend : "",
      element("p", [asked[DRUG], asked[TOPIC], asked[LABEL] !== asked[ID] && `label ${asked[LABEL]}`, `question ${asked[ID]}`, `answer ${columns.id[row]}`].filter(Boolean).join(" · "), "about")];
  }

  function goldPassages(row, details, asked) {
    if (!details.gold.length) return [element("p", details.answerable ? "The benchmark does not contain their text." : "None, because the label does not contain the answer.", "about")];
    return details.gold.map(([at, seen]) => {
      const shown = seen === null ? "" : seen ? " · shown to the model" : " · not shown to the model";
      return passage(details.passages[at], asked, columns.answer[row], details.context ? "given" : `gold${shown}`, "gold-mark");
    });
  }

  function citedPassages(row, details, asked) {
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
    form.elements.view.value = asked.get("view") in views ? asked.get("view") : "";
    search.value = asked.get("search") || "";
    refresh();
  }

  function writeAddress() {
    const asked = new URLSearchParams();
    for (const select of selects) if (select.value) asked.set(select.dataset.field, values[select.dataset.field][select.value]);
    if (form.elements.view.value) asked.set("view", form.elements.view.value);
    if (search.value.trim()) asked.set("search", search.value.trim());
    history.replaceState(null, "", `#${asked}`);
  }

  function fill(select) {
    const name = select.dataset.field, counts = new Map();
    for (const place of columns[name]) counts.set(place, (counts.get(place) || 0) + 1);
    const ordered = [...counts].sort((a, b) => values[name][a[0]].localeCompare(values[name][b[0]]));
    select.parentElement.hidden = ordered.length < 2;
    select.append(...ordered.map(([place, count]) => new Option(`${values[name][place]} (${plain(count)})`, place)));
  }

  const exported = (row) => {
    const asked = askedIn(row);
    return {
      run: about.run, answer_id: columns.id[row], question_id: asked[ID], set_id: asked[LABEL], drug: asked[DRUG],
      model: valueOf("model", row), setting: valueOf("setting", row), type: valueOf("type", row), question: asked[TEXT],
      gold_answer: asked[GOLD], answer: columns.answer[row], verdict: valueOf("kind", row), reason: valueOf("reason", row),
    };
  };
  const marks = readerMarks(`fdarx-answers:${about.run}`, () => rows.map(exported));
  const list = browse({
    rows: questions.map((_, at) => at), keeps: (at) => [...groups[at].values()].some((group) => group.some((row) => matched.has(row))),
    draw: question, target: byId("answers"), found, more: byId("more"),
    tell: (drawn, kept) => `${plain(matched.size)} of ${plain(rows.length)} answers match. ${plain(drawn)} of their ${plain(kept)} questions are shown.`,
  });
  const refresh = () => { match(); list(); };
  const changed = () => { refresh(); writeAddress(); };
  let waiting = 0;
  if (matchMedia("(max-width: 640px)").matches) byId("filters").open = false;
  selects.forEach(fill);
  for (const control of [...selects, ...form.elements.view]) control.addEventListener("change", changed);
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(changed, 150); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed));
  window.addEventListener("hashchange", readAddress);
  readAddress();
  document.documentElement.dataset.ready = "true";
})();
