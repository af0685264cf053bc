// The next token's probabilities as `heed generate` draws it (src/generate/processors.cpp): temperature, then top-k, then top-p.
/// Ids from the largest logit down; of equal ones, the lower id first.
function ranking(logits) {
  return Uint32Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
}
/// The probability of every token, 0 of those that are never drawn. `order` is ranking(logits); top_k 0 and top_p 1 keep all.
function sampled(logits, order, { temperature, top_k, top_p }) {
  const scores = Float32Array.from(logits, logit => logit / Math.fround(temperature)), largest = scores[order[0]];
  let kept = order.length;
  if (top_k > 0 && top_k < kept) {
    const least = scores[order[top_k - 1]];
    kept = top_k;
    while (kept < order.length && scores[order[kept]] === least) ++kept;
  }
  const sum = () => { let all = 0; for (let i = 0; i < kept; ++i) all += Math.exp(scores[order[i]] - largest); return all; };
  if (top_p < 1) {  // the least likely are dropped as long as they have at most 1 - p together
    const all = sum();
    let mass = 0;
    for (let i = kept; i > 1; --i) {
      mass += Math.exp(scores[order[i - 1]] - largest) / all;
      if (mass > 1 - top_p) break;
      kept = i - 1;
    }
  }
  const all = sum(), result = new Float64Array(logits.length);
  for (let i = 0; i < kept; ++i) result[order[i]] = Math.exp(scores[order[i]] - largest) / all;
  return result;
}
/// The id that a number from 0 to 1 chooses among probabilities.
function drawnFrom(probabilities, number) {
  let left = number, last = 0;
  for (let id = 0; id < probabilities.length; ++id) {
    if (!probabilities[id]) continue;
    last = id;
    left -= probabilities[id];
    if (left < 0) break;
  }
  return last;
}

/// How the page draws: the sliders of the flow, and what was drawn since the seed was set.
const drawing = { temperature: 1, top_k: 0, top_p: 1, seed: 1, made: [] };
/// The n-th of the numbers from 0 to 1 that follow a seed (mulberry32).
function randomNumber(seed, n) {
  const at = (seed + Math.imul(n + 1, 0x6D2B79F5)) | 0, mixed = Math.imul(at ^ at >>> 15, at | 1), last = mixed ^ mixed + Math.imul(mixed ^ mixed >>> 7, mixed | 61);
  return ((last ^ last >>> 14) >>> 0) / 2 ** 32;
}
/// Draws what follows a position, and keeps its probability.
function drawNext(logits, position) {
  const probabilities = sampled(logits, ranking(logits), drawing), id = drawnFrom(probabilities, randomNumber(drawing.seed, drawing.made.length));
  drawing.made.push({ id, position, probability: probabilities[id], token: "token " + id });
  return id;
}
/// Names what was drawn last by the answer to the text in which it stands.
function nameDrawn(answer) {
  const one = drawing.made[drawing.made.length - 1], { queries } = predictedKind(answer);
  one.token = queries[one.position + (modelNow().kind === "encoder-decoder" ? 0 : 1)] || one.token;
  $("drawn").textContent = drawnText();
}
function drawnText() {
  const { made } = drawing, shown = made.slice(-12);
  return made.length ? "Drawn: " + (made.length > shown.length ? "…, " : "") + shown.map(one => isolated(one.token) + " " + percent(one.probability)).join(", ") : "";
}
