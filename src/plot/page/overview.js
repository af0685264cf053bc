// All maps at a glance, layers by heads: as large as there is room for, drawn one after another, those in view first, and none while the
// large map waits. Where thumbnails would be small, the heads of a layer go on in the next line.
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

  get panel() { return this.viewer.panels[this.viewer.overviewOf]; }
  get data() { return this.panel.data; }

  async drawWaiting() {
    if (this.working) return;
    this.working = true;
    try {
      while (this.waiting.size) {
        let drawn;
        do await (drawn = this.viewer.drawn); while (drawn !== this.viewer.drawn);
        const begin = performance.now();
        do {  // several a frame, as the browser paints all of them after each; few, as another large map waits for them
          const next = [];
          for (const canvas of this.waiting) if (next.length < 4) { next.push(canvas); this.waiting.delete(canvas); } else break;
          await Promise.all(next.filter(canvas => canvas.isConnected).map(canvas => this.drawOne(canvas).catch(() => {})));  // the large map says what is wrong
        } while (this.waiting.size && performance.now() - begin < 16);
        await new Promise(next => setTimeout(next, 0));
      }
    } finally { this.working = false; }
  }
  async drawOne(canvas) {
    const { viewer } = this, { layer, head, kind, data } = canvas.of, values = await data.values(kind, viewer.state.measure, layer, head), blocked = data.blocked(kind, layer);
    const { state } = viewer, { image } = data, pictures = state.view === "picture" && image, query = this.panel.kind ? this.panel.query : -1;
    const full = state.scale !== "all" ? viewer.fullColor(kind, values, query) : pictures ? data.largestOver(kind, state.measure, head) : data.largest(kind, state.measure, head);
    if (pictures) {  // as densely as the large picture has them
      const parts = partsOf(kind, values, query, image).map(value => Math.sign(value) * Math.sqrt(Math.abs(value / full)));
      paint(canvas, parts, image.rows, image.columns, 1, 64, viewer.shades);
    } else {
      const time = viewer.alongTime(kind), rows = kind.queries.length, shown = time ? narrowed(values, rows, kind.keys.length, time.image.columns, 64) : values;
      const pixels = Math.max(16, Math.floor(Math.max(parseFloat(canvas.style.width), parseFloat(canvas.style.height)) * (window.devicePixelRatio || 1)));  // no more than are shown
      paint(canvas, shown, rows, time ? 64 : kind.keys.length, full, pixels, viewer.shades, time ? null : blocked);
    }
    canvas.drawn = true;
  }

  /// Draws anew what depends on the chosen query: over an image, all that was drawn; of texts, the mark of the row.
  follow() {
    if (this.following) return;
    this.following = requestAnimationFrame(() => {
      this.following = 0;
      if (!this.panel || !this.panel.kind) return;
      const pictures = this.viewer.state.view === "picture", { kind, query } = this.panel;
      for (const { firstChild: canvas, lastChild: mark } of this.buttons.values()) {
        if (pictures && canvas.drawn) this.drawOne(canvas).catch(() => {});
        mark.hidden = pictures || query < 0 || kind.queries.length < 2;
        mark.style.top = (query + 0.5) / kind.queries.length * parseFloat(canvas.style.height) + "px";
      }
    });
  }

  /// Width, height and number in a line of thumbnails, so that they are as large as the box is.
  sizes(kind, pictures) {
    const { viewer, data, box } = this, heads = kind.columns.length, layers = kind.layers.length;
    const aspect = pictures ? data.image.picture.height / data.image.picture.width : viewer.alongTime(kind) ? 0.4 : kind.queries.length / kind.keys.length, tall = Math.max(0.3, Math.min(3, aspect));
    const width = box.clientWidth - 30, height = viewer.wide ? Math.max(200, window.innerHeight - (box.getBoundingClientRect().top + window.scrollY) - 24) : 0.7 * window.innerHeight, gap = 4;
    const most = Math.max(96, Math.min(220, 1600 / (heads * layers)));  // on a large screen, many small ones are seen at once
    let best = null;
    for (let lines = 1; lines <= heads; ++lines) {
      const across = Math.ceil(heads / lines), caption = lines > 1 ? 16 : 0, size = Math.floor(Math.min(width / across - gap, (height - 24) / layers / lines / tall - gap - caption, most / Math.max(1, tall)));
      if (!best || size > 1.15 * best.width) best = { width: size, across };
    }
    best.width = Math.max(heads > 40 ? 12 : 16, best.width);
    best.across = Math.max(best.across, Math.min(heads, Math.floor(width / (best.width + gap))));  // where the height limits them, more fit
    return { ...best, height: Math.max(8, Math.round(best.width * tall)) };
  }

  /// The same grid for other numbers: what is drawn stays until it is drawn anew.
  refill(data, kind) {
    const { viewer } = this;
    for (const { firstChild: canvas, classList } of this.buttons.values()) {
      const { layer, head } = canvas.of;
      canvas.of = { layer, head, kind, data };
      classList.toggle("changed", !!viewer.options.changed && viewer.options.changed(kind.kind, layer, head));
      this.seen.unobserve(canvas);
      this.seen.observe(canvas);
    }
    this.mark();
    this.follow();
  }
  build() {
    const before = this.buttons, { viewer, data } = this, { measure, pattern } = viewer.state, kind = data.kinds.find(one => one.kind === viewer.kind.kind);
    this.waiting.clear();
    this.box.hidden = !kind || kind.maps.length === 1;
    document.querySelector("main").classList.toggle("alone", this.box.hidden);
    if (this.box.hidden) {
      this.shape = "";
      this.buttons = new Map();
      return;
    }
    const pictures = viewer.state.view === "picture" && !!data.image, size = this.sizes(kind, pictures), wrapped = size.across < kind.columns.length;
    const there = kind.layers.map(layer => kind.columns.map(head => data.has(kind, measure, layer, head))), shape = JSON.stringify([kind.kind, kind.layers, kind.columns, there, size, pictures, pattern]);
    if (shape === this.shape && !pattern) { this.refill(data, kind); return; }
    this.shape = shape;
    this.buttons = new Map();
    const strongest = pattern ? Math.max(...kind.maps.map(m => m.scores && m.scores[pattern] || 0)) : 0, grid = element("div", null, { class: "grid" + (wrapped ? " wrapped" : "") });
    grid.style.setProperty("--thumb", size.width + "px");
    const column = head => {  // above or below its thumbnails: its first letter where there is no room for a word
      const word = typeof head === "string", tiny = word && size.width < 44;
      return element("span", word && size.width < 34 ? head[0] : head, { class: "over-column" + (tiny ? " tiny" : ""), title: head === "rollout" ? "rollout: what reaches a token through all layers so far" : headName(head, kind) });
    };
    const line = (name, heads) => {
      const row = element("div", null, { class: "layer" }), thumbs = element("div", null, { class: "thumbs" });
      thumbs.style.gridTemplateColumns = "repeat(" + size.across + ", " + (size.width + 2) + "px)";
      thumbs.append(...heads);
      row.append(element("span", name, { class: "number" }), thumbs);
      return row;
    };
    if (!wrapped && size.width >= 16) grid.append(line("", kind.columns.map(column)));
    for (const layer of kind.layers) {
      grid.append(line(layer, kind.columns.map(head => {
        const cell = element("div", null, { class: head === "mean" ? "apart" : "" });
        if (data.has(kind, measure, layer, head)) cell.append(this.button(data, kind, layer, head, pattern, strongest, size));
        if (wrapped) cell.append(column(head));
        return cell;
      })));
    }
    for (const [name, button] of this.buttons) {  // until it is drawn anew, a map has its old picture
      const old = before.get(name) && before.get(name).firstChild, canvas = button.firstChild;
      if (!old || !old.drawn) continue;
      Object.assign(canvas, { width: old.width, height: old.height });
      canvas.getContext("2d").drawImage(old, 0, 0);
    }
    const focused = this.box.contains(document.activeElement), { scrollTop, scrollLeft } = this.box;
    this.box.replaceChildren(grid);
    Object.assign(this.box, { scrollTop, scrollLeft });
    this.chosen = null;
    this.mark();
    this.follow();
    if (focused) this.focus();
  }
  button(data, kind, layer, head, pattern, strongest, { width, height }) {
    const map = data.find(kind, "weights", layer, head), score = map && map.scores && map.scores[pattern];
    const title = "layer " + layer + ", " + headName(head, kind) + (pattern && score !== undefined ? ", " + patterns[pattern] + " " + number(score) : "");
    const button = element("button", null, { type: "button", title, "aria-label": title, "aria-pressed": false, tabindex: -1 }), canvas = element("canvas", null);
    canvas.style.width = width + "px"; canvas.style.height = height + "px";
    canvas.of = { layer, head, kind, data };
    button.classList.toggle("faint", !!pattern && !(score > 0.6 * strongest));
    if (this.viewer.options.changed && this.viewer.options.changed(kind.kind, layer, head)) button.classList.add("changed");
    button.append(canvas, element("i", null, { class: "row-mark", hidden: "" }));
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
