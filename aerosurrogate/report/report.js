// Sorting and filtering of the tables, the 3D views of any row, and the table as a file.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const figures = Object.fromEntries(all("script.figure").map(s => [s.dataset.file, s]));

for (const table of all("table.ranking")) {
  const body = table.tBodies[0];
  const sortBy = head => {
    const index = head.cellIndex, falling = head.getAttribute("aria-sort") === "ascending";
    const value = row => row.cells[index].dataset.value;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return falling ? -order : order;
    });
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    body.append(...rows);
  };
  for (const head of all("th[data-key]", table)) {
    head.addEventListener("click", () => sortBy(head));
    head.addEventListener("keydown", event => { if (event.key === "Enter") sortBy(head); });
  }
}

const boxes = all("input.trust");
const filter = () => {
  const kept = new Set(boxes.filter(box => box.checked).map(box => box.value));
  for (const row of all("table.ranking tbody tr")) row.hidden = !kept.has(row.dataset.trust);
};
for (const box of boxes) box.addEventListener("change", filter);

const columns = document.getElementById("columns");
const fold = () => { for (const table of all("table.ranking")) table.classList.toggle("few", !columns.checked); };
columns.checked = innerWidth > 1300;
columns.addEventListener("change", fold);
fold();

const panes = all(".pane").map(pane => ({ pane, choice: pane.querySelector("select"), stage: pane.querySelector(".stage") }));
const settings = { displaylogo: false, responsive: true };
let following = false;
const show = async (number, file) => {
  const { pane, choice, stage } = panes[number];
  choice.value = file;
  pane.hidden = file === "";
  document.querySelector(".views").classList.toggle("two", panes.every(p => p.choice.value !== ""));
  const chosen = new Set(panes.map(p => p.choice.value));
  for (const row of all("table.ranking tbody tr")) row.classList.toggle("shown", chosen.has(row.dataset.file));
  if (file === "") return;
  const { data, layout } = JSON.parse(figures[file].textContent);
  const turned = panes[1 - number].stage.layout?.scene?.camera;
  if (turned && layout.scene) layout.scene.camera = turned;
  await Plotly.react(stage, data, layout, settings);
  for (const p of panes) if (p.choice.value !== "" && p.stage.layout) Plotly.Plots.resize(p.stage);
  if (stage.dataset.bound) return;
  stage.dataset.bound = "yes";
  stage.on("plotly_relayout", () => {  // both bodies are seen from the same side
    const other = panes[1 - number], camera = stage.layout.scene?.camera;
    if (following || !camera || other.choice.value === "" || !other.stage.layout?.scene) return;
    following = true;
    Plotly.relayout(other.stage, { "scene.camera": camera }).finally(() => { following = false; });
  });
};
panes.forEach(({ choice }, number) => choice.addEventListener("change", () => show(number, choice.value)));
for (const button of all("button[data-pane]")) {
  button.addEventListener("click", () => {
    show(+button.dataset.pane, button.closest("tr").dataset.file);
    document.querySelector(".views").scrollIntoView({ behavior: "smooth", block: "nearest" });
  });
}
if (panes.length && panes[0].choice.value) show(0, panes[0].choice.value);
