"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Theme: the system's, until the button chooses another.
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  try { const kept = localStorage.getItem("stateproc-theme"); if (kept === "dark" || kept === "light") root.dataset.theme = kept; } catch { /* private mode */ }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("stateproc-theme", root.dataset.theme); } catch { /* private mode */ }
    label();
  });
  system.addEventListener("change", label);
  label();

  // Rows after the first are shown on demand.
  for (const more of all(".more")) {
    const list = document.getElementById(more.getAttribute("aria-controls"));
    list.classList.add("few");
    more.hidden = false;
    more.addEventListener("click", () => { list.classList.remove("few"); more.hidden = true; });
  }

  // Types and problems of a state.
  for (const open of all(".open")) {
    const detail = open.closest("tr").nextElementSibling;
    detail.hidden = true;
    open.addEventListener("click", () => {
      detail.hidden = !detail.hidden;
      open.setAttribute("aria-expanded", String(!detail.hidden));
    });
  }

  // Sorting: a row with its details is one tbody.
  const value = (item, column) => {
    const cell = item.querySelector("tr, td") && (item.tagName === "TR" ? item : item.querySelector("tr")).cells[column];
    if (!cell) return "";
    if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    if (!cell.classList.contains("n")) return cell.textContent.trim();
    const number = parseFloat(cell.textContent.replaceAll(",", ""));
    return Number.isNaN(number) ? null : number;
  };
  for (const table of all("table.sortable")) {
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const sorter = head.querySelector("button");
      if (!sorter) return;
      sorter.addEventListener("click", () => {
        const numeric = head.classList.contains("n");
        const before = head.getAttribute("aria-sort");
        const down = before === "none" ? numeric : before === "ascending";
        heads.forEach((other) => { if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const several = table.tBodies.length > 1;
        const items = several ? [...table.tBodies] : [...table.tBodies[0].rows];
        const keyed = items.map((item) => [value(item, column), item]);
        keyed.sort(([a], [b]) => {
          if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
          const order = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
          return down ? -order : order;
        });
        const limit = Number(table.dataset.limit || Infinity);
        const target = several ? table : table.tBodies[0];
        keyed.forEach(([, item], at) => { item.classList.toggle("m", at >= limit); target.append(item); });
      });
    });
  }

  // Search: everything with data-item is shown if it contains all words.
  const search = document.getElementById("search");
  const items = all("[data-item]");
  const texts = new Map();
  const text = (item) => { if (!texts.has(item)) texts.set(item, item.textContent.toLowerCase()); return texts.get(item); };
  const lists = all(".few");
  let waiting = 0;
  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const list of lists) {
      const more = document.querySelector(`[aria-controls="${list.id}"]`);
      list.classList.toggle("few", !words.length && !more.hidden);
    }
    let found = 0;
    for (const item of items) {
      const matches = words.every((word) => text(item).includes(word));
      item.classList.toggle("nomatch", !matches);
      found += matches;
    }
    for (const section of all("section[data-searched]")) {
      section.classList.toggle("nomatch", words.length > 0 && !section.querySelector("[data-item]:not(.nomatch)"));
    }
    document.getElementById("found").textContent = words.length ? `${found} found` : "";
  };
  search.parentElement.hidden = false;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(find, 80); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); search.focus(); }
    if (event.key === "Escape" && document.activeElement === search) { search.value = ""; find(); }
  });
})();
