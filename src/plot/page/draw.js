"use strict";
// Drawing: colors, canvases, elements.
const $ = id => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
/// Whether the page is dark; on paper it is not (class `light`).
const isDark = () => dark.matches && !document.documentElement.classList.contains("light");
const bytesOf = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
/// The bytes of a zlib stream in base64.
async function inflated(text) {
  const stream = new DecompressionStream("deflate"), writer = stream.writable.getWriter(), bytes = new Response(stream.readable).arrayBuffer();
  await Promise.all([writer.write(bytesOf(text)), writer.close(), bytes]);
  return new Uint8Array(await bytes);
}
const styles = new Map();
function style(name) {
  if (!styles.has(name)) styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return styles.get(name);
}
const font = size => size + "px " + style("--sans");
/// The color of a head; hexadecimal, which every reader of SVG knows.
function hue(head, onDark) {
  const angle = (head * 137.5 + 15) % 360, light = onDark ? 0.62 : 0.42, range = (onDark ? 0.7 : 0.65) * Math.min(light, 1 - light);
  const part = n => { const k = (n + angle / 30) % 12; return Math.round(255 * (light - range * Math.max(-1, Math.min(k - 3, 9 - k, 1)))).toString(16).padStart(2, "0"); };
  return "#" + part(0) + part(8) + part(4);
}
const minus = text => text.replace(/-/g, "\u2212");
/// One format for the numbers of a map, from its largest: decimals that show a hundredth of it, at least two and at most six.
const decimalsFor = full => Math.max(2, Math.min(6, 1 - Math.floor(Math.log10(Math.abs(full) || 1))));
const fixed = (value, decimals) => minus((Math.abs(value) < 0.5 * 10 ** -decimals ? 0 : value).toFixed(decimals));
/// A number that stands alone, with two decimals, or more where it is small.
const number = value => fixed(value, Math.abs(value) >= 0.1 || value === 0 ? 2 : decimalsFor(value));
/// A change, with its sign.
const signed = value => (value > 0 ? "+" : "") + number(value);
const percent = p => (p > 0 && p < 0.0005 ? "< 0.1" : (100 * p).toFixed(1)) + " %";

