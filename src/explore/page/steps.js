// One head, step by step: from a query and the keys to the head's output, with the model's own numbers; and the tutorial's three tokens,
// which can be checked on paper.

/// The example of docs/tutorial.md, computed as a head computes it; `masked`: later tokens are hidden.
function tutorialSteps(query, masked) {
  const q = [[1, 0], [0, 1], [1, 1]], k = [[1, 1], [0, 1], [1, 0]], v = [[1, 0], [0, 1], [0, 0]], scale = 1 / Math.sqrt(2), names = ["token 0", "token 1", "token 2"];
  const scores = k.map((key, s) => masked && s > query ? -Infinity : scale * (q[query][0] * key[0] + q[query][1] * key[1])), sum = scores.reduce((all, score) => all + Math.exp(score), 0);
  const weights = scores.map(score => Math.exp(score) / sum), output = [0, 1].map(i => weights.reduce((all, w, s) => all + w * v[s][i], 0));
  return { tutorial: true, query, queries: names, keys: names, dims: 2, scale, cap: 0, window: 0, positions: null, rotary: false, q_before: null, k_before: null, q: q[query], k: k.flat(), v: v.flat(), scores, weights, output };
}
const dot = (a, b, size, from) => { let sum = 0; for (let i = 0; i < size; ++i) sum += a[i] * b[from + i]; return sum; };

class StepsView extends Look {
  constructor(box, panel) {
    super(box, panel);
    Object.assign(this, { tutorial: false, masked: false, own: 2, key: null });
    this.token = element("select", null, { class: "steps-query" });
    this.example = element("button", "Three tokens to check on paper", { type: "button", class: "plain steps-example", "aria-pressed": false, "data-help": "The example of the tutorial (docs/tutorial.md): three tokens with queries, keys and values of two numbers each." });
    const bar = element("p", null, { class: "row" }), hide = element("input", null, { type: "checkbox", class: "steps-mask" });
    this.hiding = element("label", null);
    this.hiding.append(hide, " hide later tokens");
    this.queryLabel = labelled("Query", this.token);
    hide.onchange = () => { this.masked = hide.checked; this.draw(); };
    bar.append(this.example, this.queryLabel, this.hiding);
    this.sentence = element("p", "", { class: "steps-sentence", "aria-live": "polite" });
    this.formula = element("p", "", { class: "steps-formula" });
    this.vectors = element("div", null, { class: "steps-vectors" });
    this.scroll = element("div", null, { class: "steps-scroll" });
    this.what = element("ol", null, { class: "steps-what", "aria-label": "What happens in each step" });
    const body = element("div", null, { class: "steps-body" });
    body.append(this.scroll, this.what);
    this.box.append(bar, this.sentence, this.formula, this.vectors, body);
    describe(this.box);
    this.token.onchange = () => { this.own = +this.token.value; this.key = null; this.draw(); };
    this.example.onclick = () => { this.tutorial = !this.tutorial; this.key = null; this.draw(); };
  }
  refuse(text) {
    for (const part of [this.vectors, this.scroll, this.what]) part.replaceChildren();
    this.formula.textContent = "";
    this.sentence.textContent = text;
  }

  async show(now, current) {
    this.example.setAttribute("aria-pressed", this.tutorial);
    this.hiding.hidden = this.queryLabel.hidden = !this.tutorial;
    const steps = this.tutorial ? tutorialSteps(this.own, this.masked) : await this.fetch(now);
    if (!current()) return;
    const { pin } = viewer.state, held = !this.tutorial && pin && pin.query === steps.query ? pin.key : this.key;
    this.key = held !== null && held >= 0 && held < steps.keys.length ? held : steps.weights.indexOf(Math.max(...steps.weights));
    this.steps = steps;
    this.change = !this.tutorial && now.request.changes && changeOf(now.head);
    if (this.tutorial) option(this.token, steps.queries.map((token, i) => [i, token]), steps.query);
    this.drawAll();
    if (!this.tutorial) this.key = null;
  }
  /// The head that is shown in the maps, for the query that is pinned or followed there.
  async fetch(now) {
    const found = await this.ask("/api/steps", { ...now.request, kind: now.head.kind, layer: now.head.layer, head: now.head.head, query: now.query(now.kind) });
    if (!found.read) {
      for (const name of ["q", "k", "v", "scores", "weights", "output", "positions", "q_before", "k_before"]) if (found[name] !== null) found[name] = floatsOf(found[name]);
      found.read = true;
    }
    return found;
  }
  choose(key) {
    if (this.tutorial) { this.key = key; this.drawAll(); }
    else viewer.hold(this.steps.query, key, true);
  }

