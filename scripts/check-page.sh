#!/usr/bin/env bash
# Opens an attention page in headless Chromium, clicks through its views at four widths, light, dark and on paper, and checks what it
# shows, with axe-core too. Prints the milliseconds until the first map was drawn and the median of those for a change of head. Skips where
# Chromium is missing.
# usage: scripts/check-page.sh FILE.html
set -euo pipefail
page=$(realpath "${1:?usage: scripts/check-page.sh FILE.html}")
cd "$(dirname "$0")/.."
source scripts/devtools.sh
if ! command -v chromium chromium-browser google-chrome >/dev/null; then echo "check-page: skipped: no Chromium here"; exit 0; fi
folder=$(mktemp -d)
# The browser's children may still write to its profile.
remove() { rm -rf "$folder" 2>/dev/null || { sleep 2; rm -rf "$folder"; }; }
finish() { browser_close; remove; }
browser_process=0
trap finish EXIT

fail() { echo "check-page: error: $page: $*" >&2; exit 1; }
grep -q "script-src 'sha256-" "$page" || fail "no policy for scripts"

read -r -d '' steps <<'JS' || true
const problems = [], expect = (what, holds) => { if (!holds) problems.push(what); };
const drawn = () => document.documentElement.dataset.drawn, until = async test => { for (let i = 0; i < 2000 && !test(); ++i) await new Promise(r => setTimeout(r, 5)); };
const press = (at, name) => at.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const act = async change => {
  delete document.documentElement.dataset.drawn;
  const begin = performance.now();
  change();
  await until(drawn);
  return performance.now() - begin;
};
const panel = viewer.panels[0], { state } = viewer, reads = part => panel.part("readout").textContent.includes(part);
const box = name => panel.view(name).box, own = () => ownQuery(data, viewer.kind);
window.addEventListener("error", event => problems.push(event.message));
window.addEventListener("unhandledrejection", event => problems.push(String(event.reason)));
JS
# check NAME JAVASCRIPT: runs it after the steps; what it expects in vain is an error.
check() {
  page_run "(async () => { $steps; $2; return problems.join('; '); })()" || fail "$1"
  if [ "$page_result" != '""' ]; then fail "$1: $page_result"; fi
}
accessible() {
  page_axe
  if [ "$page_result" != '""' ]; then fail "$1: axe-core: $page_result"; fi
}

browser_open "$folder"
page_scheme dark
page_size 1400 900
page_open "file://$page" document.documentElement.dataset.drawn
page_run "Math.round(Number(document.documentElement.dataset.drawn))"
first=$page_result

check "what it opens on" '
  expect("a map is drawn", panel.values && panel.view(state.view).box.querySelector("canvas").width > 20);
  expect("nothing is pinned", !state.pin && $("unpin").classList.contains("away"));
  expect("it says what one sees", $("lead").textContent.length > 20);
  if (viewer.kind.own !== undefined) expect("it opens on the mask or the answer", panel.query === viewer.kind.own && (data.model.task !== "masked_lm" || $("facts").textContent.includes("In the place of " + viewer.kind.queries[viewer.kind.own])));
  if (data.model && data.model.name) expect("it names the model", $("model").textContent.startsWith(data.model.name));
  if (data.model && data.model.answer.length) expect("it says what the model answers", $("answer").textContent.includes(data.model.answer[0][0]) && $("answer").textContent.includes("%"));
  if (viewer.kind.kind === "cross") expect("cross-attention opens on the mean of the last layer", state.head === "mean" || viewer.kind.maps.length < 3);
  else if (viewer.kind.heads.length > 1 && state.view === "matrix") expect("it opens on the head with most weight on content", !viewer.kind.maps.some(m => m.scores && typeof m.head === "number" && m.scores.content > data.find(viewer.kind, "weights", state.layer, state.head).scores.content));
  if (viewer.kind.kind === "decoder" && data.kinds.length === 1) expect("a decoder opens on the end of the text", panel.query === viewer.kind.queries.length - 1);'
page_run "(async () => { $steps
  const changes = [];
  for (let i = 0; i < 12 && viewer.kind.heads.length > 1; ++i) changes.push(await act(() => { \$('head').value = viewer.kind.heads[i % viewer.kind.heads.length]; \$('head').onchange(); }));
  return Math.round(changes.sort((a, b) => a - b)[changes.length >> 1] || 0); })()"
