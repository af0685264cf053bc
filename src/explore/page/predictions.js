// What the model says: the tokens with those that can be asked about, and the candidates of the chosen one.
const modelNow = () => models[ask.model];
const kindOf = (answer, name) => answer.data.kinds.find(kind => kind.kind === name);
const isStepwise = () => modelNow().kind !== "encoder";
const percent = p => (100 * p).toPrecision(p < 0.001 ? 1 : 3) + " %";

/// The tokens that predictions are about: of the decoder, else of the encoder.
function predictedTokens(answer) {
  const of = answer.predictions.length && answer.predictions[0].of, kind = kindOf(answer, of) || kindOf(answer, isStepwise() ? "decoder" : "encoder") || answer.data.kinds[0];
  return kind ? kind.queries : [];
}
/// The predictions at the chosen position; those without a position (classes, both ends of an answer) always.
function predictionsNow(answer) {
  const free = answer.predictions.filter(one => one.position === null || isSpan(one));
  if (free.length) return free;
  return answer.predictions.filter(one => one.position === chosen.position);
}
/// Where the page looks while no token is pinned: at the first mask, else at the end.
function ownPosition(answer) {
  const at = answer.predictions.map(one => one.position).filter(p => p !== null);
  return at.length ? at[modelNow().head === "masked_lm" ? 0 : at.length - 1] : -1;
}
function settlePosition(answer) {
  if (chosen.pinned && answer.predictions.some(one => one.position === chosen.position)) return;
  chosen.position = ownPosition(answer);
  chosen.pinned = false;
}
const isSpan = prediction => prediction.of === "start" || prediction.of === "end";
/// The candidate whose logit is watched: the chosen one, else the most probable. The ends of an answer have none: they are positions.
function watched(answer) {
  const candidates = predictionsNow(answer).filter(one => !isSpan(one)).flatMap(one => one.candidates);
  return candidates.find(one => one.id === chosen.id) || candidates[0] || null;
}

// ---- the tokens
function drawTokens(answer) {
  const own = predictedTokens(answer), source = kindOf(answer, "encoder") || (kindOf(answer, "cross") && { queries: kindOf(answer, "cross").keys });
  const strips = modelNow().kind === "encoder-decoder" && source && !answer.data.image ? [["Source", source.queries, false], ["Target", own, true]] : [["", own, true]];
  const label = kindOf(answer, "text");
  if (label && answer.label !== null) { drawLabel(answer, label); return; }
  $("tokens").hidden = !!answer.data.image && !answer.predictions.some(one => one.position !== null);  // parts are chosen in the picture
  if ($("tokens").hidden) return;
  const focused = $("tokens").contains(document.activeElement);
  $("tokens").replaceChildren(...strips.map(([name, tokens, ours]) => drawStrip(answer, name, tokens, ours)));
  if (focused) { const now = $("tokens").querySelector("[aria-pressed=true]"); if (now) now.focus(); }
}
function drawStrip(answer, name, tokens, ours) {
  const box = element("div", null, { class: "strip", role: "group", "aria-label": name || "Tokens", "data-own-arrows": "" }), asked = new Set(answer.predictions.map(one => one.position));
  if (name) box.append(element("span", name));
  const heard = modelNow().head === "ctc" ? answer.predictions.map(one => one.candidates[0].token.replace(/^[<\[]pad[>\]]$/i, "·")) : null;  // of each frame, by its likeliest character
  tokens.forEach((token, index) => {
    const on = ours && index === chosen.position, button = element("button", heard ? heard[index] : token, { title: heard ? token : "", "aria-pressed": on, tabindex: on || (!ours && !index) ? 0 : -1, "aria-label": (heard ? heard[index] + " at " : "") + token + ", position " + index });
    if (ours && asked.has(index)) button.classList.add("asked");
    button.onclick = () => chooseToken(answer, tokens, index, ours);
    box.append(button);
  });
  if (!box.querySelector("[tabindex='0']") && box.querySelector("button")) box.querySelector("button").tabIndex = 0;
  box.onkeydown = event => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key], all = [...box.querySelectorAll("button")], to = by && all[all.indexOf(document.activeElement) + by];
    if (by) event.preventDefault();
    if (to) to.focus();
  };
  return box;
}
/// The chosen label beside the image: each token is shaded by what the last one, whose vector stands for the text, attends to in the last layer.
async function drawLabel(answer, kind) {
  const layer = kind.layers[kind.layers.length - 1], count = kind.keys.length;
  const strip = drawStrip(answer, "“" + answer.labels[answer.label] + "”, what its last token attends to in layer " + layer + ":", kind.queries, false);
  $("tokens").hidden = false;
  $("tokens").replaceChildren(strip);
  const row = (await answer.data.values(kind, "weights", layer, kind.heads.length > 1 ? "mean" : kind.heads[0])).slice(-count), most = Math.max(...row) || 1;
  [...strip.querySelectorAll("button")].forEach((button, i) => {
    button.style.background = viewer.shades.css(0.5 * row[i] / most);
    button.title = kind.keys[i] + ": " + number(row[i]);
  });
}
/// Shows the candidates of a position, and its row in the map where rows or columns are these tokens.
function chooseToken(answer, tokens, index, ours) {
  if (ours && answer.predictions.some(one => one.position === index)) choosePosition(index);
  const same = list => list.length === tokens.length && list.every((token, i) => token === tokens[i]), { kind } = viewer;
  if (same(kind.queries) || (ours && kind.kind === "cross")) viewer.hold(index, -1, true);
  else if (same(kind.keys)) viewer.hold(-1, index, true);
}
function choosePosition(index) {
  chosen.position = index;
  chosen.pinned = index !== ownPosition(results[0].answer);
  chosen.id = null;
  drawAnswers();
  writeAddress();
}