  /// Three digits after the point of what are f32 in the model; whole numbers as they are.
  static show(value) { return value === -Infinity ? "−∞" : Number.isInteger(value) && Math.abs(value) < 1000 ? String(value).replace("-", "−") : (value < 0 ? "−" : "") + (Math.abs(value) < 0.0005 ? Math.abs(value).toExponential(1) : Math.abs(value).toFixed(3)); }
  product(key) { const { steps } = this; return dot(steps.q, steps.k, steps.dims, key * steps.dims); }
  capped(key) { const { steps } = this, score = this.product(key) * steps.scale; return steps.cap > 0 ? steps.cap * Math.tanh(score / steps.cap) : score; }
  scaleText() {
    const { steps } = this, root = Math.sqrt(steps.dims), usual = Math.abs(steps.scale * root - 1) < 1e-6;
    return usual ? "÷ √" + steps.dims : "× " + steps.scale.toPrecision(5).replace(/\.?0+$/, "");
  }

  drawAll() {
    this.at = this.key;
    const { steps } = this, token = steps.queries[steps.query], order = [...steps.weights.keys()].sort((a, b) => steps.weights[b] - steps.weights[a]).filter(s => steps.weights[s] >= 0.05).slice(0, 3);
    const takes = order.map(s => Math.round(100 * steps.weights[s]) + " % from " + quoted(nameIn(steps.keys, s))).join(", ");
    this.sentence.textContent = quoted(token) + " takes " + (takes || "less than 5 % from every token") + (takes && order.length < steps.keys.length ? "; the rest from the others." : ".");
    this.formula.textContent = "output = softmax(" + (steps.cap > 0 ? "cap(" : "") + "q·k " + this.scaleText() + (steps.cap > 0 ? ")" : "") + (steps.positions ? " + positions" : "") + " + mask) × V";
    this.drawVectors();
    this.drawTable();
    this.drawWhat();
  }

  /// A row of cells, one a number: blue above 0, orange below; few of them are written out.
  strip(values, from, size, full, name, wide) {
    const canvas = element("canvas", null, { class: "strip-cells", role: "img", "aria-label": name }), few = size <= 4, cell = few ? 52 : Math.max(1, Math.floor(wide / size)), context = sized(canvas, cell * size, 18);
    context.font = font(11); context.textAlign = "center"; context.textBaseline = "middle";
    for (let i = 0; i < size; ++i) {
      const share = Math.max(-1, Math.min(1, values[from + i] / full));
      context.fillStyle = viewer.shades.css(share);
      context.fillRect(i * cell, 0, Math.max(1, cell - (cell > 3 ? 1 : 0)), 18);
      if (few) { context.fillStyle = viewer.shades.ink(share); context.fillText(StepsView.show(values[from + i]), (i + 0.5) * cell, 9); }
    }
    canvas.title = name + ": " + Array.from({ length: Math.min(size, 128) }, (_, i) => StepsView.show(values[from + i])).join(" ");
    return canvas;
  }
  static most(values) { let most = 0; for (const value of values) most = Math.max(most, Math.abs(value)); return most || 1; }