change=$page_result

check "kinds and views" '
  for (let kind = 0; kind < data.kinds.length; ++kind) {
    if (data.kinds.length > 1) await act(() => document.querySelectorAll("#kinds button")[kind].click());
    expect("the kind changes", state.kind === kind);
    const { queries, keys } = viewer.kind;
    for (const tab of views.filter(view => view.fits(viewer)).map(view => view.name)) {
      await act(() => viewer.show({ view: tab }));
      expect("only " + tab + " is shown", !box(tab).hidden && [...panel.views].every(([name, one]) => name === tab || one.box.hidden));
      viewer.hold(0, keys.length - 1, true);
      await until(() => reads(queries[0]));
      expect("the readout names the query", reads(queries[0]));
      expect("the slider is at it", $("step").value === "0" && $("step-now").textContent.includes(queries[0]));
      expect("it says that it is pinned", !$("unpin").classList.contains("away"));
      expect("the address holds the query", location.hash.includes("/q0/"));
      viewer.follow(0, 0);
      expect("a pin is stronger than the mouse", panel.key === keys.length - 1);
      if (tab === "matrix") $("unpin").click(); else press(document, "Escape");
      expect("it lets go", !state.pin && panel.query === own());
    }
    await act(() => viewer.show({ view: "matrix" }));
    const matrix = panel.view("matrix").made, second = Math.min(1, queries.length - 1);
    viewer.follow(second, -1);
    expect("hovering moves the slider too", +$("step").value === second && panel.query === second);
    viewer.follow(-1, -1);
    expect("and back", panel.query === own());
    viewer.hold(0, 0, true);
    for (const name of ["ArrowDown", "End"]) press(matrix.over, name);
    const cell = nameIn(queries, second) + " → " + nameIn(keys, keys.length - 1);
    await until(() => reads(cell));
    expect("keys go from cell to cell", panel.query === second && panel.key === keys.length - 1 && reads(cell));
    press(document, "Escape");
    const layer = state.layer;
    if (viewer.kind.layers.length > 1) { await act(() => press(document, "ArrowDown")); expect("keys change the layer", state.layer !== layer); }
    for (const measure of viewer.kind.measures) {
      await act(() => { $("measure").value = measure; $("measure").onchange(); });
      expect("numbers of " + measure, panel.values.some(v => v !== 0) && !panel.values.some(Number.isNaN));
      if (panel.values.some(v => v < 0)) expect("a scale from below 0", panel.part("low").textContent.startsWith("−"));
    }
    for (const column of viewer.kind.columns.filter(c => typeof c === "string")) await act(() => viewer.show({ measure: viewer.kind.measures[0], head: column }));
    await act(() => viewer.show({ measure: viewer.kind.measures[0], head: viewer.kind.columns.includes("mean") ? "mean" : viewer.kind.columns[0] }));
    expect("rows of weights sum to one", state.measure !== "weights" || Math.abs(panel.values.slice(0, keys.length).reduce((a, b) => a + b, 0) - 1) < 0.1);
    if (viewer.kind.masks) expect("what a mask forbids is blocked", panel.blocked && !panel.part("masked").hidden && panel.blocked.length === panel.values.length);
    if (viewer.kind.kind === "decoder" && queries.length > 2) expect("later tokens cannot be attended to", panel.blocked[1] && !panel.blocked[queries.length]);
    for (const view of ["matrix", "lines"]) {
      await act(() => viewer.show({ view }));
      const { values, full, format } = panel, what = await panel.view(view).made.figure(), figure = mapFigure({ values, full, format, title: "A & B", shades: new Shades(data, true), ...what });
      const parsed = new DOMParser().parseFromString(figure, "image/svg+xml");
      expect("the figure is SVG with its tokens as text", !parsed.querySelector("parsererror") && [...parsed.querySelectorAll("text")].some(t => t.textContent === queries[0]));
      expect("the figure has a raster", (await rasterOf(figure)).size > 500);
    }
    await act(() => viewer.show({ view: "matrix" }));
  }
  for (const tab of document.querySelectorAll("[role=tab]")) expect("a tab controls its panel", $(tab.getAttribute("aria-controls")));'

