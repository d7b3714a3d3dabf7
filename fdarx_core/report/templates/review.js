// The page of one annotator. It shows one item at a time, stores answers in the browser, and saves them to a file.
(() => {
  const data = dataOf("review-data");
  const items = data.items;
  const place = `fdarx-review:${data.review}:${data.annotator}`;
  const UNDONE = 200;
  let state = { at: 0, said: {}, saw: {}, history: [], unsaved: {} };
  let spent = 0, since = performance.now(), open = false, keeps = true;

  const nothing = { value: "", remark: "", saw_decision: false, seconds: 0 };
  const here = () => items[state.at];
  const said = (item) => state.said[item.id] || nothing;
  const answered = () => items.filter((item) => said(item).value).length;

  function restore() {
    let raw = null;
    try { raw = localStorage.getItem(place); } catch (error) { lost(); return; }
    if (!raw) return;
    try { state = Object.assign(state, JSON.parse(raw)); } catch (error) {
      try { localStorage.setItem(`${place}:damaged`, raw); } catch (full) { lost(); return; }
      trouble("The answers that this browser stored are damaged. They were set aside, and the page starts without answers.");
    }
    state.at = Math.min(Math.max(state.at, 0), items.length - 1);
  }

  function keep() {
    try { localStorage.setItem(place, JSON.stringify(state)); } catch (error) { lost(); }
  }

  function lost() {
    keeps = false;
    trouble("This browser does not store your answers (storage is off or full). Save the file before you close or reload the page.");
  }

  function trouble(text) {
    byId("trouble").textContent = text;
    byId("trouble").hidden = false;
  }

  /* Returns the short name of a value, "" if it has none. */
  function nameOf(item, value) {
    const name = data.tasks[item.task].choices.find(([known]) => known === value);
    return name ? name[1].split(":")[0] : "";
  }

  const tell = (text) => { byId("status").textContent = text; };

  function show() {
    const item = here(), task = data.tasks[item.task];
    open = false; spent = 0; since = performance.now();
    byId("place").textContent = [`Item ${state.at + 1} of ${items.length}`, ...item.about].join(" · ");
    byId("asks").textContent = task.asks;
    byId("guide").textContent = task.guide;
    byId("question").textContent = item.question;
    byId("gold-row").hidden = !item.gold;
    byId("gold").textContent = item.gold;
    const whole = Boolean(task.statement) && item.statement === item.answer;
    byId("answer-row").hidden = item.answer === null || whole;
    byId("answer").textContent = item.answer || "(an empty answer)";
    byId("statement-row").hidden = !task.statement;
    byId("statement-name").textContent = task.statement + (whole ? ", the whole answer" : "");
    byId("statement").textContent = item.statement;
    byId("marks-row").hidden = !item.marks.length;
    byId("marks").textContent = item.marks.map(([name, value, remark]) => `${name}: ${nameOf(item, value)}${remark ? ` (${remark})` : ""}`).join("\n");
    byId("choices").replaceChildren(...task.choices.map(([value, name], index) => choice(value, name, index, task)));
    byId("choices").classList.toggle("many", task.choices.length > 5);
    byId("remark").value = said(item).remark;
    const pieces = item.context.map(([kind, text]) => element(kind === "near" ? "mark" : "span", data.texts[text], kind === "near" ? "evidence" : kind));
    byId("context").replaceChildren(...(pieces.length ? pieces : [element("p", "There is no text for this item.", "about")]));
    byId("context").scrollTop = 0;
    byId("shown").textContent = task.shown;
    byId("legend").hidden = !item.context.some(([kind]) => kind !== "plain");
    decide();
    count();
  }

  function choice(value, name, index, task) {
    const key = value === data.unsure ? "?" : String((index + 1) % 10);
    const made = element("button", "", "", element("kbd", key), document.createTextNode(name));
    made.type = "button";
    made.dataset.value = value;
    made.setAttribute("aria-pressed", String(said(here()).value === value));
    made.setAttribute("aria-keyshortcuts", key !== "?" && few(task) ? `${key} ${"abc"[index]}` : key);
    made.addEventListener("click", () => answer(index));
    return made;
  }

  const few = (task) => task.choices.length <= 4; // three choices and `unsure`
  const shown = { state: "", task: "", decision: "", engine: "" };
  const decisionOf = (item) => nameOf(item, item.decision) || "no decision";

  /* Returns whether an item passes the filters. The filters by judge and decision pass only items with an answer. */
  function passes(item) {
    const value = said(item).value, marked = Boolean(value);
    const states = { open: !marked, done: marked, unsure: value === data.unsure, differs: marked && value !== data.unsure && item.decision && item.decision !== value };
    return (!shown.state || states[shown.state]) && (!shown.task || item.task === shown.task)
      && (!shown.decision || (marked && decisionOf(item) === shown.decision)) && (!shown.engine || (marked && item.engine === shown.engine));
  }

  /* Offers only the judges and decisions of answered items in the filters; those of other items stay hidden. */
  function offerSeen() {
    const marked = items.filter((item) => said(item).value);
    for (const [name, of] of [["decision", decisionOf], ["engine", (item) => item.engine]]) {
      byId(`filter-${name}`).replaceChildren();
      fillSelect(byId(`filter-${name}`), marked.map(of), "all");
      byId(`filter-${name}`).value = shown[name];
    }
  }

  function list() {
    offerSeen();
    const kept = items.filter(passes);
    if (shown.state === "differs" || shown.decision || shown.engine) for (const item of kept) state.saw[item.id] = true;
    byId("listed").textContent = `${kept.length} of ${items.length} items`;
    byId("list").replaceChildren(...kept.map((item) => {
      const at = items.indexOf(item), value = said(item).value;
      const made = element("button", "", "", element("span", `${at + 1}`), element("span", item.statement || item.question, "ask"), Object.keys(data.tasks).length > 1 && element("span", data.tasks[item.task].title, "about"), element("span", value ? nameOf(item, value) : "open", "about"));
      made.type = "button";
      made.setAttribute("aria-current", String(at === state.at));
      made.addEventListener("click", () => go(at));
      return element("li", "", "", made);
    }));
  }

  function offerFilters() {
    fillSelect(byId("filter-task"), items.map((item) => item.task), "all");
    for (const name of Object.keys(shown)) {
      byId(`filter-${name}`).addEventListener("change", (event) => { shown[name] = event.target.value; keep(); show(); });
    }
  }

  /* Returns the position of the next item that passes the filters, forwards (1) or backwards (-1); -1 if there is none. */
  function near(step) {
    let at = state.at + step;
    while (at >= 0 && at < items.length && !passes(items[at])) at += step;
    return at < items.length ? at : -1;
  }

  function count() {
    const number = answered(), changed = Object.keys(state.unsaved).length;
    byId("bar").value = number;
    byId("save").classList.toggle("main", number === items.length && changed > 0);
    byId("counted").textContent = `${number} of ${items.length} answered`;
    byId("kept").textContent = changed ? `${changed} ${changed === 1 ? "item" : "items"} not yet in a saved file` : number ? "all in the saved file" : "";
    list();
    byId("previous").disabled = near(-1) < 0;
    byId("next").disabled = near(1) < 0;
    byId("undo").disabled = !state.history.length;
  }

  function change(item, values) {
    state.said[item.id] = { ...said(item), ...values };
    state.unsaved[item.id] = true;
    keep();
    count();
  }

  function answer(index) {
    const item = here(), chosen = data.tasks[item.task].choices[index];
    if (!chosen) return;
    state.history = [...state.history, [state.at, state.said[item.id] || null]].slice(-UNDONE);
    const seconds = Math.round((spent + performance.now() - since) / 100) / 10;
    change(item, { value: chosen[0], saw_decision: Boolean(state.saw[item.id]), seconds });
    onward(`${nameOf(item, chosen[0])}, recorded for item ${state.at + 1}.`);
  }

  /* Goes to the next item, and from the last item to the first one without an answer. */
  function onward(text) {
    const left = items.findIndex((item) => !said(item).value), next = near(1);
    if (next >= 0) go(next, text);
    else if (left >= 0) go(left, text);
    else go(state.at, "All items are answered. Save the file (s) and hand it in.");
  }

  function go(at, text = "") {
    if (at < 0 || at >= items.length) return;
    state.at = at;
    keep();
    show();
    scrollTo(0, 0);
    tell(text);
  }

  function undo() {
    const last = state.history.pop();
    if (!last) { tell("There is nothing to undo."); return; }
    const [at, before] = last;
    const remark = said(items[at]).remark;
    if (before) state.said[items[at].id] = { ...before, remark };
    else if (remark) state.said[items[at].id] = { ...nothing, remark };
    else delete state.said[items[at].id];
    state.unsaved[items[at].id] = true;
    go(at, `The answer to item ${at + 1} was removed.`);
  }

  function toggle() {
    open = !open;
    if (open && !state.saw[here().id]) { state.saw[here().id] = true; keep(); }
    decide();
    byId("decision").scrollIntoView({ block: "nearest" });
  }

  function decide() {
    const item = here();
    byId("reveal").setAttribute("aria-expanded", String(open));
    byId("decision").hidden = !open;
    byId("decision").replaceChildren(...(open ? [
      element("p", nameOf(item, item.decision) || "The judge made no decision"),
      item.because && element("p", item.because, "about"), item.judge && element("p", item.judge, "about"),
    ].filter(Boolean) : []));
  }

  function save() {
    const answers = items.filter((item) => said(item).value || said(item).remark).map((item) => ({ id: item.id, task: item.task, ...said(item) }));
    if (!answers.length) { tell("There is nothing to save yet."); return; }
    const file = { format: 1, review: data.review, annotator: data.annotator, saved: new Date().toISOString(), answers };
    const link = element("a", "");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], { type: "application/json" }));
    link.download = data.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    state.unsaved = {};
    keep();
    count();
    tell(`${answered()} of ${items.length} answers saved as ${data.file}.`);
  }

  async function load([file]) {
    if (!file) return;
    byId("refused").hidden = true;
    let found = null;
    try {
      found = mergeSaved(await file.text(), data, state.said);
    } catch (error) {
      refuse(`${file.name} ${error.message}. Nothing was loaded.`);
      return;
    }
    merge(found, file.name);
  }

  function merge(found, name) {
    state.said = found.said;
    for (const id of found.changed) if (said({ id }).saw_decision) state.saw[id] = true;
    state.unsaved = found.whole ? {} : { ...state.unsaved, ...Object.fromEntries(found.changed.map((id) => [id, true])) };
    const left = items.findIndex((item) => !said(item).value);
    go(found.answered && left >= 0 ? left : state.at, `Added from ${name}: ${number(found.answered, "answer")}, ${number(found.remarked, "remark")}.`);
    if (found.differs.length) refuse(`${name} has other answers for ${listed(found.differs)}. The answers on this page are kept; check these items again.`);
  }

  const number = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const listed = (differs) => differs.map(([item, value]) => `item ${items.indexOf(item) + 1} (${nameOf(item, value)})`).join(", ");

  function refuse(text) {
    byId("refused").textContent = text;
    byId("refused").hidden = false;
  }

  const moves = { n: () => go(near(1)), p: () => go(near(-1)), f: () => byId("filter-state").focus(), u: undo, r: () => byId("remark").focus(), d: () => byId("reveal").hidden || toggle(), s: save, l: () => byId("file").click() };

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target === byId("remark")) {
      if (event.key === "Escape") { byId("task").focus(); event.preventDefault(); }
      return;
    }
    if (event.target.tagName === "SELECT" && event.key !== "Escape") return;
    if (event.target.tagName === "SELECT") byId("task").focus();
    const key = event.key.toLowerCase(), task = data.tasks[here().task], unsure = task.choices.findIndex(([value]) => value === data.unsure);
    const digit = /^\d$/.test(key) ? (Number(key) + 9) % 10 : few(task) && key.length === 1 ? "abc".indexOf(key) : -1;
    if (key === "?") answer(unsure);
    else if (digit >= 0 && digit !== unsure) answer(digit);
    else if (moves[key]) moves[key]();
    else return;
    event.preventDefault();
  }

  restore();
  offerFilters();
  document.addEventListener("keydown", pressed);
  for (const [name, move] of [["previous", "p"], ["next", "n"], ["undo", "u"], ["reveal", "d"], ["save", "s"], ["load", "l"]]) byId(name).addEventListener("click", () => moves[move]());
  byId("file").addEventListener("change", () => load([...byId("file").files]).finally(() => { byId("file").value = ""; }));
  byId("remark").addEventListener("input", () => change(here(), { remark: byId("remark").value.trim() }));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) spent += performance.now() - since;
    else since = performance.now();
  });
  // If the same review is open twice, both pages continue from the latest answers.
  addEventListener("storage", (event) => { if (event.key === place && event.newValue) { state = { ...JSON.parse(event.newValue), at: state.at }; show(); } });
  addEventListener("beforeunload", (event) => { if (!keeps && Object.keys(state.unsaved).length) event.preventDefault(); });
  show();
})();
