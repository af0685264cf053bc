// The views of one map. Each has a box of its own, and gets what is shown and the map's numbers.

/// Of the first `shown` of the columns, the largest weight in each of fewer, so that none is lost where they are narrow.
function narrowed(values, rows, columns, shown, pixels) {
  const result = new Float32Array(rows * pixels);
  for (let r = 0; r < rows; ++r) for (let x = 0; x < pixels; ++x) {
    const first = Math.floor(x * shown / pixels), end = Math.max(first + 1, Math.floor((x + 1) * shown / pixels));
    for (let k = first; k < end; ++k) if (Math.abs(values[r * columns + k]) > Math.abs(result[r * pixels + x])) result[r * pixels + x] = values[r * columns + k];
  }
  return result;
}

// ---- the matrix
class Matrix {
  constructor(box) {
    this.box = box;
    this.map = box.querySelector(".map");
    this.over = box.querySelector(".over");
    this.shape = null;
  }
  /// Along time, a row has a height of its own, the columns take the room, and the spectrogram stands above them.
  measureTime(kind, room, time) {
    const size = 11, wide = kind.wide || (kind.wide = { queries: widest(kind.queries, 10, 200) / 10, keys: widest(kind.keys, 10, 200) / 10 });
    const left = Math.min(120, wide.queries * size) + 12, row = kind.queries.length > 60 ? 12 : 16, above = 78;
    const cell = Math.max(120, room - left - 8) / time.image.columns;
    this.shape = { cell, row, size, every: 1, left, above, columns: time.image.columns, width: left + time.image.columns * cell + 8, height: above + kind.queries.length * row + 22, time };
    return this.shape;
  }
  measure(kind, room) {
    const rows = kind.queries.length, columns = kind.keys.length, tall = Math.max(300, window.innerHeight - 300);
    let cell = 34, size, left, above, right, every;
    const wide = kind.wide || (kind.wide = { queries: widest(kind.queries, 10, 200) / 10, keys: widest(kind.keys, 10, 200) / 10 });
    for (; cell > 1; --cell) {
      size = Math.max(10, Math.min(13, cell * 0.62));
      every = Math.max(1, Math.ceil((size + (cell < 8 ? 7 : 2)) / cell));
      left = Math.min(120, wide.queries * size) + 12;
      const label = Math.min(100, wide.keys * size);
      above = label * 0.87 + 14; right = Math.max(6, label * 0.5 + 8 - cell / 2);
      if (left + columns * cell + right <= room && (above + rows * cell <= tall || cell <= 9)) break;
    }
    this.shape = { cell, row: cell, size, every, left, above, columns, width: left + columns * cell + right, height: above + rows * cell + 6 };
    return this.shape;
  }
  /// The spectrogram, the seconds, and a box around each word's time in the rows of its tokens.
  drawTime(context) {
    const { time, left, above, row, columns, cell, height } = this.shape, width = columns * cell, at = seconds => left + Math.max(0, Math.min(1, (seconds - time.start) / time.seconds)) * width;
    context.imageSmoothingEnabled = true;
    context.drawImage(time.image.picture, left, 6, width, above - 12);
    context.strokeStyle = style("--line");
    context.strokeRect(left - 0.5, 5.5, width + 1, above - 11);
    context.font = font(10); context.fillStyle = style("--soft"); context.textAlign = "center"; context.textBaseline = "alphabetic";
    const least = Math.max(1e-3, time.seconds * 60 / width), tens = 10 ** Math.floor(Math.log10(least)), every = [1, 2, 5, 10].map(f => f * tens).find(step => step >= least);
    for (let n = Math.ceil(time.start / every - 1e-6); n * every <= time.start + time.seconds; ++n) {
      const x = at(n * every), text = +(n * every).toFixed(3) + " s", half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(left + half, Math.min(left + width - half, x)), height - 6);
      context.fillRect(x, height - 20, 1, 4);
    }
    context.strokeStyle = style("--accent"); context.lineWidth = 1;
    for (const word of time.words) if (word.start !== null) context.strokeRect(at(word.start), above + word.first * row + 0.5, Math.max(1, at(word.end) - at(word.start)), word.count * row - 1);
  }
  /// `step`: the last query that is shown in full; `room`: pixels from left to right; `time`: the recording, if the columns are its time.
  draw(kind, values, full, shades, step, room, time) {
    const shape = time ? this.measureTime(kind, room, time) : this.measure(kind, room), { cell, row, left, above, columns } = shape, rows = kind.queries.length;
    const small = document.createElement("canvas"), context = sized(this.map, shape.width, shape.height);
    const pixels = time ? Math.round(columns * cell) : columns;
    paint(small, time ? narrowed(values, rows, kind.keys.length, columns, pixels) : values, rows, pixels, full, Infinity, shades);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, left, above, columns * cell, rows * row);
    if (cell >= 12 && !time) {
      context.strokeStyle = style("--paper");
      context.beginPath();
      for (let i = 1; i < columns; ++i) { context.moveTo(left + i * cell, above); context.lineTo(left + i * cell, above + rows * cell); }
      for (let i = 1; i < rows; ++i) { context.moveTo(left, above + i * cell); context.lineTo(left + columns * cell, above + i * cell); }
      context.stroke();
    }
    if (cell >= 28 && !time) {
      context.font = font(10); context.textAlign = "center"; context.textBaseline = "middle";
      for (let i = 0; i < values.length; ++i) {
        const share = values[i] / full;
        if (Math.abs(share) < 0.02 || Math.abs(values[i]) < 0.005) continue;
        context.fillStyle = shades.ink(share);
        context.fillText(shortNumber(values[i]), left + (i % columns + 0.5) * cell, above + (Math.floor(i / columns) + 0.5) * cell);
      }
    }
    if (step < rows - 1) {
      context.globalAlpha = 0.8; context.fillStyle = style("--paper");
      context.fillRect(left, above + (step + 1) * row, columns * cell, (rows - 1 - step) * row);
      context.globalAlpha = 1;
    }
    context.strokeStyle = style("--line");
    context.strokeRect(left - 0.5, above - 0.5, columns * cell + 1, rows * row + 1);
    for (let i = 0; i < rows; i += shape.every) this.label(context, kind.queries[i], i, false, style("--ink"));
    if (time) this.drawTime(context);
    else for (let i = 0; i < columns; i += shape.every) this.label(context, kind.keys[i], i, true, style("--ink"));
  }
  label(context, token, index, isKey, color, opaque) {
    const { cell, row, left, above, size } = this.shape, half = (index + 0.5) * (isKey ? cell : row);
    context.save();
    context.font = font(size); context.textBaseline = "middle";
    if (isKey) { context.textAlign = "left"; context.translate(left + half, above - 6); context.rotate(-Math.PI / 3); }
    else { context.textAlign = "right"; context.translate(left - 6, above + half); }
    const text = fit(context, token, isKey ? 100 : 120), width = context.measureText(text).width;
    if (opaque) { context.fillStyle = style("--paper"); context.fillRect(isKey ? -2 : -width - 2, -size * 0.65, width + 4, size * 1.3); }
    context.fillStyle = color;
    context.fillText(text, 0, 0);
    context.restore();
  }
  mark(kind, query, key) {
    const { cell, row, left, above, columns, width, height, every, time } = this.shape;
    // In print, a canvas over another one would hide it.
    const context = document.documentElement.classList.contains("light") ? this.map.getContext("2d") : sized(this.over, width, height);
    context.strokeStyle = style("--accent"); context.lineWidth = 1.5;
    const room = cell < 6 ? 1.5 : 0, roomy = row < 6 ? 1.5 : 0;
    if (query >= 0) context.strokeRect(left, above + query * row - roomy, columns * cell, row + 2 * roomy);
    if (key >= 0 && key < columns) context.strokeRect(left + key * cell - room, above, cell + 2 * room, kind.queries.length * row);
    if (query >= 0) this.label(context, kind.queries[query], query, false, style("--accent"), every > 1);
    if (key >= 0 && !time) this.label(context, kind.keys[key], key, true, style("--accent"), every > 1);
  }
  cellAt(kind, event) {
    const query = Math.floor((event.offsetY - this.shape.above) / this.shape.row), key = Math.floor((event.offsetX - this.shape.left) / this.shape.cell);
    return [query >= 0 && query < kind.queries.length ? query : -1, key >= 0 && key < this.shape.columns ? key : -1];
  }
  /// The cell that a key leads to from a cell, or null.
  cellAfter(kind, query, key, name) {
    const rows = kind.queries.length - 1, columns = this.shape.columns - 1, within = (value, most) => Math.max(0, Math.min(most, value));
    const turn = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -columns], End: [0, columns], PageUp: [-10, 0], PageDown: [10, 0] }[name];
    if (!turn) return null;
    if (query < 0 && key < 0) return [0, 0];
    return [within(Math.max(0, query) + turn[0], rows), within(Math.max(0, key) + turn[1], columns)];
  }
  /// Scrolls its box so that a cell is in view.
  reveal(query, key) {
    const { cell, row, left, above } = this.shape, x = left + key * cell, y = above + query * row, box = this.box;
    if (x < box.scrollLeft || x + cell > box.scrollLeft + box.clientWidth) box.scrollLeft = x - box.clientWidth / 2;
    if (y < box.scrollTop || y + row > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
  }
}