check "zoom" '
  await act(() => viewer.chooseKind(data.kinds.length - 1));
  await act(() => viewer.show({ view: "matrix" }));
  const matrix = panel.view("matrix").made, { queries, keys } = viewer.kind, rows = queries.length, columns = keys.length;
  if (rows > 3 && columns > 3 && !matrix.shape.time) {
    const { left, above, cell, row } = matrix.shape, area = matrix.over.getBoundingClientRect(), at = (k, q) => ({ clientX: area.left + left + k * cell, clientY: area.top + above + q * row, bubbles: true, pointerId: 1, button: 0, pointerType: "mouse" });
    matrix.over.setPointerCapture = () => {};
    const end = 1 + Math.max(2, Math.ceil(14 / cell)), range = [1, end, 1, end].join();
    matrix.over.dispatchEvent(new PointerEvent("pointerdown", at(1.2, 1.2)));
    matrix.over.dispatchEvent(new PointerEvent("pointermove", at(end - 0.2, end - 0.2)));
    await act(() => matrix.over.dispatchEvent(new MouseEvent("click", at(end - 0.2, end - 0.2))));
    expect("a drag zooms in: " + state.zoom, cell < 6 ? state.zoom && matrix.shape.rows < 0.2 * rows : String(state.zoom) === range && matrix.shape.rows === end - 1);
    const address = location.hash.slice(1), zoomed = String(state.zoom);
    expect("the address has it", address.includes("/zoom=" + state.zoom.join(".")));
    await act(() => viewer.read(address));
    expect("and restores it", String(state.zoom) === zoomed);
    viewer.hold(rows - 1, 0, true);
    await until(() => state.zoom[1] === rows);
    expect("what is chosen comes into view", state.zoom[1] === rows);
    await act(() => $("zoom-all").click());
    expect("and back", !state.zoom && matrix.shape.rows === rows);
    press(document, "Escape");
    await act(() => press(matrix.over, "+"));
    expect("the keyboard zooms in", rows < 8 || state.zoom);
    await act(() => viewer.zoom(null));
  }'

check "lines of several heads, and the address" '
  await act(() => viewer.chooseKind(0));
  if (viewer.kind.heads.length > 1) {
    const two = viewer.kind.heads.slice(0, 2), choices = () => JSON.stringify([state.view, state.also, state.strongest, state.scale, state.pattern, state.layer, state.head]), lines = panel.view("lines").made;
    await act(() => viewer.show({ view: "lines" }));
    for (const head of two) await act(() => lines.chips.querySelector(`[aria-label="head ${head}"]`).click());
    const { values, full, format } = panel, figure = mapFigure({ values, full, format, title: "", shades: new Shades(data, true), ...await lines.figure() });
    expect("the figure has the colors of both heads", two.every(head => figure.includes(`stroke="${hue(head, false)}"`) && figure.includes("head " + head)));
    expect("the title names both heads", $("which").textContent.includes("eads " + two.join(", ")));
    await act(() => lines.chips.querySelector("input").click());
    await act(() => { $("scale").value = "own"; $("scale").onchange(); });
    await act(() => { $("pattern").selectedIndex = $("pattern").options.length - 1; $("pattern").onchange(); });
    const before = choices(), address = location.hash.slice(1);
    await act(() => viewer.read(""));
    expect("an address without choices has none", !state.also.length && !state.strongest && state.scale === "all" && !state.pattern);
    await act(() => viewer.read(address));
    expect("the address restores " + before + ", not " + choices(), before === choices() && before.includes("\"own\"") && state.pattern !== "" && location.hash.slice(1) === address);
    expect("the controls show it", $("scale").value === "own" && $("pattern").value === state.pattern && lines.chips.querySelectorAll("[aria-pressed=true]").length === 2 && lines.chips.querySelector("input").checked);
    await act(() => viewer.read(""));
  }
  await act(() => viewer.read(encodeURIComponent(viewer.kind.kind) + "/weights/0.0/matrix/s0"));
  expect("an address of an earlier page keeps its step", state.pin && state.pin.query === 0);
  press(document, "Escape");'

check "beside the map" '
  await act(() => viewer.show({ view: "matrix", head: viewer.kind.heads.length ? viewer.kind.heads[0] : "mean" }));
  expect("what the absence of the head changes, or how to measure it", /Logits without head|without this head|without it/.test($("facts").textContent));
  if (data.scored && $("facts").querySelector(".signs")) expect("signs stand on both sides of a zero axis", [...document.querySelectorAll("#facts .signs .below")].every(part => part.style.right === "50%") && !/-[0-9]/.test($("facts").textContent));
  const select = $("layer"), about = select.closest("[data-help]");
  expect("a control is described", $(select.getAttribute("aria-describedby")).textContent === about.dataset.help);
  showHelp(about, 0);
  await until(() => !helpBox.hidden);
  expect("help is shown", helpBox.textContent === about.dataset.help);
  press(document, "Escape");
  expect("and goes", helpBox.hidden);'

