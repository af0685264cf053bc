// The matrix: a row for each query, a column for each key; along the time of a recording also a spectrogram. It fills the room there is. A
// drag over it zooms into the rows and columns under it.

/// Of the first `shown` of the columns, the largest weight in each of fewer, so that none is lost where they are narrow.
function narrowed(values, rows, columns, shown, pixels) {
  const result = new Float32Array(rows * pixels);
  for (let r = 0; r < rows; ++r) for (let x = 0; x < pixels; ++x) {
    const first = Math.floor(x * shown / pixels), end = Math.max(first + 1, Math.floor((x + 1) * shown / pixels));
    for (let k = first; k < end; ++k) if (Math.abs(values[r * columns + k]) > Math.abs(result[r * pixels + x])) result[r * pixels + x] = values[r * columns + k];
  }
  return result;
}

/// A part of a matrix [rows, columns].
function partOf(values, columns, { q0, q1, k0, k1 }) {
  if (!values || (q0 === 0 && k0 === 0 && k1 === columns && q1 * columns === values.length)) return values;
  const part = new values.constructor((q1 - q0) * (k1 - k0));
  for (let q = q0; q < q1; ++q) part.set(values.subarray(q * columns + k0, q * columns + k1), (q - q0) * (k1 - k0));
  return part;
}

/// Diagonal lines, for cells that cannot be attended to.
function hatching(context) {
  const tile = document.createElement("canvas"), ratio = window.devicePixelRatio || 1, size = Math.round(6 * ratio);
  tile.width = tile.height = size;
  const draw = tile.getContext("2d");
  draw.strokeStyle = style("--hatch"); draw.lineWidth = ratio;
  draw.beginPath();
  for (const x of [-size, 0, size]) { draw.moveTo(x, size); draw.lineTo(x + size, 0); }
  draw.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}
/// Calls with each row's runs of blocked cells without weight: (row, first column, their number).
function blockedRuns(blocked, values, rows, columns, call) {
  for (let row = 0; row < rows; ++row) for (let at = 0; at < columns; ++at) {
    const from = at, cell = row * columns;
    while (at < columns && blocked[cell + at] && !values[cell + at]) ++at;
    if (at > from) call(row, from, at - from);
  }
}

const widths = (kind, from, to, asks) => {
  const tokens = asks ? kind.queries : kind.keys;
  if (from === 0 && to === tokens.length) return (kind.wide || (kind.wide = { queries: widest(kind.queries, 10, 200) / 10, keys: widest(kind.keys, 10, 200) / 10 }))[asks ? "queries" : "keys"];
  return widest(tokens.slice(from, to), 10, 200) / 10;
};

class Matrix {
  constructor(box, panel) {
    Object.assign(this, { box, panel, shape: null, drag: null });
    this.map = element("canvas", null, { class: "map", role: "img" });
    this.over = element("canvas", null, { class: "over", tabindex: 0, role: "application", "aria-roledescription": "matrix of cells",
      "aria-label": "Cells: the arrow keys go from cell to cell, Home and End along the row, Enter pins or lets go, plus and minus zoom" });
    box.append(this.map, this.over);
    this.listen();
  }

