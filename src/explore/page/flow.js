// The flow through the whole model for one token: what each head and feed-forward network adds to the residual stream, and to a logit.
class FlowView extends Look {
  constructor(box, panel) {
    super(box, panel);
    Object.assign(this, { measure: "size", id: null });
    this.shows = element("select", null, { class: "flow-measure" });
    this.note = element("p", "", { class: "note" });
    this.readout = element("p", "", { class: "flow-readout", "aria-live": "polite" });
    this.scroll = element("div", null, { class: "flow-scroll", tabindex: 0, role: "group", "aria-label": "The model, from the embedding to the candidates", "data-own-arrows": "" });
    this.side = element("div", null, { class: "flow-side" });
    this.top = element("ol", null, { class: "flow-top", "aria-label": "the largest parts" });
    this.sliders = this.makeSliders();
    this.candidates = element("div", null);
    const left = element("div", null, { class: "flow-left" }), grid = element("div", null, { class: "flow-grid" }), bar = element("p", null, { class: "row" });
    bar.append(labelled("Lines show", this.shows, "How much a part adds to the stream at this token, or what it does to the logit of the candidate that is chosen at the right."));
    left.append(bar, this.note, this.scroll, this.readout, this.top);
    this.side.append(this.candidates, this.sliders);
    grid.append(left, this.side);
    this.box.append(grid);
    describe(this.box);
    this.shows.onchange = () => { this.measure = this.shows.value; this.draw(); };
  }
  refuse(text) {
    this.scroll.replaceChildren(element("p", text, { class: "note" }));
    this.readout.textContent = this.note.textContent = "";
    this.top.replaceChildren();
    this.side.hidden = true;
  }

  /// The kind of self-attention in the stack of a kind.
  static stackOf(data, kind) { return data.kinds.find(one => one.kind === (kind.kind === "cross" ? "decoder" : kind.kind) && (one.kind === "decoder" || one.kind === "encoder")); }
  async show(now, current) {
    const stack = FlowView.stackOf(this.panel.data, now.kind);
    if (!stack) { this.refuse("This model has no layers of self-attention, whose parts add to a stream."); return; }
    const position = now.query(stack), asked = { ...now.request, stack: stack.kind, position }, place = JSON.stringify(asked);
    this.plain = { ...asked };
    if (this.id !== null && this.idOf === place) asked.id = this.id;
    const flow = await this.ask("/api/flow", asked);
    if (!current()) return;
    Object.assign(this, { flow, idOf: place, stack: stack.kind });
    const name = flow.candidates.find(one => one.id === flow.id);
    option(this.shows, [["size", "size of what a part adds"]].concat(flow.has_effects ? [["effect", "effect on " + quoted(name ? name.token : flow.id)]] : []), flow.has_effects ? this.measure : "size");
    this.shown = this.shows.value;
    this.drawNote(flow);
    this.drawMap(flow, now);
    this.drawTop(flow);
    this.drawCandidates(flow, now);
  }

  drawNote(flow) {
    const token = flow.tokens[flow.position];
    const size = "Width and shade: the square root of the length of what a part adds at " + quoted(token) + ", over that of the stream that it reads there (the size of heed heads).";
    const effect = flow.linear
      ? "What each part adds to the logit directly: the terms of direct logit attribution (heed attribute logit), which add up to it. Blue raises it, orange lowers it."
      : "What the logit loses when the part is taken out of the last layer's output at " + quoted(token) + " (this head is not linear, so the parts do not add up). Blue raises it, orange lowers it.";
    this.note.textContent = this.shown === "size" ? size : effect;
  }

