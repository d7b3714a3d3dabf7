"use strict";
// Text of labels and models is inserted as text, never as markup.
(() => {
  function subgroups() {
    const select = byId("subgroup-setting");
    if (!select) return;
    const update = () => document.querySelectorAll(".subgroup").forEach((one) => { one.hidden = one.id !== select.value; });
    select.addEventListener("change", update);
    update();
  }

  function differences() {
    const data = dataOf("difference-data");
    if (!data || !data.rows.length) return;
    const [metric, group, search, sure] = ["metric", "group", "search", "sure"].map((name) => byId(`difference-${name}`));
    fillSelect(metric, data.rows.map((row) => row[0]), "All");
    fillSelect(group, data.rows.map((row) => row[1]), "All");
    const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(3);
    const chance = (value) => (value < 0.001 ? "< 0.001" : value.toFixed(3));
    const keeps = (row) => (!metric.value || row[0] === metric.value) && (!group.value || row[1] === group.value)
      && (!sure.checked || row[8] < data.level) && `${row[2]}\n${row[3]}`.toLowerCase().includes(search.value.toLowerCase());
    const draw = (row) => {
      const cells = [...row.slice(0, 4), signed(row[4]), `${signed(row[5])} to ${signed(row[6])}`, chance(row[7]), chance(row[8])];
      const line = element("tr", "", row[8] < data.level ? "sure" : "", ...cells.map((cell, at) => element("td", cell, at > 3 ? "n" : "")));
      line.title = `${row[9].toLocaleString("en")} questions on ${row[10].toLocaleString("en")} labels`;
      return line;
    };
    const table = byId("difference-table");
    const refresh = browse({ rows: data.rows, keeps, draw, target: table.tBodies[0], found: byId("difference-found"), more: byId("difference-more"), noun: "comparisons" });
    let order = null;
    const columns = [0, 1, 2, 3, 4, 5, 7, 8];
    [...table.tHead.rows[0].cells].forEach((head, at, heads) => head.firstChild.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const column = columns[at];
      order = (a, b) => (up ? 1 : -1) * (typeof a[column] === "number" ? a[column] - b[column] : a[column].localeCompare(b[column]));
      refresh(order);
    }));
    for (const control of [metric, group, search, sure]) control.addEventListener("input", () => refresh(order));
    refresh(order);
  }

  function wrongAnswers() {
    const data = dataOf("wrong-data");
    if (!data) return;
    const selects = [...byId("wrong-controls").querySelectorAll("select")];
    for (const select of selects) fillSelect(select, data.items.map((item) => item[select.dataset.field]), "All");
    const search = byId("wrong-search");
    const texts = new Map(data.items.map((item) => {
      const asked = data.questions[item.question];
      return [item, [item.id, asked.id, asked.set_id, asked.drug, asked.text, asked.gold, item.answer, item.detail].join("\n").toLowerCase()];
    }));
    const keeps = (item) => selects.every((select) => !select.value || item[select.dataset.field] === select.value)
      && texts.get(item).includes(search.value.toLowerCase());
    const refresh = browse({ rows: data.items, keeps, draw: (item) => summary(data, item), target: byId("wrong-list"), found: byId("wrong-found"), more: byId("wrong-more"), noun: "wrong answers" });
    for (const control of [...selects, search]) control.addEventListener("input", () => refresh());
    refresh();
  }

  function summary(data, item) {
    const asked = data.questions[item.question];
    const tags = element("span", "", "tags", element("span", item.kind, "tag kind"),
      ...[item.model, item.setting, item.type, item.reason].filter(Boolean).map((name) => element("span", name, "tag")));
    const made = element("details", "", "wrong", element("summary", "", "", element("span", asked.text, "ask"), element("br"), tags));
    const open = () => {
      made.append(...body(data, item, asked));
      for (const text of made.querySelectorAll(".text")) {
        const first = text.querySelector("mark");
        if (first) text.scrollTop = first.getBoundingClientRect().top - text.getBoundingClientRect().top - 40;
      }
    };
    made.addEventListener("toggle", () => { if (made.open && made.children.length === 1) open(); });
    return made;
  }

  function body(data, item, asked) {
    const labelled = (name, text, style) => element("p", "", `gold ${style}`, element("b", name), document.createTextNode(text || "(nothing)"));
    const why = element("div", "", "why", element("p", "", "", element("b", item.finding)),
      item.detail && element("p", item.detail), ...item.notes.map((note) => element("p", note)));
    const columns = element("div", "", "pair",
      element("div", "", "", element("h4", "Gold passages"), ...goldPassages(data, item, asked)),
      element("div", "", "", element("h4", "Cited passages"), ...citedPassages(data, item, asked)));
    const legend = element("p", "Marked in the passages: ", "about", element("mark", "words of the gold answer", "by-gold"), document.createTextNode(" "),
      element("mark", "words of the model's answer", "by-model"), document.createTextNode(" "), element("mark", "words of both", "by-both"));
    return [why, element("div", "", "pair", labelled("Gold answer", asked.gold, ""), labelled("Answer of the model, complete", item.answer, "answer")), columns, columns.querySelector(".text mark") ? legend : "",
      element("p", `${asked.drug} · ${asked.category || "no topic"} · label ${asked.set_id} · question ${asked.id} · answer ${item.id}`, "about")];
  }

  function goldPassages(data, item, asked) {
    if (!asked.passages.length) return [element("p", item.type === "Refusal" ? "None, because the label does not contain the answer." : "The benchmark does not contain their text.", "about")];
    return asked.passages.map((at, place) => {
      const shown = item.shown === null ? "" : item.shown[place] ? " · shown to the model" : " · not shown to the model";
      return passage(data.passages[at], asked, item, `gold${shown}`, "gold-mark");
    });
  }

  function citedPassages(data, item, asked) {
    if (item.cited === null) return [element("p", "This setting does not ask for citations.", "about")];
    const made = item.cited.passages.map(([at, mark, words]) => passage(data.passages[at], asked, item, words, mark ? `${mark}-mark` : ""));
    if (item.cited.more) made.push(element("p", `${item.cited.more} more cited; their text is not on this page.`, "about"));
    return made.length ? made : [element("p", "None.", "about")];
  }

  function passage([marker, section, text, setId], asked, item, words, style) {
    const where = setId === asked.set_id ? "" : ` · label ${setId}`;
    return element("blockquote", "", style, element("p", "", "about", element("span", words, "mark"), document.createTextNode(` · ${marker} · ${section}${where}`)), element("p", "", "text", ...marked(text, asked.gold, item.answer)));
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

  subgroups();
  differences();
  wrongAnswers();
})();