  /// Along time, a row has a height of its own, the columns take the room, and the spectrogram stands above them.
  measureTime(kind, room, time) {
    const size = 12, left = Math.min(130, widths(kind, 0, kind.queries.length, true) * size) + 12, row = kind.queries.length > 60 ? 13 : 18, above = 78;
    const cell = Math.max(120, room.width - left - 8) / time.image.columns;
    this.shape = { cell, row, size, every: 1, left, above, rows: kind.queries.length, columns: time.image.columns, q0: 0, k0: 0, width: left + time.image.columns * cell + 8, height: above + kind.queries.length * row + 22, time };
  }
  /// Panels whose texts are of about one length have cells of one size, and their rows on one line.
  measure() {
    const { panel } = this, sizes = panel.viewer.panels.filter(one => one.kind).map(one => ({ kind: one.kind, ...one.range })), here = panel.range, near = (a, b) => a < 1.5 * b && b < 1.5 * a;
    const shown = sizes.filter(one => near(one.q1 - one.q0, here.q1 - here.q0) && near(one.k1 - one.k0, here.k1 - here.k0));
    const most = of => Math.max(...shown.map(of)), rows = most(one => one.q1 - one.q0), columns = most(one => one.k1 - one.k0);
    const longest = { queries: most(one => widths(one.kind, one.q0, one.q1, true)), keys: most(one => widths(one.kind, one.k0, one.k1, false)) };
    const { width: room, height: tall } = panel.room, narrow = room < 420;
    let cell = 76, size, left, above, right;
    for (; ; cell = cell > 24 ? cell - 1 : cell > 8 ? cell - 0.5 : cell - 0.125) {
      size = Math.max(11, Math.min(14, cell * 0.6));
      left = Math.min(narrow ? 84 : 132, longest.queries * size * 1.1) + 12;
      const label = Math.min(narrow ? 76 : 112, longest.keys * size);
      above = label * 0.87 + 14; right = Math.max(4, label * 0.5 + 8 - cell / 2);
      if (left + columns * cell + right <= room && above + rows * cell + 4 <= tall || cell <= 0.25) break;
    }
    const own = panel.range, every = Math.max(1, Math.ceil((size + (cell < 8 ? 6 : 2)) / cell));
    this.shape = { cell, row: cell, size, every, left, above, rows: own.q1 - own.q0, columns: own.k1 - own.k0, q0: own.q0, k0: own.k0, width: left + (own.k1 - own.k0) * cell + right, height: above + (own.q1 - own.q0) * cell + 4 };
  }