  drawVectors() {
    const { steps, at: key } = this, products = Array.from({ length: steps.dims }, (_, i) => steps.q[i] * steps.k[key * steps.dims + i]), wide = Math.min(640, this.box.clientWidth - 190);
    const line = (name, values, from, full) => { const row = element("div", null); row.append(element("span", name), this.strip(values, from, steps.dims, full, name, wide)); return row; };
    this.vectors.replaceChildren(line("q of " + quoted(steps.queries[steps.query]), steps.q, 0, StepsView.most(steps.q)), line("k of " + quoted(steps.keys[key]), steps.k, key * steps.dims, StepsView.most(steps.k)), line("q × k, summed: " + StepsView.show(this.product(key)), products, 0, StepsView.most(products)));
    const numbers = element("details", null), list = element("p", null, { class: "steps-numbers" });
    list.textContent = "q " + [...steps.q].map(StepsView.show).join("  ") + "\nk " + Array.from({ length: steps.dims }, (_, i) => StepsView.show(steps.k[key * steps.dims + i])).join("  ");
    numbers.append(element("summary", "All " + steps.dims + " numbers of both"), list);
    if (steps.dims > 4) this.vectors.append(numbers);
  }

  drawTable() {
    const { steps } = this, table = element("table", null), head = element("tr", null), wide = this.box.clientWidth < 700 ? 64 : 128;
    const cap = steps.cap > 0, columns = ["key", "k", "q·k", this.scaleText()].concat(cap ? ["capped"] : [], steps.positions ? ["+ positions"] : [], ["mask", "softmax", "", "v"]);
    columns.forEach(title => head.append(title ? element("th", title, { scope: "col", class: title === "k" || title === "v" ? "start" : "" }) : element("td", "")));
    table.append(head);
    const fullK = StepsView.most(steps.k), fullV = StepsView.most(steps.v), focused = this.scroll.contains(document.activeElement);
    steps.keys.forEach((token, s) => {
      const masked = steps.scores[s] === -Infinity, row = element("tr", null, { class: (s === this.at ? "chosen " : "") + (masked ? "masked" : "") }), name = element("td", null), choose = element("button", token, { class: "quiet", "aria-pressed": s === this.at, title: "follow this key" });
      choose.onclick = () => this.choose(s);
      name.append(choose);
      const cells = [name, element("td", null), element("td", StepsView.show(this.product(s))), element("td", StepsView.show(this.product(s) * steps.scale))];
      cells[1].append(this.strip(steps.k, s * steps.dims, steps.dims, fullK, "k of " + token, wide));
      if (cap) cells.push(element("td", StepsView.show(this.capped(s))));
      if (steps.positions) cells.push(element("td", masked ? "" : StepsView.show(steps.positions[s])));
      const share = element("td", null, { class: "look-bars" });
      share.append(bar(steps.weights[s], 1, false));
      cells.push(element("td", masked ? "−∞" : "✓", { class: "soft" }), element("td", masked ? "0" : steps.weights[s].toFixed(3)), share, element("td", null));
      cells[cells.length - 1].append(this.strip(steps.v, s * steps.dims, steps.v.length / steps.keys.length, fullV, "v of " + token, wide));
      row.append(...cells);
      table.append(row);
    });
    const foot = element("tr", null, { class: "steps-sum" }), gap = columns.length - 4;
    const sum = steps.weights.reduce((a, b) => a + b, 0), output = element("td", null), size = steps.output.length;
    output.append(steps.output.some(value => value) ? this.strip(steps.output, 0, size, StepsView.most(steps.output), "output", wide) : element("span", this.change && this.change.factor === 0 ? "nothing: the head is ablated" : "zeros", { class: "soft" }));
    foot.append(element("th", "output", { scope: "row" }), element("td", "weights times values, summed", { colspan: gap, class: "soft" }), element("td", sum.toFixed(3)), element("td", ""), output);
    table.append(foot);
    const at = this.scroll.scrollTop;
    this.scroll.replaceChildren(table);
    this.scroll.scrollTop = at;
    const chosen = table.querySelector("tr.chosen button");
    if (focused && chosen) chosen.focus({ preventScroll: true });
  }