// ---- lines from token to token
/// The lines to draw, [query, key, strength, color], the weakest first: of the followed query or key, or of all, with at least a
/// share of the full color; `layers`: [{values, full, color}], one per head that is shown.
function chosenLines(kind, layers, query, key, step, strongest, least) {
  const columns = kind.keys.length, chosen = [];
  for (const { values, full, color } of layers) {
    for (let q = 0; q < kind.queries.length; ++q) {
      if (q > step || (query >= 0 && q !== query)) continue;
      let best = 0;
      if (strongest) for (let k = 1; k < columns; ++k) if (values[q * columns + k] > values[q * columns + best]) best = k;
      for (let k = 0; k < columns; ++k) {
        if ((query < 0 && key >= 0 && k !== key) || (strongest && k !== best)) continue;
        const strength = values[q * columns + k] / full;
        if (Math.abs(strength) > least) chosen.push([q, k, strength, color]);
      }
    }
  }
  return chosen.sort((a, b) => Math.abs(a[2]) - Math.abs(b[2]));
}

class Lines {
  constructor(box) {
    Object.assign(this, { row: 22, side: 150, middle: 150, top: 4 });
    this.box = box.querySelector(".strands");
    this.wires = box.querySelector(".wires");
  }
  build(kind, room, onFollow, onHold) {
    const rows = Math.max(kind.queries.length, kind.keys.length), box = this.box, size = rows > 60 ? 12 : 14;
    this.row = rows > 60 ? 17 : 22;
    this.side = Math.ceil(Math.max(50, Math.min(window.innerWidth < 820 ? 120 : 180, Math.max(widest(kind.queries, size, 180), widest(kind.keys, size, 180)) + 14)));
    this.middle = Math.max(70, Math.min(240, room - 2 * this.side - 10));
    for (const old of box.querySelectorAll(".token, .floor")) old.remove();
    const part = document.createDocumentFragment();
    const add = (token, index, asks) => {
      const one = element("button", token, { class: "token " + (asks ? "query" : "key"), tabindex: index ? -1 : 0, "aria-label": (asks ? "query " : "key ") + token });
      one.style.cssText = `left:${asks ? 0 : this.side + this.middle}px;width:${this.side}px;top:${this.top + index * this.row}px;height:${this.row}px;font-size:${size}px;line-height:${this.row}px`;
      one.onmouseenter = one.onfocus = () => onFollow(asks ? index : -1, asks ? -1 : index);
      one.onclick = () => onHold(asks ? index : -1, asks ? -1 : index);
      part.append(one);
    };
    kind.queries.forEach((t, i) => add(t, i, true));
    kind.keys.forEach((t, i) => add(t, i, false));
    const floor = element("div", "", { class: "floor" });
    floor.style.cssText = `height:${this.top + rows * this.row + 4}px;width:${2 * this.side + this.middle}px`;
    part.append(floor);
    box.append(part);
    this.wires.style.left = this.side + "px";
  }
  draw(kind, layers, shades, query, key, step, strongest) {
    const columns = kind.keys.length, rows = Math.max(kind.queries.length, columns);
    const context = sized(this.wires, this.middle, this.top + rows * this.row), y = i => this.top + (i + 0.5) * this.row;
    const chosen = chosenLines(kind, layers, query, key, step, strongest, query >= 0 || key >= 0 ? 0.02 : 0.06);
    for (const [q, k, strength, color] of chosen.slice(-2500)) {
      context.strokeStyle = color || shades.css(strength < 0 ? -0.72 : 0.72);
      context.globalAlpha = Math.min(1, 0.06 + Math.abs(strength));
      context.lineWidth = 0.8 + 2.6 * Math.min(1, Math.abs(strength));
      context.beginPath();
      context.moveTo(0, y(q));
      context.bezierCurveTo(this.middle * 0.4, y(q), this.middle * 0.6, y(k), this.middle, y(k));
      context.stroke();
    }
    const { values, full } = layers[0] || { values: [], full: 1 };
    const shadeTokens = (selector, value, marked) => this.box.querySelectorAll(selector).forEach((token, i) => {
      const share = Math.max(-1, Math.min(1, value(i) / full));
      token.style.background = Math.abs(share) > 0.02 ? shades.css(share) : "";
      token.style.color = Math.abs(share) > 0.02 ? shades.ink(share) : "";
      token.classList.toggle("marked", i === marked);
      if (selector === ".query") token.classList.toggle("later", i > step);
    });
    shadeTokens(".query", i => query < 0 && key >= 0 ? values[i * columns + key] : 0, query);
    shadeTokens(".key", i => query >= 0 ? values[query * columns + i] : 0, key);
  }
}