// ---- the candidates
function titleOf(prediction) {
  if (isSpan(prediction)) return "The answer's " + prediction.of;
  if (modelNow().takes_labels) return "Labels";
  if (modelNow().head === "sequence") return "Classes";
  if (modelNow().head === "token") return "Label of " + prediction.token;
  if (modelNow().head === "ctc") return "At " + prediction.token;
  if (modelNow().head === "masked_lm") return "In the place of " + prediction.token + " (" + prediction.position + ")";
  return "After " + prediction.token + " (" + prediction.position + ")";
}
/// A chosen token stays chosen while one types; the button lets it go.
function unpinButton() {
  const what = modelNow().head === "masked_lm" ? "the mask" : "the end", button = element("button", "pinned ×", { class: "plain", id: "unpin", title: "This token stays chosen while you type. Let it go to follow " + what + " of the text.", "aria-label": "pinned: let go, to follow " + what });
  button.onclick = () => viewer.hold(-1, -1);
  return button;
}
function drawPredictions(all) {
  const parts = [];
  all.forEach(({ answer, caption }, index) => {
    predictionsNow(answer).forEach((prediction, i) => {
      const title = element("h3", (all.length > 1 ? caption + ": " : "") + titleOf(prediction));
      if (!index && !i && chosen.pinned) title.append(" ", unpinButton());
      parts.push(title, candidateTable(prediction, index));
    });
  });
  if (!parts.length) {
    const { mask_token: mask, head, takes_labels: labels } = modelNow();
    parts.push(element("p", labels ? "Write labels, one a line, to see which of them fits the image." : head === "masked_lm" ? "Write " + mask + " where the model is to say what fits." : "This model predicts nothing here: it has no head for it.", { class: "note" }));
  }
  const radio = document.activeElement && document.activeElement.name === "watched";
  $("predictions").replaceChildren(...parts);
  if (radio) { const on = $("predictions").querySelector("input:checked"); if (on) on.focus(); }
  $("continue-box").hidden = !isStepwise() || !all[0].answer.predictions.length;
}
function candidateTable(prediction, index) {
  const table = element("table", null, modelNow().takes_labels ? { class: "own-labels" } : {}), changed = prediction.candidates.some(one => one.change !== undefined), head = element("tr", null);
  for (const title of [/^(sequence|token)$/.test(modelNow().head) || modelNow().takes_labels ? "label" : "token", "", "probability", "logit"].concat(changed ? ["change"] : [])) head.append(element("th", title, { scope: "col" }));
  table.append(head);
  const now = index ? null : watched(results[0].answer);
  for (const one of prediction.candidates) {
    const row = element("tr", null), name = element("div", null), first = element("td", null, { class: "token-cell", title: one.token }), cell = element("td", null, { class: "bars" });
    if (!index && !isSpan(prediction)) {
      const radio = element("input", null, { type: "radio", name: "watched", "aria-label": "watch the logit of " + one.token, title: "watch this logit" });
      radio.checked = one === now;
      radio.onchange = () => { chosen.id = one.id; drawAnswers(); writeAddress(); if (modelNow().takes_labels) run(); };
      name.append(radio);
    }
    const takes = !index && (isStepwise() || modelNow().head === "masked_lm");
    const token = element(takes ? "button" : "span", one.token + (isSpan(prediction) ? " (" + one.id + ")" : ""), takes ? { "aria-label": (isStepwise() ? "append " : "fill in ") + one.token } : {});
    if (takes) token.onclick = () => take(prediction, one);
    name.append(token);
    if (one.probability !== null && one.probability !== undefined) {
      const bar = element("span", null, { class: "bar" });
      bar.style.width = Math.max(1, Math.round(50 * one.probability)) + "px";
      cell.append(bar);
    }
    first.append(name);
    row.append(first, cell, element("td", cell.firstChild ? percent(one.probability) : ""), element("td", one.logit.toFixed(2)));
    if (changed) row.append(element("td", one.change === undefined || one.change === null ? "" : (one.change > 0 ? "+" : "") + one.change.toFixed(2)));
    table.append(row);
  }
  return table;
}

