// All maps at a glance, layers by heads: drawn one after another, those in view first, and none while the large map waits.
class Overview {
  constructor(viewer) {
    this.viewer = viewer;
    this.following = 0;
    this.box = $("overview");
    this.waiting = new Set();
    this.working = false;
    this.buttons = new Map();
    this.chosen = null;
    this.seen = new IntersectionObserver(entries => {
      for (const entry of entries) if (entry.isIntersecting) { this.seen.unobserve(entry.target); this.waiting.add(entry.target); }
      setTimeout(() => this.drawWaiting(), 30);
    }, { rootMargin: "100px" });
  }

  get data() { return this.viewer.panels[this.viewer.overviewOf].data; }

  async drawWaiting() {
    if (this.working) return;
    this.working = true;
    try {
      while (this.waiting.size) {
        let drawn;
        do await (drawn = this.viewer.drawn); while (drawn !== this.viewer.drawn);
        const next = [...this.waiting].slice(0, 3);
        for (const canvas of next) this.waiting.delete(canvas);
        await Promise.all(next.filter(canvas => canvas.isConnected).map(canvas => this.drawOne(canvas).catch(() => {})));  // the large map says what is wrong
        await new Promise(next => setTimeout(next, 0));
      }
    } finally { this.working = false; }
  }
  async drawOne(canvas) {
    const { viewer } = this, { layer, head, kind, data } = canvas.of, values = await data.values(kind, viewer.state.measure, layer, head);
    const { state } = viewer, { image } = data, pictures = state.view === "picture" && image;
    const full = state.scale !== "all" ? viewer.fullColor(kind, values) : pictures ? data.largestOver(kind, state.measure, head) : data.largest(kind, state.measure, head);
    if (pictures) {  // as densely as the large picture has them
      const parts = partsOf(kind, values, state.query, image).map(value => Math.sign(value) * Math.sqrt(Math.abs(value / full)));
      paint(canvas, parts, image.rows, image.columns, 1, 64, viewer.shades);
    } else {
      const time = viewer.alongTime(kind), rows = kind.queries.length, shown = time ? narrowed(values, rows, kind.keys.length, time.image.columns, 64) : values;
      paint(canvas, shown, rows, time ? 64 : kind.keys.length, full, 64, viewer.shades);
    }
    canvas.drawn = true;
  }

  /// Draws anew what depends on the query that is followed: over an image, all that was drawn.
  follow() {
    if (this.viewer.state.view !== "picture" || this.following) return;
    this.following = requestAnimationFrame(() => {
      this.following = 0;
      for (const { firstChild: canvas } of this.buttons.values()) if (canvas.drawn) this.drawOne(canvas).catch(() => {});
    });
  }

  build() {
    const before = this.buttons, { viewer, data } = this, { measure } = viewer.state, kind = data.kinds.find(one => one.kind === viewer.kind.kind), table = element("table", null);
    this.waiting.clear();
    this.buttons = new Map();
    this.box.hidden = !kind || kind.maps.length === 1;
    if (!kind) return;
    const top = element("tr", null), { pattern } = viewer.state, columns = kind.columns.length + 1;
    const pictures = viewer.state.view === "picture" && !!data.image;
    const room = (window.innerWidth > 820 ? pictures ? 0.4 : viewer.options.overviewShare || 0.36 : 0.8) * window.innerWidth;
    const size = Math.max(window.innerWidth > 820 ? 16 : 22, Math.min(72, room / columns - 5)), aspect = pictures ? Math.max(0.5, data.image.picture.height / data.image.picture.width) : viewer.alongTime(kind) ? 0.4 : kind.queries.length / kind.keys.length;
    const width = Math.max(10, aspect > 1 ? size / aspect : size), height = Math.max(10, aspect > 1 ? size : size * aspect);
    top.append(element("td", ""), ...kind.columns.map(head => element("th", head, { scope: "col" })));
    table.append(top);
    const strongest = pattern ? Math.max(...kind.maps.map(m => m.scores && m.scores[pattern] || 0)) : 0;
    for (const layer of kind.layers) {
      const row = element("tr", null);
      row.append(element("th", layer, { scope: "row", "aria-label": "layer " + layer }));
      for (const head of kind.columns) {
        const cell = element("td", null, head === "mean" ? { class: "apart" } : {});
        if (data.has(kind, measure, layer, head)) cell.append(this.button(data, kind, layer, head, pattern, strongest, [width, height]));
        row.append(cell);
      }
      table.append(row);
    }
    for (const [name, button] of this.buttons) {  // until it is drawn anew, a map has its old picture
      const old = before.get(name) && before.get(name).firstChild, canvas = button.firstChild;
      if (!old || !old.drawn) continue;
      Object.assign(canvas, { width: old.width, height: old.height });
      canvas.getContext("2d").drawImage(old, 0, 0);
    }
    const focused = this.box.contains(document.activeElement);
    this.box.replaceChildren(table);
    this.chosen = null;
    this.mark();
    if (focused) this.focus();
  }
  button(data, kind, layer, head, pattern, strongest, [width, height]) {
    const map = data.find(kind, "weights", layer, head), score = map && map.scores && map.scores[pattern];
    const title = "layer " + layer + ", " + headName(head, kind) + (pattern && score !== undefined ? ", " + patterns[pattern] + " " + number(score) : "");
    const button = element("button", null, { title, "aria-label": title, "aria-pressed": false, tabindex: -1 }), canvas = element("canvas", null);
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
    canvas.of = { layer, head, kind, data };
    button.classList.toggle("faint", !!pattern && !(score > 0.6 * strongest));
    if (this.viewer.options.changed && this.viewer.options.changed(kind.kind, layer, head)) button.classList.add("changed");
    button.append(canvas);
    button.onclick = () => this.viewer.show({ layer, head });
    Object.assign(button.dataset, { layer, head });
    this.buttons.set(layer + "." + head, button);
    this.seen.observe(canvas);
    return button;
  }

  /// Marks what is shown: the one button that Tab stops at; the arrow keys change layer and head.
  mark() {
    const { layer, head } = this.viewer.state, button = this.buttons.get(layer + "." + head) || null;
    if (this.chosen === button) return;
    if (this.chosen) { this.chosen.setAttribute("aria-pressed", false); this.chosen.tabIndex = -1; }
    if (button) { button.setAttribute("aria-pressed", true); button.tabIndex = 0; }
    this.chosen = button;
  }
  focus() {
    if (this.chosen) this.chosen.focus();
  }
}