  drawWhat() {
    const { steps, at: key } = this, token = quoted(steps.keys[key]), query = quoted(steps.queries[steps.query]), product = this.product(key), show = StepsView.show, list = [];
    const products = Array.from({ length: steps.dims }, (_, i) => [i, steps.q[i], steps.k[key * steps.dims + i]]).sort((a, b) => Math.abs(b[1] * b[2]) - Math.abs(a[1] * a[2]));
    const largest = products.slice(0, steps.dims <= 4 ? steps.dims : 2).map(([i, a, b]) => (steps.dims > 4 ? "number " + i + ": " : "") + show(a) + " · " + show(b)).join(steps.dims > 4 ? ", " : " + ");
    list.push(["q·k", "The query of " + query + " and the key of " + token + ", number by number: " + (steps.dims > 4 ? show(product) + ", the sum of " + steps.dims + " products (the largest: " + largest + ")." : largest + " = " + show(product) + ".")]);
    if (steps.rotary) {
      const before = steps.q_before && dot(steps.q_before, steps.k_before, steps.dims, key * steps.dims);
      list[0][1] += " Both are rotated by their positions (RoPE)" + (before !== null ? "; before, the product is " + show(before) + "." : ".");
    }
    const usual = this.scaleText()[0] === "÷", scaled = product * steps.scale;
    list.push([this.scaleText(), show(product) + (usual ? " ÷ " + show(1 / steps.scale) : " × " + steps.scale.toPrecision(5).replace(/\.?0+$/, "")) + " = " + show(scaled) + (usual ? ": so scores do not grow with the number of dimensions." : steps.scale === 1 ? ": this model does not scale its scores." : ": the scale that this model has in place of 1/√" + steps.dims + ".")]);
    if (steps.cap > 0) list.push(["cap", steps.cap + " · tanh(" + show(scaled) + " ÷ " + steps.cap + ") = " + show(this.capped(key)) + ": no score can leave ±" + steps.cap + "."]);
    const masked = steps.scores[key] === -Infinity;
    if (steps.positions && !masked) list.push(["+ positions", show(this.capped(key)) + " + " + show(steps.positions[key]) + " = " + show(steps.scores[key]) + ": what the distance from " + query + " to " + token + " adds."]);
    const count = [...steps.scores].filter(score => score === -Infinity).length;
    list.push(["mask", masked ? query + " may not look at " + token + ": its score becomes −∞." : count ? count + (count === 1 ? " key is" : " keys are") + " hidden from " + query + " (−∞); " + token + " is not." : "No key is hidden from " + query + "."]);
    list.push(["softmax", masked ? "e^(−∞) = 0: the weight is exactly 0." : "e^(" + show(steps.scores[key]) + "), divided by the sum over all keys: " + steps.weights[key].toFixed(3) + ". The weights sum to 1" + (steps.padding ? ", of which " + steps.padding.toFixed(3) + " is on frames of silence that are not shown." : ".")]);
    list.push(["× V", "The value of " + token + " counts " + steps.weights[key].toFixed(3) + " times. The sum over all keys is the head's output" + (this.tutorial ? ": (" + [...steps.output].map(value => value.toFixed(3)).join(", ") + ")." : ", which the output projection writes into the residual stream.")]);
    if (this.change) list.push(["changed", "This head is changed (" + changeName(this.change) + "): the last row of the table is what that leaves."]);
    this.what.replaceChildren(...list.map(([name, text]) => { const item = element("li", null); item.append(element("b", name), " " + text); return item; }));
  }
}

registerView({
  name: "steps", title: () => "Step by step", help: "What one head computes for the chosen query, number by number: query and key, scale, mask, softmax, values.", wide: true, single: true, legend: false,
  fits: viewer => /^(cross|encoder|decoder)$/.test(viewer.kind.kind),
  lead: () => "What this head computes for the chosen query, from left to right; a click on a key follows that key.",
  make: (box, panel) => new StepsView(box, panel),
});
