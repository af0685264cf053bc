// Drawing: colours, canvases, and the views of one map. Each view gets what is shown and the map's numbers.
const $ = id => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const bytesOf = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const styles = new Map();
function style(name) {
  if (!styles.has(name)) styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return styles.get(name);
}
const font = size => size + "px " + style("--sans");
const hue = head => "hsl(" + (head * 137.5 + 15) % 360 + (dark.matches ? " 70% 62%)" : " 65% 42%)");
const number = value => value === 0 ? "0" : Math.abs(value) < 0.001 ? value.toExponential(1) : value.toPrecision(3);

/// Colours for shares of full colour, -1 to 1; a dark page has light colours for large ones.
class Shades {
  constructor(data) { this.positive = bytesOf(data.palette); this.negative = bytesOf(data.negative); this.paper = [0x16, 0x18, 0x1c]; this.restyle(); }
  /// To be called after the page became light or dark.
  restyle() {
    styles.clear();
    this.table = new Uint8ClampedArray(4 * 511);
    for (let level = -255; level <= 255; ++level) this.table.set([...this.at(level / 255), 255], 4 * (level + 255));
  }
  at(share) {
    const level = Math.min(255, Math.round(255 * Math.abs(share))), i = 3 * (dark.matches ? 255 - level : level);
    const of = share < 0 ? this.negative : this.positive, colour = [of[i], of[i + 1], of[i + 2]];
    if (!dark.matches || level > 40) return colour;
    return colour.map((c, j) => Math.round(this.paper[j] + (c - this.paper[j]) * level / 40));  // zero is the page itself
  }
  css(share) { return "rgb(" + this.at(share).join(",") + ")"; }
  ink(share) { return (Math.abs(share) > 0.5) !== dark.matches ? "#fff" : "#1d2127"; }
}

function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
  return made;
}

function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.ceil(width * ratio); canvas.height = Math.ceil(height * ratio);
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

const measuring = document.createElement("canvas").getContext("2d");
function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const marks = [...text];
  while (marks.length > 1 && context.measureText(marks.join("") + "…").width > width) marks.pop();
  return marks.join("") + "…";
}
function widest(tokens, size, most) {
  measuring.font = font(size);
  let width = 0;
  for (const token of tokens) width = Math.max(width, Math.min(most, measuring.measureText(token).width));
  return width;
}