  draw() {
    const { panel } = this, { kind, values, full, range, format, viewer } = panel, { shades } = viewer, time = viewer.alongTime(kind);
    if (time) this.measureTime(kind, panel.room, time);
    else this.measure();
    const { cell, row, left, above, rows, columns, every, width, height } = this.shape, small = document.createElement("canvas"), context = sized(this.map, width, height);
    const pixels = time ? Math.round(columns * cell) : columns, shown = time ? narrowed(values, rows, kind.keys.length, columns, pixels) : partOf(values, kind.keys.length, range);
    const blocked = !time && panel.blocked ? partOf(panel.blocked, kind.keys.length, range) : null;
    paint(small, shown, rows, pixels, full, time ? Infinity : Math.max(64, Math.floor(Math.max(columns * cell, rows * row) * (window.devicePixelRatio || 1))), shades, blocked);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, left, above, columns * cell, rows * row);
    if (blocked) {
      context.fillStyle = style("--paper");
      const runs = [];
      blockedRuns(blocked, shown, rows, columns, (...run) => runs.push(run));
      const cover = () => { for (const [at, from, count] of runs) context.fillRect(left + from * cell, above + at * row, count * cell, row); };
      cover();
      context.fillStyle = hatching(context);
      cover();
    }
    if (cell >= 14 && !time) {
      context.strokeStyle = style("--paper"); context.lineWidth = 1;
      context.beginPath();
      for (let i = 1; i < columns; ++i) { context.moveTo(left + i * cell, above); context.lineTo(left + i * cell, above + rows * row); }
      for (let i = 1; i < rows; ++i) { context.moveTo(left, above + i * row); context.lineTo(left + columns * cell, above + i * row); }
      context.stroke();
    }
    this.numbers(context, shown, blocked);
    context.strokeStyle = style("--line"); context.lineWidth = 1;
    context.strokeRect(left - 0.5, above - 0.5, columns * cell + 1, rows * row + 1);
    for (let i = 0; i < rows; i += every) this.label(context, kind.queries[range.q0 + i], i, false, style("--ink"));
    if (time) this.drawTime(context);
    else for (let i = 0; i < columns; i += every) this.label(context, kind.keys[range.k0 + i], i, true, style("--ink"));
    this.map.setAttribute("aria-label", viewer.title + ": " + rows + " queries by " + columns + " keys; the numbers are below, as text");
  }
  /// In cells that have room for them.
  numbers(context, shown, blocked) {
    const { cell, left, above, columns, time } = this.shape, { full, format, viewer } = this.panel;
    const size = Math.min(14, Math.max(9, cell * 0.36));
    context.font = font(size); context.textAlign = "center"; context.textBaseline = "middle";
    if (time || context.measureText(format(-full)).width + 3 > cell && context.measureText(format(full)).width + 3 > cell) return;
    for (let i = 0; i < shown.length; ++i) {
      const share = shown[i] / full;
      if (Math.abs(share) < 0.02 || blocked && blocked[i] && !shown[i]) continue;
      context.fillStyle = viewer.shades.ink(share);
      context.fillText(format(shown[i]), left + (i % columns + 0.5) * cell, above + (Math.floor(i / columns) + 0.5) * cell + 0.5);
    }
  }
  /// The spectrogram, the seconds, and a box around each word's time in the rows of its tokens.
  drawTime(context) {
    const { time, left, above, row, columns, cell, height } = this.shape, width = columns * cell, at = seconds => left + Math.max(0, Math.min(1, (seconds - time.start) / time.seconds)) * width;
    context.imageSmoothingEnabled = true;
    context.drawImage(time.image.picture, left, 6, width, above - 12);
    context.strokeStyle = style("--line");
    context.strokeRect(left - 0.5, 5.5, width + 1, above - 11);
    context.font = font(11); context.fillStyle = style("--soft"); context.textAlign = "center"; context.textBaseline = "alphabetic";
    const least = Math.max(1e-3, time.seconds * 60 / width), tens = 10 ** Math.floor(Math.log10(least)), every = [1, 2, 5, 10].map(f => f * tens).find(step => step >= least);
    for (let n = Math.ceil(time.start / every - 1e-6); n * every <= time.start + time.seconds; ++n) {
      const x = at(n * every), text = +(n * every).toFixed(3) + " s", half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(left + half, Math.min(left + width - half, x)), height - 6);
      context.fillRect(x, height - 20, 1, 4);
    }
    context.strokeStyle = style("--accent"); context.lineWidth = 1;
    for (const word of time.words) if (word.start !== null) context.strokeRect(at(word.start), above + word.first * row + 0.5, Math.max(1, at(word.end) - at(word.start)), word.count * row - 1);
  }
  /// `index` counts from the first that is shown.
  label(context, token, index, isKey, color, strong) {
    const { cell, row, left, above, size } = this.shape, half = (index + 0.5) * (isKey ? cell : row);
    context.save();
    context.font = (strong ? "600 " : "") + font(size); context.textBaseline = "middle";
    if (isKey) { context.textAlign = "left"; context.translate(left + half, above - 6); context.rotate(-Math.PI / 3); }
    else { context.textAlign = "right"; context.translate(left - 5, above + half); }
    const text = fit(context, token, isKey ? 116 : left - 6), width = context.measureText(text).width;
    if (strong) { context.fillStyle = style("--paper"); context.fillRect(isKey ? -2 : -width - 2, -size * 0.65, width + 4, size * 1.3); }
    context.fillStyle = color;
    context.fillText(text, 0, 0);
    context.restore();
  }
  follow() {
    const { kind, query, key, viewer } = this.panel, { cell, row, left, above, rows, columns, q0, k0, width, height, time } = this.shape, q = query - q0, k = key - k0;
    // In print, a canvas over another one would hide it.
    const context = document.documentElement.classList.contains("light") ? this.map.getContext("2d") : sized(this.over, width, height);
    const room = cell < 6 ? 1.5 : 0, roomy = row < 6 ? 1.5 : 0, pinned = !!viewer.state.pin;
    context.strokeStyle = style("--accent"); context.lineWidth = pinned ? 2 : 1.25;
    if (q >= 0 && q < rows) context.strokeRect(left, above + q * row - roomy, columns * cell, row + 2 * roomy);
    if (k >= 0 && k < columns) context.strokeRect(left + k * cell - room, above, cell + 2 * room, rows * row);
    if (q >= 0 && q < rows) this.label(context, kind.queries[query], q, false, style("--accent"), true);
    if (k >= 0 && k < columns && !time) this.label(context, kind.keys[key], k, true, style("--accent"), true);
    if (this.drag && this.drag.to) {
      const [[a, b], [c, d]] = [this.drag.from, this.drag.to];
      context.fillStyle = style("--brush");
      context.fillRect(Math.min(a, c), Math.min(b, d), Math.abs(c - a), Math.abs(d - b));
      context.strokeRect(Math.min(a, c), Math.min(b, d), Math.abs(c - a), Math.abs(d - b));
    }
  }

  cellAt(event) { return this.cellOf(event.offsetX, event.offsetY); }
  cellOf(x, y) {
    const { above, left, row, cell, rows, columns, q0, k0 } = this.shape, query = Math.floor((y - above) / row), key = Math.floor((x - left) / cell);
    return [query >= 0 && query < rows ? q0 + query : -1, key >= 0 && key < columns ? k0 + key : -1];
  }
  /// The cell that a key leads to from a cell, or null.
  cellAfter(query, key, name) {
    const { rows, columns, q0, k0 } = this.shape, within = (value, first, count) => Math.max(first, Math.min(first + count - 1, value));
    const turn = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -columns], End: [0, columns], PageUp: [-10, 0], PageDown: [10, 0] }[name];
    if (!turn) return null;
    return [within(Math.max(q0, query) + turn[0], q0, rows), within(key < 0 ? turn[1] > 1 ? k0 + columns : k0 : key + turn[1], k0, columns)];
  }

  listen() {
    const { panel, over } = this, { viewer } = panel;
    over.onpointermove = event => {
      const { drag } = this;
      if (!drag || event.pointerType === "touch") { viewer.follow(...this.cellAt(event)); return; }
      if (!drag.to && Math.hypot(event.offsetX - drag.from[0], event.offsetY - drag.from[1]) < 6) return;
      drag.to = [event.offsetX, event.offsetY];
      this.follow();
    };
    over.onpointerleave = () => { if (!this.drag) viewer.follow(-1, -1); };
    over.onpointerdown = event => {
      if (event.button || event.pointerType === "touch" || this.shape.time) return;
      this.drag = { from: [event.offsetX, event.offsetY], to: null };
      over.setPointerCapture(event.pointerId);
    };
    over.onpointercancel = () => { this.drag = null; this.follow(); };
    over.onclick = event => {
      const { drag } = this;
      this.drag = null;
      if (drag && drag.to) { this.brush(drag.from, drag.to); return; }
      const [query, key] = this.cellAt(event);
      if (query >= 0 || key >= 0) viewer.hold(query, key);
    };
    over.ondblclick = () => viewer.zoom(null);
    over.onkeydown = event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const to = this.cellAfter(panel.query, panel.key, event.key), acts = { "+": 1, "-": -1, "=": 1 }[event.key];
      if (to) viewer.hold(...to, true);
      if (acts && !this.shape.time) viewer.zoomBy(acts);
      if (event.key === "Enter" || event.key === " ") viewer.hold(panel.query, panel.key);
      if (to || acts || event.key === "Enter" || event.key === " ") event.preventDefault();
    };
  }
  brush(from, to) {
    const { rows, columns, q0, k0, left, above, row, cell } = this.shape, ends = (a, b, first, size, start, count) => [Math.max(0, Math.floor((Math.min(a, b) - first) / size)), Math.min(count, Math.ceil((Math.max(a, b) - first) / size))].map(at => start + at);
    const [qa, qb] = ends(from[1], to[1], above, row, q0, rows), [ka, kb] = ends(from[0], to[0], left, cell, k0, columns);
    if (qb - qa >= 1 && kb - ka >= 1 && (qb - qa < rows || kb - ka < columns)) this.panel.viewer.zoom([qa, qb, ka, kb]);
    else this.follow();
  }
  figure() {
    const { kind, values, blocked, range } = this.panel, columns = kind.keys.length;
    return { draw: matrixFigure, kind: { ...kind, queries: kind.queries.slice(range.q0, range.q1), keys: kind.keys.slice(range.k0, range.k1) }, values: partOf(values, columns, range), blocked: blocked && partOf(blocked, columns, range) };
  }
}

registerView({ name: "matrix", title: () => "Matrix", help: "A row for each token that looks, a column for each that is looked at; a drag zooms in.", fits: () => true, legend: true, make: (box, panel) => new Matrix(box, panel) });
