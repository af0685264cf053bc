// All heads as lines at once, layers by heads: queries on the left, keys on the right of each picture (the model view of BertViz).
class ModelLinesView extends Look {
  constructor(box, panel) {
    super(box, panel);
    this.pairs = "";
    this.filter = element("select", null, { class: "lines-pairs" });
    this.filterLabel = labelled("Lines", this.filter, "Of a pair of texts, the lines from one of them to the other, or within one.");
    this.note = element("p", "", { class: "note" });
    this.scroll = element("div", null, { class: "lines-scroll", "data-own-arrows": "" });
    const bar = element("p", null, { class: "row" });
    bar.append(this.filterLabel);
    this.box.append(this.note, bar, this.scroll);
    describe(this.box);
    this.filter.onchange = () => { this.pairs = this.filter.value; this.draw(); };
    this.seen = new IntersectionObserver(entries => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) { this.seen.unobserve(target); this.drawOne(target); }
    }, { rootMargin: "150px" });
  }
  refuse(text) {
    this.note.textContent = text;
    this.scroll.replaceChildren();
  }
  /// Of a pair of texts, which each token is of: 0 or 1; null for a single text. The first separator ends the first.
  static sides(tokens) {
    const ends = [...tokens.keys()].filter(i => /^(\[SEP\]|<\/s>|<sep>)$/.test(tokens[i]));
    return ends.length < 2 || ends[0] === tokens.length - 1 || ends[0] + 1 === ends[ends.length - 1] ? null : tokens.map((_, i) => i <= ends[0] ? 0 : 1);
  }
  async draw() {
    const { data, kind } = this.panel;
    if (!kind) { this.refuse("There is no such attention here."); return; }
    const sides = kind.kind === "encoder" && data.kinds.length === 1 && !data.image ? ModelLinesView.sides(kind.queries) : null;
    this.filterLabel.hidden = !sides;
    if (!sides) this.pairs = "";
    option(this.filter, [["", "all"], ["01", "from the first text to the second (A → B)"], ["10", "from the second to the first (B → A)"], ["00", "within the first (A → A)"], ["11", "within the second (B → B)"]], this.pairs);
    this.note.textContent = kind.queries.length > 40 ? "With so many tokens, only weights above 0.1 have a line." : "";
    this.note.hidden = !this.note.textContent;
    const about = [kind.kind, this.pairs, this.panel.room.width, isDark()].join();
    if (about !== this.shown || data !== this.of) this.build(data, kind, sides);
    Object.assign(this, { shown: about, of: data });
    this.mark();
  }
  follow() {}
  build(data, kind, sides) {
    const heads = kind.heads, rows = Math.max(kind.queries.length, kind.keys.length), width = Math.max(44, Math.min(150, (this.panel.room.width - 46) / heads.length - 6)), height = Math.max(44, Math.min(170, rows * 9, 2.2 * width));
    const table = element("table", null), top = element("tr", null);
    this.seen.disconnect();
    this.buttons = new Map();
    top.append(element("td", ""), ...heads.map(head => element("th", head, { scope: "col" })));
    table.append(top);
    for (const layer of kind.layers) {
      const row = element("tr", null);
      row.append(element("th", layer, { scope: "row", "aria-label": "layer " + layer }));
      for (const head of heads) {
        const cell = element("td", null);
        if (data.has(kind, "weights", layer, head)) {
          const button = element("button", null, { title: "layer " + layer + ", head " + head, "aria-label": "layer " + layer + ", head " + head, tabindex: this.buttons.size ? -1 : 0 }), canvas = element("canvas", null);
          canvas.style.width = width + "px"; canvas.style.height = height + "px";
          Object.assign(canvas, { of: { data, kind, layer, head, sides, pairs: this.pairs, width, height } });
          Object.assign(button, { layer, head });
          button.append(canvas);
          button.onclick = () => this.open(layer, head);
          this.buttons.set(layer + "." + head, button);
          this.seen.observe(canvas);
          cell.append(button);
        }
        row.append(cell);
      }
      table.append(row);
    }
    table.onkeydown = event => {
      const turn = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key], at = event.target;
      if (!turn || at.layer === undefined) return;
      event.preventDefault();
      const to = this.buttons.get(kind.layers[kind.layers.indexOf(at.layer) + turn[0]] + "." + heads[heads.indexOf(at.head) + turn[1]]);
      if (to) to.focus();
    };
    this.scroll.replaceChildren(table);
  }
  open(layer, head) {
    viewer.show({ layer, head, view: "lines", also: [] });
  }
  mark() {
    for (const [name, button] of this.buttons || []) button.classList.toggle("chosen", name === viewer.state.layer + "." + viewer.state.head);
  }
  async drawOne(canvas) {
    const { data, kind, layer, head, sides, pairs, width, height } = canvas.of;
    let values;
    try { values = await data.values(kind, "weights", layer, head); } catch { return; }  // the large map says what is wrong
    const context = sized(canvas, width, height), queries = kind.queries.length, keys = kind.keys.length, y = (i, count) => 3 + (height - 6) * (count === 1 ? 0.5 : i / (count - 1)), least = queries > 40 ? 0.1 : 0.02;
    const lines = [];
    for (let q = 0; q < queries; ++q) for (let k = 0; k < keys; ++k) {
      const weight = values[q * keys + k];
      if (weight > least && (!pairs || (sides[q] === +pairs[0] && sides[k] === +pairs[1]))) lines.push([weight, q, k]);
    }
    context.strokeStyle = viewer.shades.css(0.8);
    for (const [weight, q, k] of lines.sort((a, b) => a[0] - b[0]).slice(-1500)) {
      context.globalAlpha = Math.min(1, 0.05 + weight);
      context.lineWidth = 0.5 + 1.3 * weight;
      context.beginPath();
      context.moveTo(3, y(q, queries));
      context.lineTo(width - 3, y(k, keys));
      context.stroke();
    }
    canvas.drawn = true;
  }
}

registerView({
  name: "all-lines", title: () => "All heads", help: "Every head as a small picture of lines from queries to keys, layers by heads.", wide: true, whole: true, legend: false,
  fits: viewer => viewer.kind.maps.length > 1,
  lead: () => "Each picture is a head: queries on the left, keys on the right, a line from each query to what it attends to. A click opens it.",
  make: (box, panel) => new ModelLinesView(box, panel),
});