/// A canvas of one pixel a cell. Of a map with more than `limit` rows or columns, a pixel is the largest number of a
/// block of cells, so that a thin line stays visible.
function paint(canvas, values, rows, columns, full, limit, shades) {
  const block = Math.max(1, Math.ceil(Math.max(rows, columns) / limit));
  canvas.width = Math.ceil(columns / block); canvas.height = Math.ceil(rows / block);
  const image = new ImageData(canvas.width, canvas.height), largest = new Float32Array(canvas.width * canvas.height);
  for (let row = 0; row < rows; ++row) {
    const line = Math.floor(row / block) * canvas.width;
    for (let column = 0; column < columns; ++column) {
      const to = line + Math.floor(column / block), value = values[row * columns + column];
      if (Math.abs(value) > Math.abs(largest[to])) largest[to] = value;
    }
  }
  const colours = new Uint32Array(shades.table.buffer), pixels = new Uint32Array(image.data.buffer), factor = 255 / full;
  for (let i = 0; i < largest.length; ++i) {
    const level = Math.round(largest[i] * factor);
    pixels[i] = colours[level > 255 ? 510 : level < -255 ? 0 : level + 255];
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// ---- the matrix
const Matrix = {
  shape: null,
  measure(kind) {
    const rows = kind.queries.length, columns = kind.keys.length;
    const room = Math.max(260, Math.min(900, $("stage").clientWidth - (window.innerWidth > 820 ? 260 : 0)));
    const tall = Math.max(300, window.innerHeight - 300);
    let cell = 34, size, left, above, right, every;
    const wide = kind.wide || (kind.wide = { queries: widest(kind.queries, 10, 200) / 10, keys: widest(kind.keys, 10, 200) / 10 });
    for (; cell > 1; --cell) {
      size = Math.max(10, Math.min(13, cell * 0.62));
      every = Math.max(1, Math.ceil((size + 2) / cell));
      left = Math.min(120, wide.queries * size) + 12;
      const label = Math.min(100, wide.keys * size);
      above = label * 0.87 + 14; right = Math.max(6, label * 0.5 + 8 - cell / 2);
      if (left + columns * cell + right <= room && (above + rows * cell <= tall || cell <= 9)) break;
    }
    this.shape = { cell, size, every, left, above, width: left + columns * cell + right, height: above + rows * cell + 6 };
    return this.shape;
  },
  draw(kind, values, full, shades, step) {
    const shape = this.measure(kind), { cell, left, above } = shape, rows = kind.queries.length, columns = kind.keys.length;
    const small = document.createElement("canvas"), context = sized($("map"), shape.width, shape.height);
    sized($("over"), shape.width, shape.height);
    paint(small, values, rows, columns, full, Infinity, shades);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, left, above, columns * cell, rows * cell);
    if (cell >= 12) {
      context.strokeStyle = style("--paper");
      context.beginPath();
      for (let i = 1; i < columns; ++i) { context.moveTo(left + i * cell, above); context.lineTo(left + i * cell, above + rows * cell); }
      for (let i = 1; i < rows; ++i) { context.moveTo(left, above + i * cell); context.lineTo(left + columns * cell, above + i * cell); }
      context.stroke();
    }
    if (cell >= 28) {
      context.font = font(10); context.textAlign = "center"; context.textBaseline = "middle";
      for (let i = 0; i < values.length; ++i) {
        const share = values[i] / full;
        if (Math.abs(share) < 0.02) continue;
        context.fillStyle = shades.ink(share);
        context.fillText(Math.abs(values[i]) >= 9.95 ? values[i].toFixed(0) : values[i].toFixed(2).replace(/^(-?)0\./, "$1."),
          left + (i % columns + 0.5) * cell, above + (Math.floor(i / columns) + 0.5) * cell);
      }
    }
    if (step < rows - 1) {
      context.globalAlpha = 0.8; context.fillStyle = style("--paper");
      context.fillRect(left, above + (step + 1) * cell, columns * cell, (rows - 1 - step) * cell);
      context.globalAlpha = 1;
    }
    context.strokeStyle = style("--line");
    context.strokeRect(left - 0.5, above - 0.5, columns * cell + 1, rows * cell + 1);
    for (let i = 0; i < rows; i += shape.every) this.label(context, kind.queries[i], i, false, style("--ink"));
    for (let i = 0; i < columns; i += shape.every) this.label(context, kind.keys[i], i, true, style("--ink"));
  },
  label(context, token, index, isKey, colour, opaque) {
    const { cell, left, above, size } = this.shape, half = (index + 0.5) * cell;
    context.save();
    context.font = font(size); context.textBaseline = "middle";
    if (isKey) { context.textAlign = "left"; context.translate(left + half, above - 6); context.rotate(-Math.PI / 3); }
    else { context.textAlign = "right"; context.translate(left - 6, above + half); }
    const text = fit(context, token, isKey ? 100 : 120), width = context.measureText(text).width;
    if (opaque) { context.fillStyle = style("--paper"); context.fillRect(isKey ? -2 : -width - 2, -size * 0.65, width + 4, size * 1.3); }
    context.fillStyle = colour;
    context.fillText(text, 0, 0);
    context.restore();
  },
  mark(kind, query, key) {
    const context = $("over").getContext("2d"), { cell, left, above, width, height, every } = this.shape;
    context.clearRect(0, 0, width, height);
    context.strokeStyle = style("--accent"); context.lineWidth = 1.5;
    const room = cell < 6 ? 1.5 : 0;
    if (query >= 0) context.strokeRect(left, above + query * cell - room, kind.keys.length * cell, cell + 2 * room);
    if (key >= 0) context.strokeRect(left + key * cell - room, above, cell + 2 * room, kind.queries.length * cell);
    if (query >= 0) this.label(context, kind.queries[query], query, false, style("--accent"), every > 1);
    if (key >= 0) this.label(context, kind.keys[key], key, true, style("--accent"), every > 1);
  },
  cellAt(kind, event) {
    const query = Math.floor((event.offsetY - this.shape.above) / this.shape.cell), key = Math.floor((event.offsetX - this.shape.left) / this.shape.cell);
    return [query >= 0 && query < kind.queries.length ? query : -1, key >= 0 && key < kind.keys.length ? key : -1];
  },
};

// ---- lines from token to token
const Lines = {
  row: 22, side: 150, middle: 150, top: 4,
  build(kind, onFollow, onHold) {
    const rows = Math.max(kind.queries.length, kind.keys.length), box = $("strands"), size = rows > 60 ? 12 : 14;
    this.row = rows > 60 ? 17 : 22;
    this.side = Math.ceil(Math.max(50, Math.min(window.innerWidth < 820 ? 120 : 180, Math.max(widest(kind.queries, size, 180), widest(kind.keys, size, 180)) + 14)));
    this.middle = Math.max(70, Math.min(240, $("stage").clientWidth - 2 * this.side - 10));
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
    $("wires").style.left = this.side + "px";
  },
  /// `layers`: [{values, full, colour}], one per head that is shown.
  draw(kind, layers, shades, query, key, step, strongest) {
    const columns = kind.keys.length, rows = Math.max(kind.queries.length, columns);
    const context = sized($("wires"), this.middle, this.top + rows * this.row), y = i => this.top + (i + 0.5) * this.row;
    const one = query >= 0 || key >= 0, chosen = [];
    for (const { values, full, colour } of layers) {
      for (let q = 0; q < kind.queries.length; ++q) {
        if (q > step || (query >= 0 && q !== query)) continue;
        let best = 0;
        if (strongest) for (let k = 1; k < columns; ++k) if (values[q * columns + k] > values[q * columns + best]) best = k;
        for (let k = 0; k < columns; ++k) {
          if ((query < 0 && key >= 0 && k !== key) || (strongest && k !== best)) continue;
          const strength = values[q * columns + k] / full;
          if (Math.abs(strength) > (one ? 0.02 : 0.06)) chosen.push([q, k, strength, colour]);
        }
      }
    }
    chosen.sort((a, b) => Math.abs(a[2]) - Math.abs(b[2]));
    for (const [q, k, strength, colour] of chosen.slice(-2500)) {
      context.strokeStyle = colour || shades.css(strength < 0 ? -0.72 : 0.72);
      context.globalAlpha = Math.min(1, 0.06 + Math.abs(strength));
      context.lineWidth = 0.8 + 2.6 * Math.min(1, Math.abs(strength));
      context.beginPath();
      context.moveTo(0, y(q));
      context.bezierCurveTo(this.middle * 0.4, y(q), this.middle * 0.6, y(k), this.middle, y(k));
      context.stroke();
    }
    const { values, full } = layers[0] || { values: [], full: 1 };
    const shadeTokens = (selector, value, marked) => $("strands").querySelectorAll(selector).forEach((token, i) => {
      const share = Math.max(-1, Math.min(1, value(i) / full));
      token.style.background = Math.abs(share) > 0.02 ? shades.css(share) : "";
      token.style.color = Math.abs(share) > 0.02 ? shades.ink(share) : "";
      token.classList.toggle("marked", i === marked);
      if (selector === ".query") token.classList.toggle("later", i > step);
    });
    shadeTokens(".query", i => query < 0 && key >= 0 ? values[i * columns + key] : 0, query);
    shadeTokens(".key", i => query >= 0 ? values[query * columns + i] : 0, key);
  },
};

// ---- queries times keys, dimension by dimension
function drawNeurons(kind, vectors, query, key, shades) {
  const box = $("neurons");
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
const Overlay = {
  image: null,
  draw(kind, values, full, query, about) {
    const columns = kind.keys.length, scale = Math.min(520, $("stage").clientWidth - 20) / this.image.width;
    const width = this.image.width * scale, height = Math.min(520, Math.max(60, this.image.height * scale));
    const context = sized($("overlay"), width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, 0, 0, width, height);
    const across = width / about.columns, down = height / about.rows, q = Math.max(0, query);
    for (let i = 0; i < about.rows * about.columns; ++i) {
      const share = Math.min(1, Math.abs(values[q * columns + i + about.first]) / full);
      context.fillStyle = "rgba(0,0,0," + 0.82 * (1 - share) + ")";
      context.fillRect(i % about.columns * across, Math.floor(i / about.columns) * down, across + 0.5, down + 0.5);
    }
    context.strokeStyle = style("--accent"); context.lineWidth = 2;
    const at = q - about.first;
    if (kind.kind !== "cross" && at >= 0) context.strokeRect(at % about.columns * across, Math.floor(at / about.columns) * down, across, down);
  },
};
