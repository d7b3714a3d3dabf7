"use strict";
// The answer viewer shows answers with their claims coloured by verdict, and the evidence for each claim.
(async () => {
  if (!byId("answer-data")) return;
  if (typeof DecompressionStream === "undefined") {
    byId("answer-found").textContent = "This browser cannot read the answers. Open the page in a browser of 2023 or later.";
    return;
  }
  const data = await unpack("answer-data");
  const text = (value) => document.createTextNode(value);
  const number = (value) => (value === null ? "–" : value.toFixed(2));
  const verdictName = (verdict) => data.verdicts[verdict][0];
  const label = (verdict) => `${data.verdicts[verdict][1]} ${verdictName(verdict)}`;
  let made = 0;

  /* Python counts characters and JavaScript counts UTF-16 units. The counts differ for characters above U+FFFF. */
  function cut(string, start, end) {
    return /[\ud800-\udbff]/.test(string) ? [...string].slice(start, end).join("") : string.slice(start, end);
  }

  const fields = {
    model: (item) => [item.model], dataset: (item) => [item.dataset], setting: (item) => [item.setting], type: (item) => [item.type],
    verdict: (item) => [...new Set(item.claims.map((claim) => verdictName(claim.verdict)))],
    flag: (item) => (item.flags.length ? ["any", ...new Set(item.flags.map((flag) => flag[0]))] : []),
  };
  const answerOf = (item) => item.spans.flatMap(([, pieces]) => pieces.map(([piece]) => piece)).join("");

  function start() {
    if (matchMedia("(max-width: 640px)").matches) byId("filters").open = false;
    const selects = [...byId("answer-controls").querySelectorAll("select")];
    for (const select of selects) {
      fillSelect(select, data.items.flatMap(fields[select.dataset.field]), "All");
      select.closest("label").hidden = select.options.length < (select.dataset.field in { verdict: 1, flag: 1 } ? 2 : 3);
    }
    const search = byId("answer-search");
    const texts = new Map(data.items.map((item) => [item, [item.id, item.question, item.drug, item.set_id, answerOf(item)].join("\n").toLowerCase()]));
    const keeps = (item) => selects.every((select) => !select.value || fields[select.dataset.field](item).includes(select.value))
      && texts.get(item).includes(search.value.toLowerCase());
    const refresh = browse({ rows: data.items, keeps, draw: summary, target: byId("answer-list"), found: byId("answer-found"), more: byId("answer-more"), noun: "answers" });
    for (const control of [...selects, search]) control.addEventListener("input", () => refresh());
    refresh();
    document.documentElement.dataset.ready = "true";
  }

  function summary(item) {
    const counts = Object.keys(data.verdicts).map((verdict) => [verdict, item.claims.filter((claim) => claim.verdict === verdict).length]).filter(([, rows]) => rows);
    const flags = item.flags.length ? `⚑ ${item.flags.length} ${item.flags.length === 1 ? "flag" : "flags"}` : "";
    const tags = element("span", "", "tags",
      ...counts.map(([verdict, rows]) => element("span", `${data.verdicts[verdict][1]} ${rows} ${verdictName(verdict).toLowerCase()}`, `tag ${verdict}`)),
      flags && element("span", flags, "tag flagged"), item.terms[3] !== null && element("span", `FAS ${number(item.terms[3])}`, "tag"),
      item.outcome !== "answered" && element("span", item.outcome, "tag"),
      ...[item.model, data.items.some((one) => one.dataset !== item.dataset) && item.dataset, item.setting, item.type].filter(Boolean).map((name) => element("span", name, "tag")));
    const whole = element("details", "", "answered", element("summary", "", "", element("span", item.question, "ask"), element("br"), tags));
    whole.addEventListener("toggle", () => { if (whole.open && whole.children.length === 1) whole.append(body(item)); });
    return whole;
  }

  function body(item) {
    const panel = element("div", "", "held");
    panel.id = `held-${made += 1}`;
    panel.setAttribute("role", "region");
    panel.setAttribute("aria-label", "Evidence for the claim");
    panel.tabIndex = 0;
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") left.querySelector('[aria-current="true"]').focus(); });
    const answer = element("p", "", "answer-text");
    const claims = [];
    for (const [at, pieces] of item.spans) {
      const parts = pieces.map((piece) => flagged(item, piece));
      if (at < 0) { answer.append(...parts); continue; }
      claims.push(claimed(item, at, parts, panel, claims));
      answer.append(claims[claims.length - 1]);
    }
    if (!answer.childNodes.length) answer.append(element("em", "The answer is empty."));
    const left = element("div", "", "", element("h4", `Answer of ${item.model}`), answer, ...scores(item), ...flagList(item), ...statements(item),
      element("p", [item.drug, item.set_id && `label ${item.set_id}`, `answer ${item.id}`].filter(Boolean).join(" · "), "about"));
    const worst = ["contradicted", "unsupported", "supported", "undecided", "unscored"].map((verdict) => item.claims.findIndex((claim) => claim.verdict === verdict)).find((at) => at >= 0);
    if (worst === undefined) panel.append(element("p", "The answer contains no claim that can be checked against evidence.", "about"));
    else claims.find((claim) => Number(claim.dataset.claim) === worst).dispatchEvent(new Event("choose"));
    return element("div", "", "side", left, panel);
  }

  function flagged(item, [piece, flags]) {
    if (!flags.length) return text(piece);
    const mark = element("mark", piece, "flag");
    mark.title = flags.map((at) => item.flags[at][0]).join("; ");
    return mark;
  }

  /* Returns a claim in the text of the answer. Its label is CSS content, so that copied text is the answer alone. */
  function claimed(item, at, parts, panel, all) {
    const claim = item.claims[at];
    const shown = element("span", "", `claim ${claim.verdict}`, ...parts);
    Object.assign(shown.dataset, { claim: at, label: label(claim.verdict) });
    shown.tabIndex = 0;
    shown.setAttribute("role", "button");
    shown.setAttribute("aria-controls", panel.id);
    const choose = () => {
      if (shown.getAttribute("aria-current") === "true") return;
      for (const other of all) other.setAttribute("aria-current", String(other === shown));
      panel.replaceChildren(...evidence(item, claim));
      reveal(panel);
    };
    for (const event of ["choose", "focus", "click"]) shown.addEventListener(event, choose);
    shown.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { const next = all[all.indexOf(shown) + step]; if (next) next.focus(); }
      else if (event.key === "Enter" || event.key === " ") panel.focus();
      else return;
      event.preventDefault();
    });
    return shown;
  }

  /* Scrolls the text of each passage to the judged window, and the panel to its top. */
  function reveal(panel) {
    requestAnimationFrame(() => {
      for (const shown of panel.querySelectorAll(".text")) {
        const window = shown.querySelector("mark");
        if (!window) continue;
        const line = parseFloat(getComputedStyle(shown).lineHeight);
        shown.scrollTop = line * (Math.floor((window.getBoundingClientRect().top - shown.getBoundingClientRect().top) / line) - 1);
      }
      panel.scrollTop = 0;
    });
  }

  function evidence(item, claim) {
    const heading = element("p", "", `verdict-line ${claim.verdict}`, element("b", label(claim.verdict)), text(why(claim)));
    const resolved = claim.resolved && element("p", "", "about", text("Read as: "), element("q", claim.resolved));
    const passages = claim.pairs.map((pair, place) => passage(pair, claim.decided && place === 0, claim));
    return [heading, resolved, ...(passages.length ? passages : [element("p", "No passage was found for this claim.", "about")])].filter(Boolean);
  }

  function why(claim) {
    const threshold = data.threshold.toFixed(2);
    if (claim.verdict === "unscored") return ` because ${claim.reason}`;
    if (!claim.pairs.length) return ` because ${claim.reason}`;
    if (claim.verdict === "unsupported") return `: all passages are neutral, with a probability of at least ${number(claim.score)} (threshold ${threshold})`;
    if (claim.verdict === "undecided") return `: no class of any passage decides (threshold ${threshold})`;
    const by = claim.decided ? `by passage ${claim.pairs[0][1]} ` : "";
    return ` ${by}with probability ${number(claim.score)} (threshold ${threshold})`;
  }

  function passage([place, rank, entails, neutral, contradicts, start, end, reason, about], decided, claim) {
    const [title, where, length, excerpts] = data.passages[place];
    const mark = decided ? (["unsupported", "undecided"].includes(claim.verdict) ? "nearest" : "decided") : "";
    const head = element("p", "", "about", element("b", `${rank}. ${title}`, "title"), text(where ? ` · ${where}` : ""), mark && element("span", mark, `tag ${claim.verdict}`), text(about ? "" : " · not known to be on the claim's drug"));
    const judged = entails === null ? element("p", `Not judged: ${reason || "no reason was given"}`, "about") : chances(entails, neutral, contradicts);
    return element("blockquote", "", decided ? `decided ${claim.verdict}` : "", head, judged,
      entails !== null && reason && element("p", reason, "about reason"), wording(excerpts, length, start, end, entails !== null));
  }

  function chances(entails, neutral, contradicts) {
    const bar = element("span", "", "chances");
    bar.setAttribute("aria-hidden", "true");
    for (const [value, name] of [[entails, "supported"], [neutral, "undecided"], [contradicts, "contradicted"]]) {
      const part = element("i", "", name);
      part.style.width = `${100 * value}%`;
      bar.append(part);
    }
    return element("p", "", "about numbers", bar, text(`entails ${number(entails)} · neutral ${number(neutral)} · contradicts ${number(contradicts)}`));
  }

  function wording(excerpts, length, start, end, judged) {
    if (excerpts === null) return element("p", "The text is not on this page; the run's evidence/ contains it.", "about");
    const shown = element("p", "", "text");
    let last = 0;
    for (const [from, words] of excerpts) {
      const size = [...words].length;
      if (from > last) shown.append(element("span", " … ", "gap"));
      const [low, high] = [start, judged ? end : start].map((at) => Math.min(Math.max(at - from, 0), size));
      shown.append(cut(words, 0, low));
      if (high > low) shown.append(element("mark", cut(words, low, high)));
      shown.append(cut(words, high, size));
      last = from + size;
    }
    if (last < length) shown.append(element("span", " …", "gap"));
    return shown;
  }

  function scores(item) {
    const [similarity, support, contra, fas] = item.terms;
    const [first, second, third] = data.weights;
    const against = contra === null ? "–" : `(1 − ${number(contra)})`;
    const sum = `FAS [${data.similarity}] ${number(fas)} = ${first} × ${number(similarity)} similarity + ${second} × ${number(support)} support + ${third} × ${against} contradiction`;
    const others = Object.entries(data.names).filter(([name]) => item.scores[name] !== null).map(([name, word]) => `${word} ${number(item.scores[name])}`);
    return [element("h4", "Scores"), element("p", sum, "sum"), others.length && element("p", others.join(" · "), "about"),
      ...item.unscored.map((told) => element("p", `Not measured: ${told}`, "about"))].filter(Boolean);
  }

  function flagList(item) {
    if (!item.flags.length) return [];
    return [element("h4", "Safety flags"), element("ul", "", "flags", ...item.flags.map(([kind, words, subject, drug, because, marker, setId]) =>
      element("li", "", "", element("b", `⚑ ${kind}`), text(subject ? `: ${subject}` : ""), words && element("span", " in “", "", element("q", words, "plain"), text("”")),
        because && element("blockquote", because), element("p", [drug, marker, setId && `label ${setId}`].filter(Boolean).join(" · "), "about"))))];
  }

  function statements(item) {
    if (!item.statements.length && !item.references.length) return [];
    const shown = item.statements.map(([kind, statement, verdict, chance, reason]) => element("li", "", verdict,
      element("span", data.verdicts[verdict][1] + " ", "sign"), text(statement), element("span", ` ${kind}, ${stated[verdict]}${chance === null ? `: ${reason}` : ` ${number(chance)}`}`, "about")));
    const about = item.references.map((reference) => element("p", "", "gold", element("b", "Reference answer"), text(reference)));
    const name = shown.length ? "Reference statements with their verdicts, and reference" : "Reference";
    return [element("details", "", "numbers", element("summary", name), shown.length && element("ul", "", "statements", ...shown), ...about)];
  }

  const stated = { supported: "stated", contradicted: "contradicted", unsupported: "not stated", undecided: "not decided", unscored: "not judged" };

  start();
})();
