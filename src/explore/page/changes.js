// What is changed in the model: heads without their output, scaled, or patched; and what each head's absence changes.
const sameHead = (a, b) => a.kind === b.kind && a.layer === b.layer && a.head === b.head;
const nameOf = head => (models[ask.model].kind === "encoder-decoder" || head.kind === "text" ? head.kind + " " : "") + "layer " + head.layer + ", head " + head.head;

/// The single head that is shown, or null for a mean or the like.
function headNow() {
  const { kind, state } = viewer;
  return typeof state.head === "number" && state.measure !== "rollout" ? { kind: kind.kind, layer: state.layer, head: state.head } : null;
}
const changeOf = head => head && ask.changes.find(one => sameHead(one, head));
const changeName = one => one.patch ? "patched from " + (one.patch.file ? ask.other_file_name || "the second file" : quoted(one.patch.text)) : one.mean ? "replaced by its mean" : one.factor === 0 ? "ablated" : "times " + one.factor;

/// Replaces what is changed about a head; null: nothing. Changes with one `key` that follow each other are taken back as one.
function setChange(head, what, key) {
  const others = ask.changes.filter(one => !sameHead(one, head));
  change({ changes: what ? [...others, { ...head, ...what }] : others }, key);
  drawHead();
  drawChanges();
  runSoon(key ? 150 : 0);
}

function drawHead() {
  const head = headNow(), now = changeOf(head), token = watched(results[0].answer);
  $("head-title").textContent = head ? nameOf(head).replace(/^./, c => c.toUpperCase()) : "Choose a single head to change it";
  for (const id of ["ablate", "mean", "patch", "factor", "without"]) $(id).disabled = !head;
  $("without").disabled = !head || !token || !canAsk("/api/ablation", { ...effects.request(), kind: head.kind, layer: head.layer });
  if (recording && head) {
    const others = ask.changes.filter(one => !sameHead(one, head));
    $("ablate").disabled = !canRun({ changes: now && now.factor === 0 ? others : [...others, { ...head, factor: 0 }] });
    $("mean").disabled = $("patch").disabled = $("factor").disabled = true;
  }
  $("ablate").setAttribute("aria-pressed", !!now && now.factor === 0);
  $("mean").setAttribute("aria-pressed", !!now && !!now.mean);
  $("patch").setAttribute("aria-pressed", !!now && !!now.patch);
  const factor = now && now.factor !== undefined ? now.factor : 1;
  $("factor").value = factor;
  $("factor-now").textContent = now && now.patch ? "patched" : now && now.mean ? "mean" : factor;
  $("without").textContent = token ? "This head's effect on " + quoted(token.token) : "This head's effect";
  const known = head && effects.of(head);
  $("without-now").textContent = known === undefined || known === null ? "" : "without it, the logit changes by " + signed(known);
}
function drawChanges() {
  const list = $("changes"), at = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.replaceChildren(...ask.changes.map(one => {
    const line = element("li", null), what = changeName(one);
    const remove = element("button", "Remove", { class: "plain", "aria-label": "remove: " + nameOf(one) + " " + what });
    remove.onclick = () => setChange(one, null);
    line.append(element("span", nameOf(one) + ": " + what), remove);
    return line;
  }));
  if (!ask.changes.length) list.append(element("li", "none", { class: "none" }));
  const left = list.querySelectorAll("button");
  if (at >= 0) (left[Math.min(at, left.length - 1)] || $("ablate")).focus();
}

const patchHint = (first, second) => "The second text must have " + first + (first === 1 ? " token" : " tokens") + " too; it has " + second + ".";
async function patchNow() {
  const head = headNow(), now = changeOf(head), hint = $("patch-note");
  hint.textContent = "";
  if (now && now.patch) { setChange(head, null); return; }
  if (takesFile()) {
    if (ask.other_file !== null) { setChange(head, { patch: { file: ask.other_file } }); return; }
    $("other_file-box").hidden = false;
    $("other_file-choose").focus();
    hint.textContent = "Choose a second " + inputOf(modelNow()) + (head.kind === "encoder" ? " with as many parts as the first" : "") + "; then patch from it.";
    return;
  }
  $("other-box").hidden = false;
  await noteCounts();
  const first = results[0].answer.ids.length;
  if (ask.other && noteCounts.other === first) { setChange(head, { patch: { text: ask.other } }); return; }
  hint.textContent = patchHint(first, noteCounts.other || 0);
  $("other").focus();
}