// ---- stepping: a candidate is appended after its position, or takes the place of its mask
function idsWith(answer, position, id) {
  if (modelNow().kind === "encoder-decoder") return { target_ids: [...answer.target_ids.slice(0, position), id] };
  return { ids: [...answer.ids.slice(0, position + 1), id] };
}
function take(prediction, one) {
  const { answer } = results[0];
  chosen.id = null;
  if (!isStepwise()) { fillMask(prediction, one.token); return; }
  chosen.pinned = false;
  change(idsWith(answer, prediction.position, one.id));
  run();
}
/// Writes a token into the text, instead of the mask, with as many masks before it.
function fillMask(prediction, token) {
  const { mask_token: mask } = modelNow(), { answer } = results[0];
  let before = answer.predictions.filter(one => one.position < prediction.position).length;
  const plain = token.replace(/^[·▁␣]/u, "").replace(/^##/, ""), joined = token.startsWith("##");
  const edit = {};
  for (const field of ["text", "pair"]) {
    const parts = (ask[field] || "").split(mask);
    if (before < parts.length - 1) {
      const left = parts.slice(0, before + 1).join(mask), right = parts.slice(before + 1).join(mask);
      edit[field] = (joined ? left.replace(/\s+$/, "") : left) + plain + right;
      break;
    }
    before -= parts.length - 1;
  }
  change({ ...edit, ids: null });
  syncForm();
  run();
}
/// Appends the most probable token, `count` times; a new request, or `going` false, ends it.
let going = false;
async function goOn(count) {
  going = true;
  $("continue").textContent = "Stop";
  for (let i = 0; i < count && going; ++i) {
    const { answer } = results[0], last = answer.predictions[answer.predictions.length - 1];
    if (!last || !last.candidates.length) break;
    chosen.pinned = false;
    chosen.id = null;
    change(idsWith(answer, last.position, last.candidates[0].id));
    if (!await run()) break;
  }
  going = false;
  $("continue").textContent = "Continue";
}
