"use strict";
// Comfort only: sort a table by a column, look for a row, copy a setting. The page says everything without it.
for (const table of document.querySelectorAll("table.sorted")) {
  const body = table.tBodies[0];
  const value = (row, column, numeric) => row.cells[column].dataset.v ?? (numeric ? -Infinity : row.cells[column].textContent);
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      const numeric = head.classList.contains("number");
      const rows = [...body.rows].sort((one, other) => {
        const a = value(one, column, numeric), b = value(other, column, numeric);
        return numeric ? a - b || 0 : a.localeCompare(b);
      });
      body.append(...(up ? rows : rows.reverse()));
      for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
  });
  if (table.dataset.filter) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Filter";
    field.setAttribute("aria-label", "Filter: " + table.dataset.filter);
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.parentElement.before(field);
  }
}
for (const code of document.querySelectorAll("code.copy")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copying";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  });
  code.after(button);
}
const reveal = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", reveal);
reveal();
