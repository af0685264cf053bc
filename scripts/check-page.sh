#!/usr/bin/env bash
# Opens an attention page in headless Chromium, clicks through its views, and checks what it shows. Prints the
# milliseconds until the first map was drawn and the median of those for a change of head. Skips where Chromium is missing.
# usage: scripts/check-page.sh FILE.html
set -euo pipefail
page=$(realpath "${1:?usage: scripts/check-page.sh FILE.html}")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then echo "check-page: skipped: no Chromium here"; exit 0; fi

folder=$(mktemp -d)
# The browser's children may still write to its profile.
remove() { rm -rf "$folder" 2>/dev/null || { sleep 2; rm -rf "$folder"; }; }
trap remove EXIT
cat >"$folder/check.js" <<'JS'
(async () => {
  const problems = [], expect = (what, holds) => { if (!holds) problems.push(what); };
  const drawn = () => document.documentElement.dataset.drawn, until = async test => { for (let i = 0; i < 4000 && !test(); ++i) await new Promise(r => setTimeout(r, 5)); };
  window.onerror = message => problems.push(message);
  window.onunhandledrejection = event => problems.push(String(event.reason));
  const act = async change => {
    delete document.documentElement.dataset.drawn;
    const begin = performance.now();
    change();
    await until(drawn);
    return performance.now() - begin;
  };
  await until(drawn);
  const first = Number(drawn()), { state } = viewer, panel = viewer.panels[0], press = (at, name) => at.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  expect("a map is drawn", panel.part("map").width > 20);
  if (viewer.kind.mask !== undefined) expect("it opens on the mask", panel.part("aside").textContent.startsWith("In the place of " + viewer.kind.queries[viewer.kind.mask]) && $("step-box").hidden);
  const changes = [];
  for (let i = 0; i < 12 && viewer.kind.heads.length > 1; ++i) {
    const before = state.head;
    changes.push(await act(() => { $("head").value = viewer.kind.heads[i % viewer.kind.heads.length]; $("head").onchange(); }));
    expect("the head changes", state.head !== before || i === 0);
  }
  for (let kind = 0; kind < data.kinds.length; ++kind) {
    await act(() => document.querySelectorAll("#kinds button")[kind].click());
    expect("the kind changes", state.kind === kind);
    const { queries, keys } = viewer.kind, reads = part => panel.part("readout").textContent.includes(part);
    for (const tab of [...document.querySelectorAll("#views button")].map(b => b.dataset.value)) {
      await act(() => document.querySelector(`#views [data-value="${tab}"]`).click());
      expect("only " + tab + " is shown", !panel.part(tab).hidden && Object.keys(viewNames).every(v => v === tab || panel.part(v).hidden));
      viewer.hold(0, keys.length - 1);
      await until(() => reads(queries[0]));
      expect("the readout names the query", reads(queries[0]));
      expect("the address holds the query", location.hash.includes("/q0/"));
      press(document, "Escape");
    }
    await act(() => viewer.show({ view: "matrix" }));
    for (const name of ["ArrowDown", "End", "ArrowDown"]) press(panel.matrix.over, name);
    const last = Math.min(1, queries.length - 1);
    await until(() => reads(queries[last] + " → " + keys[keys.length - 1]));
    expect("keys go from cell to cell", state.query === last && state.key === keys.length - 1 && reads(queries[last] + " → "));
    press(document, "Escape");
    expect("Escape lets go", state.query === -1 && !state.held);
    const layer = state.layer;
    if (viewer.kind.layers.length > 1) { await act(() => press(document, "ArrowDown")); expect("keys change the layer", state.layer !== layer); }
    for (const measure of viewer.kind.measures) {
      await act(() => { $("measure").value = measure; $("measure").onchange(); });
      expect("numbers of " + measure, panel.values.some(v => v !== 0) && !panel.values.some(Number.isNaN));
    }
    for (const column of viewer.kind.columns.filter(c => typeof c === "string")) await act(() => viewer.show({ measure: viewer.kind.measures[0], head: column }));
    expect("rows of weights sum to one", state.measure !== "weights" || state.head !== "mean" || Math.abs(panel.values.slice(0, keys.length).reduce((a, b) => a + b, 0) - 1) < 0.1);
    const { kind: shown, values, full, step } = panel;
    for (const view of ["matrix", "lines"]) {
      const figure = mapFigure({ view, kind: shown, values, full, step, layers: [{ values, full }], query: -1, key: -1, title: "A & B", shades: new Shades(data, true) });
      const parsed = new DOMParser().parseFromString(figure, "image/svg+xml");
      expect("the figure is SVG with its tokens as text", !parsed.querySelector("parsererror") && [...parsed.querySelectorAll("text")].some(t => t.textContent === queries[0]));
      expect("the figure has a raster", (await rasterOf(figure)).size > 500);
    }
  }
  for (const tab of document.querySelectorAll("[role=tab]")) expect("a tab controls its panel", $(tab.getAttribute("aria-controls")));

  // Lines of several heads, the address that restores them, and their figure.
  await act(() => viewer.chooseKind(0));
  if (viewer.kind.heads.length > 1) {
    const two = viewer.kind.heads.slice(0, 2), choices = () => JSON.stringify([state.view, state.also, state.strongest, state.scale, state.pattern, state.layer, state.head]);
    await act(() => viewer.show({ view: "lines" }));
    for (const head of two) await act(() => panel.part("chips").querySelector(`[aria-label="head ${head}"]`).click());
    const layers = await panel.lineLayers(false), figure = mapFigure({ view: "lines", kind: panel.kind, values: panel.values, full: panel.full, step: panel.step, layers, query: -1, key: -1, title: "", shades: new Shades(data, true) });
    expect("the figure has the colors of both heads", two.every(head => figure.includes(`stroke="${hue(head, false)}"`) && figure.includes("head " + head)));
    expect("the title names both heads", panel.part("which").textContent.includes("heads " + two.join(", ")));
    await act(() => panel.part("chips").querySelector("input").click());
    await act(() => { $("scale").value = "own"; $("scale").onchange(); });
    await act(() => { $("pattern").selectedIndex = $("pattern").options.length - 1; $("pattern").onchange(); });
    const before = choices(), address = location.hash.slice(1);
    await act(() => viewer.read(""));
    expect("an address without choices has none", !state.also.length && !state.strongest && state.scale === "all" && !state.pattern);
    await act(() => viewer.read(address));
    expect("the address restores " + before + ", not " + choices(), before === choices() && before.includes('"own"') && state.pattern !== "" && location.hash.slice(1) === address);
    expect("the controls show it", $("scale").value === "own" && $("pattern").value === state.pattern && panel.part("chips").querySelectorAll("[aria-pressed=true]").length === 2 && panel.part("chips").querySelector("input").checked);
    await act(() => viewer.read(""));
  }

  // What each head's absence changes, or how to see it.
  await act(() => viewer.show({ view: "matrix", head: viewer.kind.heads.length ? viewer.kind.heads[0] : "mean" }));
  expect("beside the map is what the head's absence changes, or how to measure it", /Logits without head|without this head|without it/.test(panel.part("aside").textContent));

  // Parts of an image are chosen by mouse and keys.
  const pictured = data.kinds.findIndex(kind => viewer.overImage(kind));
  if (pictured >= 0) {
    await act(() => viewer.chooseKind(pictured));
    await act(() => viewer.show({ view: "picture" }));
    const { canvas } = panel.overlay, { first, columns } = data.image, box = canvas.getBoundingClientRect(), crosses = viewer.kind.kind === "cross";
    const chosen = () => crosses ? state.key : state.query;
    expect("the picture says whose attention it is", [panel.part("of").textContent, canvas.getAttribute("aria-label")].every(text => text.includes(viewer.kind.queries[0]) || text.includes("the mean of all queries")));
    expect("no ramp beside a picture", panel.part("legend").hidden && !panel.part("save").hidden);
    canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + 1.5 * box.width / columns, clientY: data.image.upward ? box.bottom - 2 : box.top + 2, bubbles: true }));
    expect("a click holds the part", state.held && chosen() === first + 1);
    press(canvas, "ArrowLeft");
    expect("keys go to the next part", state.held && chosen() === first);
    press(document, "Escape");
  }

  // Paper is light.
  await act(() => viewer.show({ view: "matrix" }));
  window.dispatchEvent(new Event("beforeprint"));
  await viewer.drawn;
  const { left, above, cell } = panel.matrix.shape, ratio = window.devicePixelRatio, least = panel.values.indexOf(Math.min(...panel.values.slice(0, 1000))), columns = viewer.kind.keys.length;
  const [red, green, blue] = panel.matrix.map.getContext("2d").getImageData(Math.round((left + (least % columns + 0.2) * cell) * ratio), Math.round((above + (Math.floor(least / columns) + 0.2) * cell) * ratio), 1, 1).data;
  expect("paper is light: " + [red, green, blue], (cell < 4 || Math.min(red, green, blue) > 128) && style("--paper") === "#fff" && !viewer.shades.onDark);
  await act(() => window.dispatchEvent(new Event("afterprint")));
  expect("the page is as it was", viewer.shades.onDark === dark.matches);

  expect("all can be decoded", !panel.part("readout").textContent.startsWith("error"));
  expect("nothing is wider than the window", document.documentElement.scrollWidth <= window.innerWidth);
  console.log("heed-check " + JSON.stringify({ first_ms: Math.round(first), change_ms: Math.round(changes.sort((a, b) => a - b)[changes.length >> 1] || 0), problems }));
})();
JS
# The page's policy lets its own script run alone, and this one.
hash=$(sha256sum "$folder/check.js" | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64)
grep -q "script-src 'sha256-" "$page" || { echo "check-page: error: $1: no policy for scripts" >&2; exit 1; }
{ sed "0,/script-src /s|script-src |script-src 'sha256-$hash' |" "$page"; printf '<script>'; cat "$folder/check.js"; printf '</script>\n'; } >"$folder/page.html"
# It runs in real time, on a dark page, and reports on its console.
"$browser" --headless --no-sandbox --disable-gpu --blink-settings=preferredColorScheme=0 --window-size=1400,900 --user-data-dir="$folder/profile" \
  --remote-debugging-port=0 --enable-logging=stderr "file://$folder/page.html" 2>"$folder/console" >/dev/null &
running=$!
trap 'kill $running 2>/dev/null; wait $running 2>/dev/null; remove' EXIT
result=
for _ in $(seq 600); do
  result=$(grep -ao 'heed-check {.*}' "$folder/console" | head -1 | sed 's/heed-check //; s/\\"/"/g' || true)
  if [ -n "$result" ]; then break; fi
  sleep 0.1
done
if [ -z "$result" ]; then echo "check-page: error: $1: the page did not finish in 60 s" >&2; exit 1; fi
echo "$result"
case $result in
  *'"problems":[]'*) ;;
  *) echo "check-page: error: $1: the page does not behave (problems are above)" >&2; exit 1 ;;
esac