check "parts of an image are chosen by mouse and keys" '
  const pictured = data.kinds.findIndex(kind => data.overImage(kind));
  if (pictured >= 0) {
    await act(() => viewer.chooseKind(pictured));
    await act(() => viewer.show({ view: "picture" }));
    const { canvas, of } = panel.view("picture").made, { first, columns } = data.image, area = canvas.getBoundingClientRect();
    const chosen = () => ownParts(viewer.kind) ? panel.query : panel.key;
    expect("the picture says whose attention it is", [of.textContent, canvas.getAttribute("aria-label")].every(text => text.includes(viewer.kind.queries[Math.max(0, panel.query)]) || text.includes("the mean of all queries")));
    expect("no ramp beside a picture", panel.part("legend").hidden && !panel.part("save").hidden);
    canvas.dispatchEvent(new MouseEvent("click", { clientX: area.left + 1.5 * area.width / columns, clientY: data.image.upward ? area.bottom - 2 : area.top + 2, bubbles: true }));
    expect("a click pins the part", state.pin && chosen() === first + 1);
    press(canvas, "ArrowLeft");
    expect("keys go to the next part", state.pin && chosen() === first);
    press(document, "Escape");
    await act(() => viewer.show({ view: "matrix" }));
  }'

# Every width, light and dark: nothing is wider than the window, and nothing moves when another head is chosen.
for scheme in dark light; do
  page_scheme $scheme
  for width in 390 768 1280 1920; do
    page_size $width 900
    check "$width pixels, $scheme" '
      await new Promise(r => setTimeout(r, 60));
      await viewer.drawn;
      for (const view of views.filter(one => one.fits(viewer)).map(one => one.name)) {
        await act(() => viewer.show({ view }));
        expect(view + " is not wider than the window", document.documentElement.scrollWidth <= window.innerWidth);
        const places = () => ["detail", "panels", "side"].map(id => Math.round($(id).getBoundingClientRect().top)).join(), before = places();
        if (view === "matrix") for (const head of viewer.kind.columns.slice(0, 3)) { await act(() => viewer.show({ head })); expect("nothing moves for head " + head + ": " + before + " to " + places(), before === places() || innerWidth < 700); }
      }
      await act(() => viewer.show({ view: "matrix" }));
      expect("the colors are those of the page", viewer.shades.onDark === dark.matches);'
    if [ $width != 768 ]; then accessible "$width pixels, $scheme"; fi
  done
done

page_size 1280 900
page_run "views.filter(view => view.fits(viewer)).map(view => view.name).join(' ')"
for view in ${page_result//\"/}; do
  check "the view $view" "await act(() => viewer.show({ view: '$view' })); viewer.hold(0, 0, true);"
  accessible "the view $view"
done
page_scheme dark
check "paper is light" '
  await act(() => viewer.show({ view: "matrix", measure: viewer.kind.measures[0] }));
  window.dispatchEvent(new Event("beforeprint"));
  await viewer.drawn;
  const { map, shape } = panel.view("matrix").made, { left, above, cell } = shape, ratio = window.devicePixelRatio, least = panel.values.indexOf(Math.min(...panel.values.slice(0, 1000))), columns = viewer.kind.keys.length;
  const [red, green, blue] = map.getContext("2d").getImageData(Math.round((left + (least % columns + 0.2) * cell) * ratio), Math.round((above + (Math.floor(least / columns) + 0.2) * cell) * ratio), 1, 1).data;
  expect("paper is light: " + [red, green, blue], (cell < 4 || Math.min(red, green, blue) > 128) && style("--paper") === "#fff" && !viewer.shades.onDark);
  await act(() => window.dispatchEvent(new Event("afterprint")));
  expect("the page is as it was", viewer.shades.onDark === dark.matches);
  expect("all can be decoded", !panel.part("readout").textContent.startsWith("error"));'
echo "check-page: the page behaves: first map after $first ms, another head after $change ms"
