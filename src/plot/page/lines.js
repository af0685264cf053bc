// Lines from each token that looks (left) to those that it looks at (right), of one head, or of several in colors.

/// The lines to draw, [query, key, strength, color], the weakest first: of rows up to a share of the full color; `layers`: [{values, full,
/// color}], one per head that is shown.
function chosenLines(kind, layers, { q0, q1, k0, k1 }, strongest, least) {
  const columns = kind.keys.length, chosen = [];
  for (const { values, full, color } of layers) {
    for (let q = q0; q < q1; ++q) {
      let best = k0;
      if (strongest) for (let k = k0 + 1; k < k1; ++k) if (values[q * columns + k] > values[q * columns + best]) best = k;
      for (let k = k0; k < k1; ++k) {
        if (strongest && k !== best) continue;
        const strength = values[q * columns + k] / full;
        if (Math.abs(strength) > least) chosen.push([q, k, strength, color]);
      }
    }
  }
  return chosen.sort((a, b) => Math.abs(a[2]) - Math.abs(b[2]));
}

class Lines {
  constructor(box, panel) {
    Object.assign(this, { box, panel, row: 24, side: 150, middle: 150, top: 28, layers: [] });
    this.chips = element("div", null, { class: "chips" });
    this.strands = element("div", null, { class: "strands", "data-own-arrows": "" });
    this.wires = element("canvas", null, { class: "wires", "aria-hidden": "true" });
    this.strands.append(this.wires);
    box.append(this.chips, this.strands);
    this.strands.onmouseleave = () => panel.viewer.follow(-1, -1);
    this.strands.onkeydown = event => this.nextToken(event);
  }

  async draw() {
    const { panel, strands } = this, { kind, range, viewer } = panel, rows = Math.max(range.q1 - range.q0, range.k1 - range.k0), size = rows > 24 ? 12 : 14;
    const layers = await this.lineLayers(viewer.shades.onDark);
    if (panel.kind !== kind) return;
    Object.assign(this, { layers, row: Math.max(17, Math.min(40, Math.floor((panel.room.height - 80) / rows))) });
    this.side = Math.ceil(Math.max(90, Math.min(panel.room.width < 420 ? 120 : 180, Math.max(widest(kind.queries, size, 180), widest(kind.keys, size, 180)) + 14)));
    this.middle = Math.max(70, Math.min(360, panel.room.width - 2 * this.side - 20));
    for (const old of strands.querySelectorAll(".token, .floor, .end")) old.remove();
    const part = document.createDocumentFragment();
    const place = (one, asks, index) => Object.assign(one.style, { left: (asks ? 0 : this.side + this.middle) + "px", width: this.side + "px", top: this.top + index * this.row + "px", height: this.row + "px", fontSize: size + "px", lineHeight: this.row + "px" });
    const add = (token, index, asks) => {
      const one = element("button", token, { type: "button", class: "token " + (asks ? "query" : "key"), tabindex: index ? -1 : 0, "aria-label": (asks ? "query " : "key ") + token }), at = index + (asks ? range.q0 : range.k0), cell = asks ? [at, -1] : [-1, at];
      place(one, asks, index);
      one.onmouseenter = one.onfocus = () => viewer.follow(...cell);
      one.onclick = () => viewer.hold(...cell);
      part.append(one);
    };
    for (const [text, asks] of [["from (query)", true], ["to (key)", false]]) {
      const end = element("span", text, { class: "end " + (asks ? "query" : "key") });
      Object.assign(end.style, { left: (asks ? 0 : this.side + this.middle) + "px", width: this.side + "px" });
      part.append(end);
    }
    kind.queries.slice(range.q0, range.q1).forEach((token, i) => add(token, i, true));
    kind.keys.slice(range.k0, range.k1).forEach((token, i) => add(token, i, false));
    const floor = element("div", "", { class: "floor" });
    Object.assign(floor.style, { height: this.top + rows * this.row + 4 + "px", width: 2 * this.side + this.middle + "px" });
    part.append(floor);
    strands.append(part);
    this.wires.style.left = this.side + "px";
    this.drawChips();
  }

  /// The heads that are chosen in this view, each in its color, else the map.
  async lineLayers(onDark) {
    const { kind, data, values, full, viewer } = this.panel, { state, lineHeads } = viewer, heads = lineHeads.filter(head => data.has(kind, state.measure, state.layer, head));
    if (!heads.length) return [{ values, full }];
    return Promise.all(heads.map(async head => ({ head, values: await data.values(kind, state.measure, state.layer, head), full, color: hue(head, onDark) })));
  }

