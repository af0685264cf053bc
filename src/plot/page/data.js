// The data of the page: what is on it, and the numbers of a map. A page that is served may give another `pack`.
class AttentionData {
  /// `meta` describes the maps; `pack(id)` gives the base64 text of a deflated block of numbers.
  constructor(meta, pack) {
    Object.assign(this, meta);
    this.pack = pack;
    this.cache = new Map();
    this.masks = new Map();
    for (const kind of this.kinds) {
      kind.layers = [...new Set(kind.maps.map(m => m.layer))].sort((a, b) => a - b);
      kind.heads = [...new Set(kind.maps.map(m => m.head))].filter(h => typeof h === "number").sort((a, b) => a - b);
      kind.measures = ["weights", "norms", "gradient"].filter(m => kind.maps.some(map => map.measure === m || (m === "norms" && map.norms)));
      const many = kind.heads.length > 1, has = (head, measure) => kind.maps.some(m => m.head === head && m.measure === measure);
      kind.columns = [...kind.heads];
      if (many || has("mean", "weights")) kind.columns.push("mean");
      if (many || has("max", "weights")) kind.columns.push("max");
      if (kind.maps.some(m => m.measure === "rollout")) kind.columns.push("rollout");
    }
  }

  static ofPage() {
    const text = id => document.getElementById(id).textContent;
    return new AttentionData(JSON.parse(text("data")), async id => text("pack-" + id));
  }

  /// Decodes the image, if there is one: it is then its `picture`.
  async loadPicture() {
    if (!this.image) return;
    const picture = new Image();
    picture.setAttribute("src", "data:image/png;base64," + this.image.png);
    await picture.decode();
    this.image.picture = picture;
  }

  /// Whether a kind's keys are the parts of the image.
  overImage(kind) {
    const { image, sound } = this, keys = image && image.first + image.rows * image.columns;
    return !!image && !kind.kind.startsWith("text") && (sound ? kind.keys.length >= keys && kind.kind !== "decoder" : kind.keys.length === keys);
  }

  find(kind, measure, layer, head) {
    const wanted = head === "rollout" ? "rollout" : measure === "norms" ? "weights" : measure;
    const at = head === "rollout" ? "mean" : head;
    return kind.maps.find(m => m.measure === wanted && m.layer === layer && m.head === at);
  }

  /// Whether there is such a map, stored or to be computed from others.
  has(kind, measure, layer, head) {
    if (head !== "rollout" && (head === "mean" || head === "max") && kind.heads.length > 1) return kind.layers.includes(layer);
    const map = this.find(kind, measure, layer, head);
    return !!map && (measure !== "norms" || head === "rollout" || !!map.norms);
  }

  /// The largest magnitude of a measure over all heads of a kind; rollouts have their own.
  largest(kind, measure, head) {
    const wanted = head === "rollout" ? "rollout" : measure === "norms" ? "weights" : measure;
    const of = kind.maps.filter(m => m.measure === wanted).map(m => measure === "norms" && head !== "rollout" ? m.largest_norm || 0 : m.largest);
    return Math.max(...of, 0) || 1;
  }

  /// The same of what is shown over the image at first.
  largestOver(kind, measure, head) {
    const rollout = head === "rollout", norms = measure === "norms" && !rollout, wanted = rollout ? "rollout" : norms ? "weights" : measure;
    return Math.max(...kind.maps.filter(m => m.measure === wanted && m.over).map(m => m.over[norms ? 1 : 0]), 0) || 1;
  }

  /// The numbers of a map, [queries * keys].
  async values(kind, measure, layer, head) {
    const name = [kind.kind, measure, layer, head].join("/");
    let found = this.cache.get(name);
    if (!found) {
      found = this.compute(kind, measure, layer, head);
      found.catch(() => this.cache.delete(name));
      const cells = kind.queries.length * kind.keys.length, most = Math.max(16, Math.floor(3e7 / cells));
      while (this.cache.size >= most) this.cache.delete(this.cache.keys().next().value);
    }
    this.cache.delete(name);
    this.cache.set(name, found);
    return found;
  }

  async compute(kind, measure, layer, head) {
    const map = this.find(kind, measure, layer, head);
    if (map) {
      const values = await this.unpack(map, this.bits);
      if (measure === "norms" && head !== "rollout") values.forEach((v, i) => { values[i] = v * map.norms[i % map.norms.length]; });
      return values;
    }
    const result = new Float32Array(kind.queries.length * kind.keys.length).fill(head === "max" ? -Infinity : 0);
    for (const one of kind.heads) {
      const values = await this.values(kind, measure, layer, one);
      if (head === "mean") for (let i = 0; i < result.length; ++i) result[i] += values[i] / kind.heads.length;
      else for (let i = 0; i < result.length; ++i) result[i] = Math.max(result[i], values[i]);
    }
    return result;
  }

  /// The cells that a layer's mask forbids, [queries * keys] with 1 for each, or null where it forbids none.
  blocked(kind, layer) {
    const mask = (kind.masks || []).find(one => one.layers.includes(layer));
    if (!mask) return null;
    if (!this.masks.has(mask)) {
      const distances = new Set(mask.distances), columns = kind.keys.length;
      this.masks.set(mask, Uint8Array.from({ length: kind.queries.length * columns }, (_, i) => distances.has(Math.floor(i / columns) - i % columns)));
    }
    return this.masks.get(mask);
  }

  /// Decodes numbers of `bits` bits: shares of the block's largest, from 0, or where it has signs, from -1.
  async unpack(block, bits) {
    const codes = await inflated(await this.pack(block.pack));
    const bytes = Math.ceil(bits / 8), count = codes.length / bytes, levels = 2 ** bits - 1, values = new Float32Array(count);
    const factor = block.largest / (block.signed ? (levels - 1) / 2 : levels), zero = block.signed ? (levels - 1) / 2 : 0;
    for (let i = 0; i < count; ++i) {
      let code = codes[i];
      for (let byte = 1; byte < bytes; ++byte) code = code * 256 + codes[byte * count + i];
      values[i] = (code - zero) * factor;
    }
    return values;
  }

  /// Queries and keys of a layer's head as {q, k, dims}, or null.
  async vectors(kind, layer, head) {
    const block = (kind.vectors || []).find(v => v.layer === layer);
    if (!block || typeof head !== "number") return null;
    const q = await this.unpack(block.q, 24), k = await this.unpack(block.k, 24), dims = block.dims;
    const group = block.heads / block.kv_heads, nq = kind.queries.length * dims, nk = kind.keys.length * dims, kv = Math.floor(head / group);
    return { q: q.subarray(head * nq, (head + 1) * nq), k: k.subarray(kv * nk, (kv + 1) * nk), dims };
  }
}
