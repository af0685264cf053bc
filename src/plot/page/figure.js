// A map as a figure: SVG with its text as text, light paper; PNG is a raster of the same.
const escapeMarkup = text => String(text).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const figureText = (x, y, text, attributes) => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes || ""}>${escapeMarkup(text)}</text>`;

/// Returns an SVG document. `what`: draw (one of the functions below, which returns {markup, legend, width, height}), kind, values, full,
/// format, shades, title and subtitle; of a matrix also blocked; of lines layers (as chosenLines takes them), strongest, range, query and key; of a picture,
/// picture: the canvas.
function mapFigure(what) {
  const body = what.draw(what), room = 10, width = Math.max(body.width, 240, 1.25 * widest([what.title], 12, 4000)) + 2 * room, top = what.subtitle ? 44 : 28, height = body.height + top + 36;
  measuring.font = font(11);
  const below = what.subtitle ? figureText(room, 33, fit(measuring, what.subtitle, 0.9 * width), 'fill="#59606b"') + "\n" : "";
  const svg = `<svg width="${width.toFixed(0)}" height="${height.toFixed(0)}" viewBox="0 0 ${width.toFixed(0)} ${height.toFixed(0)}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="11">
<title>${escapeMarkup(what.title)}</title>
<rect width="100%" height="100%" fill="#fff"/>
${figureText(room, 18, what.title, 'font-size="12" font-weight="bold"')}
${below}<g transform="translate(${room} ${top})">${body.markup}</g>
<g transform="translate(${room + 4} ${height - 15})">${body.legend || rampLegend(what)}</g>
</svg>`;
  return new XMLSerializer().serializeToString(new DOMParser().parseFromString(svg, "text/html").querySelector("svg")) + "\n";
}

function rampLegend({ shades, full, values, format }) {
  const signs = hasSigns(values), low = signs ? format(-full) : "0", from = widest([low], 11, 100) + 6;
  const ramp = [...Array(32)].map((_, i) => `<rect x="${(from + 4 * i).toFixed(1)}" y="-7" width="4.2" height="8" fill="${shades.css(signs ? i / 15.5 - 1 : i / 31)}"/>`).join("");
  return figureText(0, 0, low) + ramp + figureText(from + 134, 0, format(full));
}

function matrixFigure({ kind, values, full, shades, blocked }) {
  const rows = kind.queries.length, columns = kind.keys.length, cell = Math.max(2, Math.min(22, 900 / Math.max(rows, columns)));
  const every = Math.ceil(12 / cell), left = widest(kind.queries, 11, 150) + 10, tall = widest(kind.keys, 11, 150), above = tall * 0.87 + 10, parts = [];
  if (rows * columns <= 10000) {
    for (let i = 0; i < rows * columns; ++i) {
      const share = Math.max(-1, Math.min(1, values[i] / full));
      if (Math.abs(share) >= 0.004) parts.push(`<rect x="${(left + i % columns * cell).toFixed(2)}" y="${(above + Math.floor(i / columns) * cell).toFixed(2)}" width="${cell.toFixed(2)}" height="${cell.toFixed(2)}" fill="${shades.css(share)}"/>`);
    }
  } else {  // a picture of the cells, for a file of a bearable size
    const small = document.createElement("canvas");
    paint(small, values, rows, columns, full, Infinity, shades, blocked);
    parts.push(`<image x="${left}" y="${above}" width="${columns * cell}" height="${rows * cell}" preserveAspectRatio="none" image-rendering="pixelated" href="${small.toDataURL()}"/>`);
  }
  if (blocked) {
    blockedRuns(blocked, values, rows, columns, (row, from, count) => parts.push(`<rect x="${(left + from * cell).toFixed(2)}" y="${(above + row * cell).toFixed(2)}" width="${(count * cell).toFixed(2)}" height="${cell.toFixed(2)}" fill="#ececec"/>`));
  }
  parts.push(`<rect x="${left}" y="${above}" width="${columns * cell}" height="${rows * cell}" fill="none" stroke="#bbb"/>`);
  for (let i = 0; i < rows; i += every) parts.push(figureText(left - 5, above + (i + 0.5) * cell + 4, kind.queries[i], 'text-anchor="end"'));
  for (let i = 0; i < columns; i += every) parts.push(`<text transform="translate(${(left + (i + 0.5) * cell + 3).toFixed(1)} ${(above - 5).toFixed(1)}) rotate(-60)">${escapeMarkup(kind.keys[i])}</text>`);
  return { markup: parts.join("\n"), width: left + columns * cell + tall * 0.5 + 10, height: above + rows * cell + 6 };
}

function linesFigure({ kind, layers, shades, strongest, query, key, range }) {
  const row = 18, { q0, q1, k0, k1 } = range, queries = kind.queries.slice(q0, q1), keys = kind.keys.slice(k0, k1), left = widest(queries, 11, 180) + 8, middle = 150, right = left + middle, parts = [];
  const y = i => (i + 0.5) * row, paths = [];
  queries.forEach((token, q) => parts.push(figureText(left - 6, y(q) + 4, token, 'text-anchor="end"')));
  for (const [q, k, strength, color] of chosenLines(kind, layers, range, strongest, 0.03)) {
    if (query >= 0 ? q !== query : key >= 0 && k !== key) continue;
    const size = Math.min(1, Math.abs(strength)), from = y(q - q0), to = y(k - k0);
    paths.push(`<path d="M${left} ${from}C${left + middle * 0.4} ${from} ${left + middle * 0.6} ${to} ${right} ${to}" fill="none" stroke="${color || shades.css(strength < 0 ? -0.72 : 0.72)}" stroke-width="${(0.6 + 2.6 * size).toFixed(2)}" stroke-opacity="${Math.min(1, 0.06 + size).toFixed(2)}"/>`);
  }
  keys.forEach((token, k) => parts.push(figureText(right + 6, y(k) + 4, token)));
  let across = 0;
  const legend = layers.filter(one => one.color).map(({ head, color }) => {
    const entry = `<rect x="${across}" y="-8" width="10" height="10" fill="${color}"/>` + figureText(across + 14, 1, "head " + head);
    across += 30 + widest(["head " + head], 11, 100);
    return entry;
  }).join("");
  return { markup: paths.slice(-4000).join("\n") + parts.join("\n"), legend, width: Math.max(across, right + widest(keys, 11, 180) + 10), height: row * Math.max(queries.length, keys.length) + 6 };
}

function pictureFigure({ picture, full, format }) {
  const width = parseFloat(picture.style.width), height = parseFloat(picture.style.height);
  return { markup: `<image width="${width}" height="${height}" href="${picture.toDataURL()}"/>`, legend: figureText(0, 0, "from 0 (pale) to " + format(full) + " (full color)"), width, height: height + 6 };
}

/// The PNG of an SVG document, two pixels to one.
async function rasterOf(svg) {
  const image = new Image(), address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  image.setAttribute("src", address);
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.width; canvas.height = 2 * image.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise(done => canvas.toBlob(done, "image/png"));
}

function download(blob, name) {
  const link = element("a", null, { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
