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
    const size = (value) => (value > 1e-6 && value < 5e-4 ? value.toPrecision(1) : value.toFixed(3));
    const signed = (value) => (value > 1e-6 ? "+" : value < -1e-6 ? "−" : "") + size(Math.abs(value));
    const chance = (value) => (value < 0.001 ? "< 0.001" : value.toFixed(3));
    const keeps = (row) => (!metric.value || row[0] === metric.value) && (!group.value || row[1] === group.value)
      && (!sure.checked || row[8] < data.level) && `${row[2]}\n${row[3]}`.toLowerCase().includes(search.value.toLowerCase());
    const draw = (row) => {
      const cells = [...row.slice(0, 4), signed(row[4]), `[${signed(row[5])}, ${signed(row[6])}]`, chance(row[7]), chance(row[8])];
      const line = element("tr", "", row[8] < data.level ? "sure" : "", ...cells.map((cell, at) => element("td", cell, at > 3 ? "n" : "")));
      Object.assign(line.cells[4].dataset, { value: row[4], low: row[5], high: row[6] });
      line.title = `${row[9].toLocaleString("en")} questions${row[10] < row[9] ? ` on ${row[10].toLocaleString("en")} drugs` : ""}`;
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

  subgroups();
  differences();
})();