/// Colors for shares of full color, -1 to 1; a dark page has light colors for large ones.
class Shades {
  /// `light`: for light paper, whatever the page is.
  constructor(data, light) { this.positive = bytesOf(data.palette); this.negative = bytesOf(data.negative); this.paper = [0x16, 0x18, 0x1c]; this.light = !!light; this.restyle(); }
  get onDark() { return isDark() && !this.light; }
  /// To be called after the page became light or dark.
  restyle() {
    styles.clear();
    this.table = new Uint8ClampedArray(4 * 511);
    for (let level = -255; level <= 255; ++level) this.table.set([...this.at(level / 255), 255], 4 * (level + 255));
  }
  at(share) {
    const level = Math.min(255, Math.round(255 * Math.abs(share))), i = 3 * (this.onDark ? 255 - level : level);
    const of = share < 0 ? this.negative : this.positive, color = [of[i], of[i + 1], of[i + 2]];
    if (!this.onDark || level > 40) return color;
    return color.map((c, j) => Math.round(this.paper[j] + (c - this.paper[j]) * level / 40));  // zero is the page itself
  }
  css(share) { return "rgb(" + this.at(share).join(",") + ")"; }
  /// Black or white, whichever has more contrast on a color (the relative luminance of WCAG).
  ink(share) {
    const [r, g, b] = this.at(share).map(value => { const c = value / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }
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

function hasSigns(values) {
  for (let i = 0; i < values.length; ++i) if (values[i] < 0) return true;
  return false;
}

/// A canvas of one pixel a cell. Of a map with more than `limit` rows or columns, a pixel is the largest number of a
/// block of cells, so that a thin line stays visible. What is `blocked` is left clear.
function paint(canvas, values, rows, columns, full, limit, shades, blocked) {
  const block = Math.max(1, Math.ceil(Math.max(rows, columns) / limit));
  canvas.width = Math.ceil(columns / block); canvas.height = Math.ceil(rows / block);
  const image = new ImageData(canvas.width, canvas.height), largest = block === 1 ? values : new Float32Array(canvas.width * canvas.height);
  if (block > 1) {
    const place = Int32Array.from({ length: columns }, (_, column) => Math.floor(column / block));
    for (let row = 0, i = 0; row < rows; ++row) {
      const line = Math.floor(row / block) * canvas.width;
      for (let column = 0; column < columns; ++column, ++i) {
        const to = line + place[column];
        if (Math.abs(values[i]) > Math.abs(largest[to])) largest[to] = values[i];
      }
    }
  }
  const colors = new Uint32Array(shades.table.buffer), pixels = new Uint32Array(image.data.buffer), factor = 255 / full;
  for (let i = 0; i < pixels.length; ++i) {
    const level = Math.round(largest[i] * factor);
    pixels[i] = colors[level > 255 ? 510 : level < -255 ? 0 : level + 255];
  }
  if (blocked && block === 1) for (let i = 0; i < pixels.length; ++i) if (blocked[i] && !values[i]) pixels[i] = 0;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/// A row of tabs, one of which is chosen; `entries`: [[value, text]]. Arrow keys go from one to the next.
function drawTabs(box, entries, chosen, choose) {
  const focused = box.contains(document.activeElement);
  box.replaceChildren(...entries.map(([value, text], at) => {
    const tab = element("button", text, { type: "button", role: "tab", "data-value": value, "aria-controls": "panels" });
    tab.onclick = () => choose(value);
    tab.onkeydown = event => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      choose(entries[(at + by + entries.length) % entries.length][0]);
      const now = box.querySelector("[aria-selected=true]");
      if (now) now.focus();
    };
    return tab;
  }));
  markTab(box, chosen);
  if (focused) { const now = box.querySelector("[aria-selected=true]"); if (now) now.focus(); }
}
function markTab(box, chosen) {
  for (const tab of box.children) {
    const own = tab.dataset.value === String(chosen);
    tab.setAttribute("aria-selected", own);
    tab.tabIndex = own ? 0 : -1;
    if (own) center(box, tab);
  }
}
/// Brings a part of a box that scrolls sideways to its middle.
function center(box, part) {
  if (box.scrollWidth <= box.clientWidth) return;
  const outer = box.getBoundingClientRect(), inner = part.getBoundingClientRect();
  box.scrollLeft += inner.left - outer.left + (inner.width - outer.width) / 2;
}

const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
/// A token within a sentence: one that is written from right to left moves nothing around it.
const isolated = token => rightToLeft.test(token) ? "\u2068" + token + "\u2069" : token;
const quoted = token => "“" + isolated(token) + "”";
/// The direction in which tokens stand side by side: that in which most of those with letters are written.
function directionOf(tokens) {
  const written = tokens.filter(token => /\p{L}/u.test(token) && !/^[<[].*[>\]]$/.test(token) && !token.startsWith("\\x"));
  return 2 * written.filter(token => rightToLeft.test(token)).length > written.length ? "rtl" : "ltr";
}
/// A token, with its position where several are the same.
function nameIn(tokens, index) {
  const token = tokens[index], name = isolated(token);
  return tokens.indexOf(token) === tokens.lastIndexOf(token) ? name : name + " (" + index + ")";
}

function fill(select, entries) {
  const now = [...select.options].map(option => option.value + "\n" + option.text).join("\n\n");
  if (now !== entries.map(([value, text]) => value + "\n" + text).join("\n\n")) select.replaceChildren(...entries.map(([value, text]) => element("option", text, { value })));
}

/// A bar of a share of `most`: from the left, or where numbers have `signs`, from a zero axis in the middle, to the left below 0.
function bar(value, most, signs) {
  const box = element("span", null, { class: signs ? "bar signs" : "bar" }), part = element("span", null, { class: value < 0 ? "below" : "above" }), share = Math.min(1, Math.abs(value) / (most || 1));
  part.style.width = (signs ? 50 : 100) * share + "%";
  if (signs) Object.assign(part.style, value < 0 ? { left: "auto", right: "50%" } : { left: "50%" });
  box.append(part);
  return box;
}
/// Rows of [name, value, marked] with bars whose full length is `most`, from a zero axis where numbers may have `signs`; `show` writes a value.
function barTable(title, rows, most, show, signs) {
  const table = element("table", null, { class: "bars" });
  table.append(element("caption", title));
  for (const [name, value, marked] of rows) {
    const row = element("tr", null), cell = element("td", null), token = element("th", name, { scope: "row" });
    cell.append(bar(value, most, signs));
    if (marked) row.className = "marked";
    row.append(token, cell, element("td", show(value), { class: "number" }));
    table.append(row);
  }
  return table;
}