  valueOf(part) { return this.shown === "size" ? part.size : part.effect; }
  static nameOf(part) {
    const kind = { self_attn: "", cross_attn: "cross-attention, " }[part.name];
    if (part.layer < 0) return part.name === "embed" ? "embedding" : "biases at the end";
    if (part.head >= 0) return "layer " + part.layer + ", " + kind + "head " + part.head;
    if (kind !== undefined) return "layer " + part.layer + ", bias of " + (kind ? "cross-" : "") + "attention";
    return "layer " + part.layer + ", " + part.name.replace(/_/g, " ").replace("feed forward", "feed-forward");
  }
  say(part, flow) {
    const name = FlowView.nameOf(part).replace(/^./, c => c.toUpperCase()), about = flow.candidates.find(one => one.id === flow.id);
    const said = [];
    if (part.size !== null) said.push("adds " + number(part.size) + " times the length of the stream");
    if (part.effect !== null && about) said.push("changes the logit of " + quoted(about.token) + " by " + signed(part.effect));
    this.readout.textContent = name + " " + (said.join(", ") || "has no measure here") + "." + (part.head >= 0 ? " A click opens its map." : "");
  }

  /// Layers from left to right: heads above the stream, all else below.
  drawMap(flow, now) {
    const of = (layer, name) => flow.parts.filter(part => part.layer === layer && part.name === name && part.head >= 0);
    const attentions = ["self_attn", "cross_attn"].filter(name => flow.parts.some(part => part.name === name && part.head >= 0));
    const most = Math.max(...flow.parts.filter(part => part.head >= 0).map(part => part.head)) + 1;
    const rows = Math.min(16, most), columns = Math.ceil(most / rows), cell = most <= 4 ? 40 : most <= 6 ? 34 : most <= 9 ? 28 : most <= 12 ? 22 : 18, node = cell - 4;
    const below = [...new Set(flow.parts.filter(part => part.layer >= 0 && part.head < 0 && part.size !== null && !attentions.includes(part.name)).map(part => part.name))];
    const block = columns * cell, left = 112, right = 92, top = 24 + (attentions.length > 1 ? 14 : 0), least = attentions.length * (block + 44) + Math.max(28, below.length * 34);
    const room = this.scroll.clientWidth - 2, width = Math.max(least, Math.min(400, (room - left - right) / flow.layers)), stretch = (width - least) / (attentions.length + 1) / 2;
    const band = top + rows * cell + 40, height = band + (below.length ? 78 : 24), svg = svgElement("svg", { width: left + right + width * flow.layers, height, role: "group" });
    const lines = svgElement("g", { fill: "none" }), nodes = svgElement("g", {}), words = svgElement("g", { class: "words" });
    const shown = flow.parts.filter(part => this.valueOf(part) !== null && part.layer >= 0 && (part.head >= 0 || below.includes(part.name)));
    const full = Math.max(...shown.map(part => Math.abs(this.valueOf(part)))) || 1;
    const share = part => { const value = this.valueOf(part) || 0; return Math.sign(value) * Math.sqrt(Math.abs(value) / full); };
    const end = left + width * flow.layers;
    lines.append(svgElement("line", { class: "stream", x1: left - 14, x2: end + 14, y1: band, y2: band }));
    words.append(svgElement("text", { x: end + 22, y: band - 8 }, flow.candidates.length ? (now.about.head === "sequence" ? "classes" : "candidates") : this.stack === "encoder" && now.about.kind === "encoder-decoder" ? "to the decoder" : "output"));
    lines.append(svgElement("path", { class: "arrow", d: `M${end + 14} ${band - 8}L${end + 26} ${band}L${end + 14} ${band + 8}Z` }));
    const token = flow.tokens[flow.position], embed = flow.parts.find(part => part.name === "embed");
    nodes.append(this.node({ part: embed, x: 8, y: band - 22, w: left - 22, h: 44, text: [fit(measuring, token, left - 44), "embedding"], share: this.shown === "effect" && embed ? Math.max(-1, Math.min(1, share(embed))) : 0, flow }));
    const thin = flow.layers * attentions.length * most <= 600;
    for (let layer = 0; layer < flow.layers; ++layer) {
      let x = left + layer * width + stretch;
      words.append(svgElement("text", { x: left + (layer + 0.5) * width, y: 14, "text-anchor": "middle" }, (flow.layers > 12 ? "" : "layer ") + layer));
      for (const name of attentions) {
        const first = x + 20, out = first + block + 20 + stretch, own = of(layer, name);
        if (attentions.length > 1 && own.length) words.append(svgElement("text", { x: first + block / 2, y: 30, "text-anchor": "middle", class: "minor" }, name === "cross_attn" ? "cross" : "self"));
        for (const part of own) {
          const cx = first + Math.floor(part.head / rows) * cell, cy = top + (part.head % rows) * cell, y = cy + node / 2, size = share(part);
          if (thin) lines.append(svgElement("path", { class: "reads", d: `M${x} ${band}C${x} ${y} ${x} ${y} ${cx} ${y}` }));
          lines.append(this.line(`M${cx + node} ${y}C${out} ${y} ${out} ${y} ${out} ${band}`, size));
          nodes.append(this.node({ part, x: cx, y: cy, w: node, h: node, text: [part.head], share: size, flow, at: [layer, name, part.head] }));
        }
        x = out + stretch;
      }
      below.forEach((name, i) => {
        const part = flow.parts.find(one => one.layer === layer && one.name === name);
        if (!part || part.size === null) return;
        const cx = x + 2 + i * 34, y = band + 40, size = share(part);
        lines.append(svgElement("path", { class: "reads", d: `M${cx - 8} ${band}C${cx - 8} ${y + 12} ${cx - 8} ${y + 12} ${cx} ${y + 12}` }), this.line(`M${cx + 24} ${y + 12}C${cx + 32} ${y + 12} ${cx + 32} ${y + 12} ${cx + 32} ${band}`, size));
        nodes.append(this.node({ part, x: cx, y, w: 24, h: 24, text: [name === "feed_forward" ? "ff" : name[0]], share: size, flow, at: [layer, "below", i] }));
      });
    }
    svg.append(lines, nodes, words);
    const from = this.scroll.scrollLeft;
    this.scroll.replaceChildren(svg);
    this.scroll.scrollLeft = from;
    nodes.onkeydown = event => this.move(event, nodes);
    this.readout.textContent = "The thickest line: " + FlowView.nameOf(shown.reduce((a, b) => Math.abs(this.valueOf(b)) > Math.abs(this.valueOf(a)) ? b : a)) + ", " + (this.shown === "size" ? number(full) + " times the stream." : signed(this.valueOf(shown.reduce((a, b) => Math.abs(this.valueOf(b)) > Math.abs(this.valueOf(a)) ? b : a))) + ".");
  }
  line(d, size) {
    return svgElement("path", { d, stroke: viewer.shades.css(0.75 * Math.sign(size || 1)), "stroke-width": (0.6 + 7 * Math.abs(size)).toFixed(2), "stroke-opacity": (0.12 + 0.7 * Math.abs(size)).toFixed(2) });
  }
  node({ part, x, y, w, h, text, share, flow, at }) {
    const value = part && this.valueOf(part), name = part ? FlowView.nameOf(part) : "embedding", said = name + (value === null || value === undefined ? "" : ": " + (this.shown === "size" ? number(value) : signed(value)));
    const box = svgElement("g", { class: "node", tabindex: at && !at[0] && !at[2] && at[1] === "self_attn" ? 0 : -1, role: part && part.head >= 0 ? "button" : "img", "aria-label": said });
    box.append(svgElement("title", {}, said), svgElement("rect", { x, y, width: w, height: h, rx: 3, fill: viewer.shades.css(share) }));
    text.forEach((line, i) => box.append(svgElement("text", { x: x + w / 2, y: y + h / 2 + 4 + (i - (text.length - 1) / 2) * 15, "text-anchor": "middle", fill: viewer.shades.ink(share) }, line)));
    if (part) box.onmouseenter = box.onfocus = () => this.say(part, flow);
    if (part && part.head >= 0) {
      box.onclick = () => this.openHead(part);
      if (headNow() && sameHead(this.kindHead(part), headNow())) box.classList.add("chosen");
    }
    box.at = at;
    box.part = part;
    return box;
  }
  kindHead(part) {
    return { kind: part.name === "cross_attn" ? "cross" : this.stack, layer: part.layer, head: part.head };
  }
  openHead(part) {
    viewer.state.view = "matrix";
    goTo(this.kindHead(part));
  }
  /// Arrow keys: heads up and down, layers left and right; Enter opens.
  move(event, nodes) {
    const all = [...nodes.children].filter(one => one.at), here = event.target.at, turn = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
    if (event.key === "Enter" && event.target.part && event.target.part.head >= 0) this.openHead(event.target.part);
    if (!turn || !here) return;
    event.preventDefault();
    event.stopPropagation();
    const to = all.find(one => one.at[0] === here[0] + turn[0] && one.at[1] === here[1] && one.at[2] === here[2] + turn[1]);
    if (to) to.focus();
  }

