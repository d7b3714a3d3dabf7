// The reader's marks and comments on answers. They are kept in this browser and saved as files.
function readerMarks(place, everything) {
  let state = {}, stored = true;
  const form = byId("mark-form").content, exports = byId("exports");
  const trouble = () => {
    stored = false;
    byId("trouble").textContent = "This browser does not keep your marks (storage is off or full). Save them as a file before you close or reload the page.";
    byId("trouble").hidden = false;
  };
  const read = () => { try { state = JSON.parse(localStorage.getItem(place) || "{}"); } catch (error) { trouble(); } };
  const count = () => {
    const marked = Object.keys(state).length;
    exports.hidden = !marked;
    byId("marked").textContent = `You marked ${marked.toLocaleString("en")} ${marked === 1 ? "answer" : "answers"}.`;
  };

  function keep(id, mark, comment) {
    if (stored) read();  // the page may be open twice
    if (mark || comment.trim()) state[id] = { mark, comment: comment.trim(), at: new Date().toISOString() };
    else delete state[id];
    try { localStorage.setItem(place, JSON.stringify(state)); } catch (error) { trouble(); }
    count();
  }

  function save(kind) {
    const marked = everything().filter((row) => row.answer_id in state)
      .map((row) => ({ ...row, mark: state[row.answer_id].mark, comment: state[row.answer_id].comment, marked_at: state[row.answer_id].at }));
    const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
    const lines = kind === "jsonl" ? marked.map((row) => JSON.stringify(row))
      : [Object.keys(marked[0]), ...marked.map(Object.values)].map((row) => row.map(quoted).join(","));
    const link = element("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/plain;charset=utf-8" }));
    link.download = `marks.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  read();
  count();
  for (const button of exports.querySelectorAll("button")) button.addEventListener("click", () => save(button.dataset.export));
  return {
    all: () => state,
    nameOf: (mark) => form.querySelector(`option[value="${mark}"]`).textContent,
    form(id, changed) {
      const made = form.cloneNode(true).firstElementChild;
      const [mark, comment] = [made.querySelector("select"), made.querySelector("textarea")];
      if (id in state) [mark.value, comment.value] = [state[id].mark, state[id].comment];
      for (const field of [mark, comment]) field.addEventListener("change", () => { keep(id, mark.value, comment.value); changed(); });
      return made;
    },
  };
}