// ---- queries times keys, dimension by dimension
function drawNeurons(box, kind, vectors, query, key, shades) {
  if (!vectors) { box.replaceChildren(element("p", "Queries and keys are on a page for single heads of attention with them, where they fit (heed attend --vectors).")); return; }
  if (query < 0 || key < 0) { box.replaceChildren(element("p", "Choose a query and a key: click a cell of the matrix.")); return; }
  const { q, k, dims } = vectors, rows = [];
  let sum = 0;
  for (let d = 0; d < dims; ++d) { const a = q[query * dims + d], b = k[key * dims + d]; rows.push([d, a, b, a * b]); sum += a * b; }
  const most = column => Math.max(...rows.map(r => Math.abs(r[column]))) || 1, full = [1, most(1), most(2), most(3)];
  rows.sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
  const table = element("table", null), head = element("tr", null);
  for (const title of ["dim", "q: " + kind.queries[query], "k: " + kind.keys[key], "q · k"]) head.append(element("th", title), element("th", ""));
  table.append(head);
  for (const row of rows) {
    const line = element("tr", null);
    row.forEach((value, i) => {
      line.append(element("td", i ? number(value) : value));
      const cell = element("td", null, { class: i ? "swatch" : "" });
      if (i) { const bar = element("span", null, { class: "bar" }); bar.style.width = Math.round(64 * Math.abs(value) / full[i]) + "px"; bar.style.background = shades.css(0.6 * Math.sign(value)); cell.append(bar); }
      line.append(cell);
    });
    table.append(line);
  }
  box.replaceChildren(element("p", "q · k = " + number(sum) + ", before scale, position bias and mask; largest products first"), table);
}