  drawTop(flow) {
    const parts = flow.parts.filter(part => this.valueOf(part) !== null).sort((a, b) => Math.abs(this.valueOf(b)) - Math.abs(this.valueOf(a)));
    this.top.replaceChildren(...parts.slice(0, 6).map(part => {
      const item = element("li", null), text = FlowView.nameOf(part) + " ", value = element("b", this.shown === "size" ? number(part.size) : signed(part.effect));
      const open = element("button", text.trim(), { class: "quiet", title: "show it in the picture" });
      open.onclick = () => this.reveal(part);
      item.append(open, " ", value);
      return item;
    }));
    if (this.shown !== "effect" || !flow.linear) return;
    const sums = { embedding: 0, heads: 0, "feed-forward": 0, biases: 0 };
    for (const part of flow.parts) sums[part.name === "embed" ? "embedding" : part.head >= 0 ? "heads" : part.name === "feed_forward" ? "feed-forward" : "biases"] += part.effect || 0;
    const total = Object.values(sums).reduce((a, b) => a + b);
    this.top.append(element("li", Object.entries(sums).map(([name, sum]) => name + " " + (Math.abs(sum) < 1e-4 ? "0" : signed(sum))).join(", ") + ": together " + signed(total), { class: "total" }));
  }

  /// Brings a part into view, and its measures into the line below.
  reveal(part) {
    const node = [...this.scroll.querySelectorAll(".node")].find(one => one.part === part);
    if (!node) return;
    node.scrollIntoView({ block: "nearest", inline: "center" });
    node.focus({ preventScroll: true });
    this.say(part, this.flow);
  }

