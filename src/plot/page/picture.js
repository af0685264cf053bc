// Attention over an image, or over the frames of a sound.

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
  constructor(box, panel) {
    Object.assign(this, { box, panel });
    this.canvas = element("canvas", null, { class: "overlay", tabindex: 0, role: "application", "aria-roledescription": "image in parts" });
    this.of = element("p", null, { class: "of" });
    box.append(this.canvas, this.of);
    this.listen();
  }
  /// A part of an image is a query of its own, and of other stacks a key.
  listen() {
    const { panel, canvas } = this, { viewer } = panel, crosses = () => !ownParts(panel.kind);
    const cell = key => crosses() ? [Math.max(0, this.query), key] : [key, -1];
    canvas.onmousemove = event => viewer.follow(...cell(this.keyAt(event)));
    canvas.onmouseleave = () => viewer.follow(-1, -1);
    canvas.onclick = event => viewer.hold(...cell(this.keyAt(event)));
    canvas.onkeydown = event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const to = this.keyAfter(crosses() ? panel.key : panel.query, event.key), holds = event.key === "Enter" || event.key === " ";
      if (to >= 0) viewer.hold(...cell(to), true);
      if (holds) viewer.hold(panel.query, panel.key);
      if (to >= 0 || holds) event.preventDefault();
    };
  }
  get query() { return this.panel.query; }
  draw() {}
  /// data.image: {picture: the image, rows, columns, first: index of the key of its first part, upward}; without a query, see partsOf().
  follow() {
    const { panel } = this, { kind, values, query, key, data, viewer } = panel, { shades } = viewer, about = this.about = data.image;
    if (viewer.state.scale === "own") panel.full = viewer.fullColor(kind, values, query);  // of what is shown
    const { full } = panel, room = panel.room.width, most = Math.max(240, Math.min(900, panel.room.height - 64));
    const image = about.picture, scale = Math.min(room / image.width, most / image.height);
    const width = about.rows === 1 || about.upward ? room : image.width * scale, height = Math.max(Math.min(120, most), Math.min(most, width / image.width * image.height));
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
    this.of.textContent = "Attention of " + whose + ", from 0 (pale) to " + panel.format(full) + " (full color). " + (own ? "A click on a part chooses its query." : "The position chooses the query.");
    this.canvas.setAttribute("aria-label", viewer.title + ", " + whose + ": " + about.rows + " rows by " + about.columns + " columns; the arrow keys go from part to part, Enter lets go; the numbers are below, as text");
  }
  figure() {
    const { kind, query, data } = this.panel, mean = isMean(kind, query, data.image);
    return { draw: pictureFigure, kind, picture: this.canvas, about: mean ? "mean of all queries" : "query " + kind.queries[Math.max(0, query)], name: mean ? "mean-query" : "query-" + Math.max(0, query) };
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

registerView({
  name: "picture", title: ({ data }) => data.image.rows === 1 || data.image.upward ? "Sound" : "Image", help: "The weights as colors over what the model sees.",
  fits: viewer => viewer.data.overImage(viewer.kind), legend: false,
  lead: ({ data }) => (data.image.rows === 1 || data.image.upward ? "Over the spectrogram, strong color is when" : "Over the picture, strong color is where") + " the chosen part looks.",
  make: (box, panel) => new Overlay(box, panel),
});
