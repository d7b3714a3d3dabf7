"use strict";
// Saves each table of a report as CSV, whose columns with intervals have their bounds beside them, or as LaTeX (booktabs).
(() => {
  const SIGNS = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "✓": "$\\surd$", "−": "$-$", "µ": "$\\mu$",
    "μ": "$\\mu$", "÷": "$\\div$", "×": "$\\times$", "≤": "$\\le$", "≥": "$\\ge$", "<": "$<$", ">": "$>$", "|": "$|$",
    "κ": "$\\kappa$", "→": "$\\to$", "ρ": "$\\rho$", "α": "$\\alpha$", "Δ": "$\\Delta$",
  };
  const latex = (words) => words.replace(/[&%$#_{}\\~^✓−µμ÷×≤≥<>|κ→ραΔ]/g, (sign) => SIGNS[sign] ?? `\\${sign}`);
  const text = (cell) => cell.textContent.replace(/\s+/g, " ").trim();
  // A list that is shown page by page gives all its rows as `everyRow`.
  const bodyOf = (table) => table.tBodies[0].everyRow?.() ?? [...table.tBodies[0].rows];

  function field(words) {
    const safe = /^[=@]/.test(words) ? `'${words}` : words; // no formula of a spreadsheet
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function csv(table) {
    const rows = bodyOf(table).map((row) => [...row.cells]);
    const heads = [...table.tHead.rows].map((row) => [...row.cells].flatMap((cell) => Array(cell.colSpan).fill(text(cell))));
    const names = heads.at(-1).map((name, at) => [heads.length > 1 && heads[0][at], name].filter(Boolean).join(" "));
    const bounded = names.map((_, at) => rows.some((row) => row[at]?.dataset.value));
    const plain = (cell) => (cell.classList.contains("n") ? text(cell).replace(/^−/, "-").replace(/(\d),(?=\d{3})/g, "$1").replace(/^–$/, "") : text(cell));
    const values = (cell, at) => (bounded[at] ? ["value", "low", "high"].map((name) => cell.dataset[name] ?? "") : [plain(cell)]);
    const header = names.flatMap((name, at) => (bounded[at] ? [name, `${name} low`, `${name} high`] : [name]));
    return [header, ...rows.map((row) => row.flatMap(values))].map((row) => `${row.map(field).join(",")}\n`).join("");
  }

  function latexTable(table, title) {
    const written = (cell) => {
      const bold = cell.querySelector("b");
      const words = bold ? latex(text(cell)).replace(latex(text(bold)), (best) => `\\textbf{${best}}`) : latex(text(cell));
      return cell.colSpan > 1 ? `\\multicolumn{${cell.colSpan}}{c}{${words}}` : words;
    };
    const line = (row) => `${[...row.cells].map(written).join(" & ")} \\\\`;
    const heads = [...table.tHead.rows];
    const sides = [...heads.at(-1).cells].map((cell) => (cell.classList.contains("n") ? "r" : "l")).join("");
    return [
      "% \\usepackage{booktabs}", "\\begin{table}", `\\caption{${latex(title.replace(/^Table \d+\. /, ""))}}`, `\\label{tab:${nameOf(title)}}`, `\\begin{tabular}{${sides}}`, "\\toprule", ...heads.map(line), "\\midrule",
      ...bodyOf(table).map(line), "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
    ].join("\n");
  }

  function titleOf(table) {
    const before = table.parentElement.previousElementSibling;
    const place = table.closest("figure, .card, section");
    return text(before?.matches("h3, h4") ? before : place?.querySelector("h3") ?? place?.closest("section")?.querySelector("h2") ?? document.querySelector("h1"));
  }

  const nameOf = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "table";

  function button(table, name, ending, make) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = name;
    made.addEventListener("click", () => {
      const title = titleOf(table);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([make(table, title)], { type: "text/plain;charset=utf-8" }));
      link.download = `${nameOf(title)}.${ending}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    return made;
  }

  for (const table of document.querySelectorAll(".scroll > table")) {
    const row = document.createElement("p");
    row.className = "downloads";
    row.append("Save this table as ", button(table, "CSV", "csv", csv), " ", button(table, "LaTeX", "tex", latexTable));
    table.parentElement.after(row);
  }
})();