// ---- attention over an image, or over the frames of a sound
/// Whether a picture without a query shows the mean over all: there is no class token before the parts.
const isMean = (kind, query, about) => query < 0 && about.first === 0 && ownParts(kind);
/// Whether the queries are the parts themselves, and not those of another stack or of a pooling.
const ownParts = kind => kind.queries.length === kind.keys.length && kind.kind !== "cross";
/// The weights of the parts, row by row from the top of the picture: what the query attends to; without one, the first, or the mean.
function partsOf(kind, values, query, about) {
  const { rows, columns, first } = about, keys = kind.keys.length, parts = new Float32Array(rows * columns);
  const from = Math.max(0, query), end = isMean(kind, query, about) ? Math.min(kind.queries.length, rows * columns) : from + 1;  // what follows the parts is padding
  for (let q = from; q < end; ++q) {
    for (let i = 0; i < parts.length; ++i) parts[placeOf(i, about)] += values[q * keys + first + i] / (end - from);
  }
  return parts;
}
/// Where a part is, counted row by row from the top of the picture: low frequencies are at the bottom. And back.
const placeOf = (part, { rows, columns, upward }) => upward ? (rows - 1 - Math.floor(part / columns)) * columns + part % columns : part;

class Overlay {
  constructor(box) {
    this.canvas = box.querySelector(".overlay");
    this.of = box.querySelector(".of");
  }
  /// `about`: {picture: the image, rows, columns, first: index of the key of its first part, upward}; without a query, see partsOf().
  draw(kind, values, full, query, key, about, room, title, shades) {
    this.about = about;
    const image = about.picture, scale = Math.min(520, room - 20) / image.width;
    const width = image.width * scale, height = Math.min(520, Math.max(120, image.height * scale));
    const context = sized(this.canvas, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, 0, 0, width, height);
    // As in figures (over_image.h): the image is pale, and a color covers it with the root of its weight.
    context.fillStyle = shades.onDark ? "rgba(0,0,0,0.55)" : "rgba(255,255,255,0.55)";
    context.fillRect(0, 0, width, height);
    const across = width / about.columns, down = height / about.rows, parts = partsOf(kind, values, query, about);
    const ratio = window.devicePixelRatio || 1, edge = (at, size) => Math.round(at * size * ratio) / ratio;  // so that colors neither overlap nor leave gaps
    for (let i = 0; i < parts.length; ++i) {
      const share = Math.max(-1, Math.min(1, parts[i] / full)), x = i % about.columns, y = Math.floor(i / about.columns);
      context.fillStyle = shades.css(share);
      context.globalAlpha = 0.85 * Math.sqrt(Math.abs(share));
      context.fillRect(edge(x, across), edge(y, down), edge(x + 1, across) - edge(x, across), edge(y + 1, down) - edge(y, down));
    }
    context.globalAlpha = 1;
    context.strokeStyle = style("--accent"); context.lineWidth = 2;
    const own = ownParts(kind), part = (own ? query : key) - about.first, at = part < 0 || part >= parts.length ? -1 : placeOf(part, about);
    if (at >= 0) context.strokeRect(at % about.columns * across + 1, Math.floor(at / about.columns) * down + 1, Math.max(1, across - 2), Math.max(1, down - 2));
    const q = Math.max(0, query), whose = isMean(kind, query, about) ? "the mean of all queries" : "query " + kind.queries[q] + " (" + q + ")";
    this.of.textContent = "Attention of " + whose + ", from 0 (pale) to " + number(full) + " (full color). " + (own ? "A click on a part chooses its query." : "Step chooses the query.");
    this.canvas.setAttribute("aria-label", title + ", " + whose + ": " + about.rows + " rows by " + about.columns + " columns; the arrow keys go from part to part, Enter lets go; the numbers are below, as text");
  }
  /// The key of the part under the mouse.
  keyAt(event) {
    const { about, canvas } = this, part = (at, size, count) => Math.max(0, Math.min(count - 1, Math.floor(at / size * count)));
    return about.first + placeOf(part(event.offsetY, canvas.clientHeight, about.rows) * about.columns + part(event.offsetX, canvas.clientWidth, about.columns), about);
  }
  /// The key of the part that an arrow key leads to, or -1.
  keyAfter(key, name) {
    const { rows, columns, first } = this.about, turn = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[name];
    if (!turn) return -1;
    if (key < first) return first;
    const within = (value, count) => Math.max(0, Math.min(count - 1, value)), at = placeOf(key - first, this.about);
    return first + placeOf(within(Math.floor(at / columns) + turn[0], rows) * columns + within(at % columns + turn[1], columns), this.about);
  }
}