  // ---- the candidates, and how one of them would be drawn
  makeSliders() {
    const box = element("div", null, { class: "flow-sliders" });
    box.append(element("h3", "Drawing the next token"));
    const add = (name, title, range, show) => {
      const input = element("input", null, { type: "range", class: "flow-" + name, ...range }), shown = element("output", show(drawing[name]));
      input.value = drawing[name];
      input.oninput = () => { drawing[name] = +input.value; shown.textContent = show(+input.value); this.drawTable(); };
      const label = labelled(title, input);
      label.append(" ", shown);
      box.append(label);
    };
    add("temperature", "Temperature", { min: 0.1, max: 2, step: 0.05 }, value => value.toFixed(2));
    add("top_k", "Top-k", { min: 0, max: 50, step: 1 }, value => value ? String(value) : "all");
    add("top_p", "Top-p", { min: 0.05, max: 1, step: 0.05 }, value => value.toFixed(2));
    this.left = element("p", "", { class: "note" });
    const draw = element("button", "Draw and append", { type: "button", class: "plain flow-draw", "data-help": "Draws a token with these probabilities, and appends it. Continue, beside the maps, draws several." });
    draw.onclick = async () => {
      const { position } = this.flow;
      await take({ position }, { id: drawNext(this.logits, position) });
      nameDrawn(results[0].answer);
      this.said.textContent = drawnText();
    };
    const seed = element("input", null, { type: "number", class: "flow-seed", min: 0, max: 999999, value: drawing.seed });
    seed.onchange = () => { Object.assign(drawing, { seed: Math.trunc(+seed.value) || 0, made: [] }); this.said.textContent = $("drawn").textContent = ""; };
    this.said = element("p", "", { class: "note", role: "status" });
    this.drawn = element("div", null);
    const row = element("p", null, { class: "row" });
    row.append(draw, labelled("Seed", seed, "The same seed draws the same tokens again, from the same text on. Setting it begins anew."));
    this.drawn.append(row, this.said);
    box.append(this.left, this.drawn);
    return box;
  }
  drawCandidates(flow, now) {
    this.side.hidden = !flow.candidates.length;
    this.draws = flow.logits !== null && (now.about.kind !== "encoder" || now.about.head === "masked_lm");
    this.sliders.hidden = !this.draws;
    this.drawn.hidden = !!recording || !isStepwise() || now.answer !== results[0].answer;
    if (this.logitsOf !== flow) {
      this.logitsOf = flow;
      this.logits = flow.logits === null ? null : floatsOf(flow.logits);
      this.order = this.logits && this.draws ? ranking(this.logits) : null;
    }
    const { head } = now.about, token = flow.tokens[flow.position];
    this.heading = head === "sequence" ? "Classes" : head === "masked_lm" ? "In the place of " + quoted(token) : head === "token" ? "Label of " + quoted(token) : "After " + quoted(token) + " (" + flow.position + ")";
    this.said.textContent = drawnText();
    this.drawTable();
  }
  drawTable() {
    const { flow } = this, table = element("table", null), drawn = this.draws ? sampled(this.logits, this.order, drawing) : null;
    const shown = flow.candidates.slice(0, 12);
    for (const one of shown) {
      const p = drawn ? drawn[one.id] : one.probability, row = element("tr", null, p === 0 ? { class: "dropped" } : {}), cell = element("td", null, { class: "look-bars" });
      const choose = element("button", one.token, { class: "quiet", "aria-pressed": one.id === flow.id, title: "the logit that effects are on" });
      choose.disabled = !canAsk("/api/flow", { ...this.plain, id: one.id });
      choose.onclick = () => { this.id = one.id; if (flow.has_effects) this.measure = "effect"; this.draw(); };
      cell.append(bar(p || 0, 1, false));
      const name = element("td", null);
      name.append(choose);
      row.append(name, cell, element("td", p === null ? "" : p === 0 ? "never" : percent(p)), element("td", fixed(one.logit, 2), { class: "soft" }));
      table.append(row);
    }
    this.candidates.replaceChildren(element("h3", this.heading), table);
    if (!drawn) return;
    const rest = 1 - shown.reduce((sum, one) => sum + drawn[one.id], 0), possible = drawn.reduce((count, p) => count + (p > 0 ? 1 : 0), 0);
    this.left.textContent = possible + (possible === 1 ? " token" : " tokens") + " can be drawn" + (possible > shown.length && rest > 0 ? "; those not listed have " + percent(rest) + " together." : ".");
  }
}

registerView({
  name: "flow", title: () => "Flow", help: "The whole model for the chosen token: what each head and feed-forward network adds, from the embedding to the candidates.", wide: true, whole: true, legend: false,
  fits: viewer => !!FlowView.stackOf(viewer.data, viewer.kind),
  lead: () => "Every part of the model reads the stream at the chosen token and adds to it: the wider its line, the more.",
  make: (box, panel) => new FlowView(box, panel),
});