// ---- what the logit of the watched token loses without each head: asked for by layer, so that one sees how far it is
const effects = {
  about: "", found: new Map(), asking: null,
  name: head => [head.kind, head.layer, head.head].join("/"),
  request() {
    const { answer } = results[0], token = watched(answer), prediction = token && predictionsNow(answer).find(one => one.candidates.includes(token));
    if (!token) return null;
    const { changes, steering, candidates, vectors, ...plain } = requestOf(0);
    const asked = { ...plain, id: token.id };
    if (answer.target_ids) {  // what it says is known by now
      delete asked.target;
      asked.target_ids = answer.target_ids;
    }
    if (prediction.position !== null) asked.position = prediction.position;
    return asked;
  },
  /// Forgets what was found out about something else.
  settle() {
    const about = JSON.stringify(this.request());
    if (about === this.about) return;
    if (this.asking) this.asking.abort();
    this.about = about;
    this.found = new Map();
  },
  of(head) { return this.found.get(this.name(head)); },
  async ask(layers) {
    this.settle();
    if (this.asking) this.asking.abort();
    const own = this.asking = new AbortController(), about = this.about, base = this.request();
    Object.assign($("progress"), { max: layers.length, value: 0 });
    $("progress").hidden = $("cancel").hidden = false;
    try {
      for (const [at, { kind, layer }] of layers.entries()) {
        const { change: list } = await post("/api/ablation", { ...base, kind, layer }, own.signal);
        if (about !== this.about) return;
        for (const one of list) this.found.set(this.name(one), one.change);
        $("progress").value = at + 1;
        drawHead();
        drawEffects();
      }
    } catch (error) {
      if (error.name !== "AbortError") complain(error.message);
    } finally {
      if (this.asking === own) {
        this.asking = null;
        $("progress").hidden = $("cancel").hidden = true;
      }
    }
  },
};

function allLayers() {
  return results[0].answer.data.kinds.flatMap(kind => kind.layers.map(layer => ({ kind: kind.kind, layer })));
}
function goTo(head) {
  const index = viewer.data.kinds.findIndex(kind => kind.kind === head.kind);
  if (index !== viewer.state.kind) viewer.chooseKind(index);
  viewer.show({ layer: head.layer, head: head.head });
}
function drawEffects() {
  const token = watched(results[0].answer), box = $("effects"), { found } = effects;
  $("try-all").textContent = token ? "Every head's effect on " + quoted(token.token) : "Every head's effect";
  $("try-all").disabled = !token || !!recording && !allLayers().every(layer => canAsk("/api/ablation", { ...effects.request(), ...layer }));
  box.replaceChildren();
  if (!found.size) return;
  box.append(element("p", "Change of the logit without each head:", { class: "note" }));
  const rows = [...found].map(([name, change]) => { const [kind, layer, head] = name.split("/"); return { kind, layer: +layer, head: +head, change }; });
  const most = Math.max(...rows.map(one => Math.abs(one.change))) || 1;
  for (const kind of viewer.data.kinds) {
    const own = rows.filter(one => one.kind === kind.kind);
    if (own.length) box.append(element("h3", kind.title), effectGrid(kind, own, most));
  }
  const scale = element("p", null, { class: "scale" }), ramp = element("canvas", null, { width: 256, height: 1 }), image = ramp.getContext("2d").createImageData(256, 1);
  for (let i = 0; i < 256; ++i) image.data.set([...viewer.shades.at(i / 127.5 - 1), 255], 4 * i);
  ramp.getContext("2d").putImageData(image, 0, 0);
  scale.append(number(-most), ramp, signed(most));
  box.append(scale);
  const list = element("ol", null, { "aria-label": "largest changes" });
  for (const one of rows.sort((a, b) => Math.abs(b.change) - Math.abs(a.change)).slice(0, 10)) {
    const item = element("li", null), button = element("button", (viewer.data.kinds.length > 1 ? one.kind + " " : "") + "layer " + one.layer + ", head " + one.head + ": " + signed(one.change));
    button.onclick = () => goTo(one);
    item.append(button);
    list.append(item);
  }
  box.append(list);
}
/// Layers by heads; the arrow keys go from cell to cell.
function effectGrid(kind, rows, most) {
  const table = element("table", null, { "data-own-arrows": "" }), buttons = new Map();
  for (const layer of kind.layers) {
    const line = element("tr", null);
    for (const head of kind.heads) {
      const cell = element("td", null), one = rows.find(row => row.layer === layer && row.head === head);
      if (one) {
        const text = "layer " + layer + ", head " + head + ": " + signed(one.change), button = element("button", null, { title: text, "aria-label": text, tabindex: buttons.size ? -1 : 0 });
        button.style.background = viewer.shades.css(one.change / most);
        button.onclick = () => goTo(one);
        buttons.set(layer + "." + head, button);
        Object.assign(button, { layer, head });
        cell.append(button);
      }
      line.append(cell);
    }
    table.append(line);
  }
  table.onkeydown = event => {
    const turn = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key], at = event.target;
    if (!turn) return;
    event.preventDefault();
    const to = buttons.get(kind.layers[kind.layers.indexOf(at.layer) + turn[0]] + "." + kind.heads[kind.heads.indexOf(at.head) + turn[1]]);
    if (to) to.focus();
  };
  return table;
}
