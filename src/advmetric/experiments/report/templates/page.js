"use strict";
// Tables sort by a click on a header; sections fold, and all of them print.

for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const number = (cell) => { const found = cell.textContent.trim().match(/^[+−-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?/i); return found ? Number(found[0].replace("−", "-").replaceAll(",", "")) : NaN; };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent || "name";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending", sign = order === "ascending" ? 1 : -1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const keyed = [...body.rows].map((row) => ({ row, text: row.cells[column].textContent.trim(), value: number(row.cells[column]) }));
      const numeric = keyed.some((key) => !Number.isNaN(key.value));
      keyed.sort((a, b) => {
        if (!numeric) return sign * a.text.localeCompare(b.text);
        if (Number.isNaN(a.value) || Number.isNaN(b.value)) return Number.isNaN(a.value) - Number.isNaN(b.value); // gaps last
        return sign * (a.value - b.value);
      });
      body.append(...keyed.map((key) => key.row));
    });
  });
}

const folds = [...document.querySelectorAll("section > details")], fold = document.getElementById("fold");
fold.hidden = false;
fold.addEventListener("click", () => {
  const open = folds.some((part) => !part.open);
  for (const part of folds) part.open = open;
});
const tell = () => { fold.textContent = folds.some((part) => !part.open) ? "Unfold all" : "Fold all"; };
for (const part of folds) part.addEventListener("toggle", tell);
tell();
const reveal = () => { const target = document.getElementById(location.hash.slice(1)); if (target) { target.querySelector("details").open = true; target.scrollIntoView(); } };
addEventListener("hashchange", reveal);
reveal();
let before = [];
addEventListener("beforeprint", () => { before = folds.map((part) => part.open); for (const part of folds) part.open = true; });
addEventListener("afterprint", () => folds.forEach((part, i) => { part.open = before[i]; }));