  drawChips() {
    const { panel, chips } = this, { viewer, kind } = panel, { state } = viewer, focused = [...chips.querySelectorAll("button, input")].indexOf(document.activeElement);
    chips.replaceChildren();
    if (kind.heads.length > 1) {
      const group = element("span", null, { role: "group", "aria-label": "Heads together" });
      group.append(element("span", "Together: "));
      for (const head of kind.heads) {
        const on = state.also.includes(head), chip = element("button", (on ? "✓ " : "") + head, { type: "button", "aria-pressed": on, "aria-label": "head " + head, "data-help": "Shows this head's lines, together with those of other heads that are ticked." }), color = hue(head, isDark());
        chip.style.borderColor = color;
        if (on) { chip.style.background = color; chip.style.color = isDark() ? "#16181c" : "#fff"; }
        chip.onclick = () => viewer.showLines({ also: on ? state.also.filter(h => h !== head) : [...state.also, head].sort((a, b) => a - b) });
        group.append(chip);
      }
      chips.append(group);
    }
    const label = element("label", null, { "data-help": "Of each query only the key with the largest weight: of cross-attention, an alignment." }), tick = element("input", null, { type: "checkbox" });
    tick.checked = state.strongest;
    tick.onchange = () => viewer.showLines({ strongest: tick.checked });
    label.append(tick, " strongest only");
    chips.append(label);
    const legend = element("span", null, { class: "widths" });
    for (const share of [0.1, 0.5, 1]) {
      const line = element("i", null);
      line.style.borderTopWidth = 0.8 + 3.2 * share + "px";
      line.style.opacity = 0.1 + 0.9 * share;
      legend.append(line, " " + panel.format(share * panel.full) + " ");
    }
    chips.append(legend);
    describe(chips);
    if (focused >= 0) { const now = chips.querySelectorAll("button, input")[focused]; if (now) now.focus(); }
  }

  follow() {
    const { panel, layers } = this, { kind, query, key, range, viewer } = panel, { shades, state } = viewer;
    if (!layers.length || layers[0].values.length !== kind.queries.length * kind.keys.length) return;
    const columns = kind.keys.length, rows = Math.max(range.q1 - range.q0, range.k1 - range.k0), chosen = !!(state.hover || state.pin);
    const context = sized(this.wires, this.middle, this.top + rows * this.row), y = i => this.top + (i + 0.5) * this.row;
    const own = line => query >= 0 ? line[0] === query : key < 0 || line[1] === key;
    const lines = chosenLines(kind, layers, range, state.strongest, chosen ? 0.02 : 0.05);
    const drawn = chosen ? lines.filter(own) : [...lines.filter(line => !own(line)).slice(-2500), ...lines.filter(own)];
    for (const line of drawn.slice(-4000)) {
      const [q, k, strength, color] = line, share = Math.min(1, Math.abs(strength));
      context.strokeStyle = color || shades.css(strength < 0 ? -0.72 : 0.72);
      context.globalAlpha = (0.1 + 0.9 * share) * (chosen || own(line) ? 1 : 0.6);
      context.lineWidth = 0.8 + 3.2 * share;
      context.beginPath();
      context.moveTo(0, y(q - range.q0));
      context.bezierCurveTo(this.middle * 0.4, y(q - range.q0), this.middle * 0.6, y(k - range.k0), this.middle, y(k - range.k0));
      context.stroke();
    }
    const { values, full } = layers[0];
    const shadeTokens = (selector, value, marked) => this.strands.querySelectorAll(selector).forEach((token, i) => {
      const share = Math.max(-1, Math.min(1, value(i) / full));
      token.style.background = Math.abs(share) > 0.02 ? shades.css(share) : "";
      token.style.color = Math.abs(share) > 0.02 ? shades.ink(share) : "";
      token.classList.toggle("marked", i === marked);
    });
    shadeTokens(".token.query", i => query < 0 && key >= 0 ? values[(range.q0 + i) * columns + key] : 0, query - range.q0);
    shadeTokens(".token.key", i => query >= 0 ? values[query * columns + range.k0 + i] : 0, key < 0 ? -1 : key - range.k0);
  }

  /// From a token to the one above, below, or on the other side.
  nextToken(event) {
    const turn = { ArrowRight: 0, ArrowLeft: 0, ArrowDown: 1, ArrowUp: -1 }[event.key], token = event.target.closest(".token");
    if (turn === undefined || !token) return;
    event.preventDefault();
    const asks = token.classList.contains("query"), own = [...this.strands.querySelectorAll(asks ? ".token.query" : ".token.key")], other = this.strands.querySelectorAll(asks ? ".token.key" : ".token.query");
    const at = own.indexOf(token), to = turn ? own[at + turn] : other[Math.min(at, other.length - 1)];
    if (to) to.focus();
  }

  async figure() {
    const { panel } = this, { kind, range, viewer } = panel;
    return { draw: linesFigure, kind, layers: await this.lineLayers(false), strongest: viewer.state.strongest, range, query: viewer.state.pin ? panel.query : -1, key: viewer.state.pin ? panel.key : -1 };
  }
}

registerView({
  name: "lines", title: () => "Lines", help: "Tokens that look on the left, those that are looked at on the right; a stronger line is a larger weight.", fits: () => true, legend: false,
  lead: () => "A line goes from a token that looks (left) to one that it looks at (right).",
  make: (box, panel) => new Lines(box, panel),
});
