// Checks a saved file of the annotator completely, and merges it with the answers on this page.
const mergeSaved = (() => {
  const FORMAT = 1;
  const NOTHING = { value: "", remark: "", saw_decision: false, seconds: 0 };

  /* Returns the rows of the file by item id. Throws an Error with the reason if the file is rejected. */
  function read(text, data) {
    let file = null;
    try { file = JSON.parse(text); } catch (error) { throw new Error("is not JSON: choose a file that this page saved"); }
    if (!file || !Array.isArray(file.answers)) throw new Error("was not saved by this page: it has no list of answers");
    if (file.format !== FORMAT) throw new Error(`has format ${file.format}, this page reads ${FORMAT}`);
    if (file.review !== data.review) throw new Error(`is of review ${file.review}, this is review ${data.review}`);
    if (file.annotator !== data.annotator) throw new Error(`holds the answers of ${file.annotator}, this page is for ${data.annotator}`);
    const items = new Map(data.items.map((item) => [item.id, item]));
    return new Map(file.answers.map((row, at) => [row && row.id, checked(row, at, items, data.tasks)]));
  }

  function checked(row, at, items, tasks) {
    const item = row && items.get(row.id), where = `can't be read: answer ${at + 1}`;
    if (!item) throw new Error(`${where} is not for an item of this review`);
    const known = row.value === "" || tasks[item.task].choices.some(([value]) => value === row.value);
    if (!known) throw new Error(`${where} is ${JSON.stringify(row.value)}, which is not a choice`);
    const seconds = Number.isFinite(row.seconds) && row.seconds >= 0 ? row.seconds : 0;
    return { value: row.value, remark: String(row.remark || "").trim(), saw_decision: row.saw_decision === true, seconds };
  }

  /* Merges two answers to one item. If both have a value, the one on this page remains. */
  function joined(here, there) {
    const remark = !there.remark || here.remark.includes(there.remark) ? here.remark : [here.remark, there.remark].filter(Boolean).join(" / ");
    if (!here.value) return { ...(there.value ? there : here), remark };
    if (there.value !== here.value) return { ...here, remark };
    return { ...here, remark, saw_decision: here.saw_decision || there.saw_decision, seconds: Math.min(here.seconds, there.seconds) };
  }

  const alike = (one, other) => ["value", "remark", "saw_decision", "seconds"].every((name) => one[name] === other[name]);

  /* `said` maps item ids to the answers on this page. Returns the merged answers (`said`), the ids of the changed items
     (`changed`), the numbers of added values (`answered`) and remarks (`remarked`), the items with another value in the
     file (`differs`), whose value does not change, and whether the file contains all answers of this page (`whole`). */
  return (text, data, said) => {
    const there = read(text, data);
    const found = { said: { ...said }, changed: [], differs: [], answered: 0, remarked: 0, whole: true };
    for (const item of data.items) {
      const here = said[item.id] || NOTHING, row = there.get(item.id) || NOTHING, both = joined(here, row);
      if (!here.value && row.value) found.answered += 1;
      if (both.remark !== here.remark) found.remarked += 1;
      if (here.value && row.value && here.value !== row.value) found.differs.push([item, row.value]);
      if (!alike(both, here)) { found.said[item.id] = both; found.changed.push(item.id); }
      if (!alike(both, row)) found.whole = false;
    }
    return found;
  };
})();
