// The image or sound that is shown, and a second one: chosen, dropped or pasted, and sent to the server, which names it by a number.
const largestFile = 32 * 2 ** 20;
const inputOf = about => about.input;
const takesFile = () => inputOf(modelNow()) !== "text";
const sent = new Map();  // by number: the file, to be sent again where the server has forgotten it

/// Sends a file; returns its number.
async function send(file) {
  if (file.size > largestFile) throw new Error(file.name + ": expected a file of at most " + largestFile / 2 ** 20 + " MiB, got " + (file.size / 2 ** 20).toFixed(1) + " MiB");
  if (!file.size) throw new Error(file.name + ": expected an " + (inputOf(modelNow()) === "image" ? "image" : "audio file") + ", got an empty file");
  let response;
  try {
    response = await fetch("/api/file?model=" + +ask.model, { method: "POST", headers: { "X-Heed-Token": token, "Content-Type": "application/octet-stream" }, body: file });
  } catch { throw new Error("the server does not answer: does heed explore still run?"); }
  const { file: number } = await answerOf(response);
  sent.set(number, file);
  return number;
}
/// Shows a file in one of the two places: "file" or "other_file".
async function takeFile(place, file) {
  if (!takesFile()) { complain(modelNow().name + " reads text, not files."); return; }
  $("status").textContent = "sending …";
  try {
    const number = await send(file), name = file.name || "pasted " + inputOf(modelNow());
    complain("");
    const patches = place === "other_file" ? ask.changes.map(one => one.patch ? { ...one, patch: { file: number } } : one) : ask.changes;
    change({ [place]: number, [place + "_name"]: name, changes: patches, ...(place === "file" ? { target_ids: null } : {}) });
    syncForm();
    if (place === "file" || ask.versus === "text") run();
    else $("status").textContent = "";
  } catch (error) {
    $("status").textContent = "";
    complain(error.message.replace(/^(image|sound): /, (file.name || "pasted file") + ": "));
  }
}
/// Sends what the server has forgotten once more; returns whether the request can be repeated.
async function sendAgain(error) {
  if (!/^file: not found/.test(error.message)) return false;
  const numbers = new Map();
  try {
    for (const number of new Set([ask.file, ask.other_file, ...ask.changes.map(one => one.patch && one.patch.file)])) {
      if (sent.has(number)) numbers.set(number, await send(sent.get(number)));
    }
  } catch { return false; }
  if (!numbers.size) return false;
  const now = number => numbers.get(number) || number;
  ask = { ...ask, file: now(ask.file), other_file: now(ask.other_file), changes: ask.changes.map(one => one.patch && one.patch.file ? { ...one, patch: { file: now(one.patch.file) } } : one) };
  return true;
}

/// Which part of a recording is shown of a model that writes what it hears.
function drawHeard({ heard }) {
  $("heard").hidden = !heard;
  if (!heard) return;
  const seconds = heard.seconds.toFixed(2) + " s", pads = heard.window > heard.seconds + 0.01;
  $("heard").textContent = (heard.more ? "Shown are the first " + seconds + " of the recording, all that the model hears at once" : "Shown is the whole recording, " + seconds) + (pads ? ", without the frames of silence behind it" : "") + ", and the attention of the decoder, not that within the encoder (heed attend FILE --kind encoder).";
}
function syncFiles() {
  const takes = takesFile(), what = inputOf(modelNow());
  $("text-box").hidden = takes;
  for (const place of ["file", "other_file"]) {
    const box = $(place + "-box"), shown = takes && (place === "file" || ask.versus === "text" || ask.other_file !== null);
    box.hidden = !shown;
    $(place).accept = what === "image" ? "image/*,.pnm,.ppm,.pgm,.pbm" : "audio/*,.wav,.flac,.ogg,.opus,.mp3";
    $(place + "-name").textContent = ask[place] === null ? "" : ask[place + "_name"] || what + " " + ask[place];
    $(place + "-title").textContent = (place === "file" ? what[0].toUpperCase() + what.slice(1) : "Second " + what + ", to compare with and to patch from");
    $(place + "-choose").textContent = ask[place] === null ? "Choose a file" : "Choose another";
  }
  $("patch").textContent = "Patch from second " + (takes ? what : "text");
}
function listenToFiles() {
  for (const place of ["file", "other_file"]) {
    $(place + "-choose").onclick = () => $(place).click();
    $(place).onchange = () => { const [file] = $(place).files; if (file) takeFile(place, file); $(place).value = ""; };
  }
  const placeOfEvent = event => event.target.closest && event.target.closest("#other_file-box") ? "other_file" : "file";
  const holdsFiles = event => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  const mark = event => { for (const box of document.querySelectorAll(".drop")) box.classList.toggle("over", !!event && takesFile() && box.id === placeOfEvent(event) + "-box"); };
  document.addEventListener("dragover", event => { if (!holdsFiles(event)) return; event.preventDefault(); mark(event); });
  document.addEventListener("dragleave", event => { if (!event.relatedTarget) mark(null); });
  document.addEventListener("drop", event => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    mark(null);
    const files = [...event.dataTransfer.files];
    if (files.length) takeFile(placeOfEvent(event), files[0]);
    if (files.length > 1 && takesFile()) takeFile(placeOfEvent(event) === "file" ? "other_file" : "file", files[1]);
  });
  document.addEventListener("paste", event => {
    const file = event.clipboardData && [...event.clipboardData.files][0];
    if (!file || !takesFile()) return;
    event.preventDefault();
    takeFile(document.activeElement && document.activeElement.closest("#other_file-box") ? "other_file" : "file", file);
  });
}

// ---- pictures to try, which the page draws: shapes [color, x, y, x, y, ...] of 96 x 96 pixels
const wheel = x => ["#1c1c1e", ...Array.from({ length: 12 }, (_, i) => [x + 8 * Math.cos(i * Math.PI / 6), 70 + 8 * Math.sin(i * Math.PI / 6)]).flat()];
const drawnPictures = {
  ship: [["#9cc4e8", 0, 0, 96, 0, 96, 60, 0, 60], ["#1f4e79", 0, 58, 96, 58, 96, 96, 0, 96], ["#5a2f2a", 10, 52, 88, 52, 76, 68, 22, 68], ["#f2f2ee", 30, 36, 66, 36, 66, 52, 30, 52], ["#c0392b", 42, 22, 52, 22, 52, 36, 42, 36]],
  airplane: [["#8fbbe6", 0, 0, 96, 0, 96, 96, 0, 96], ["#eef1f4", 6, 46, 78, 40, 92, 46, 78, 54, 10, 54], ["#c9d0d8", 36, 46, 58, 46, 40, 78, 30, 78], ["#c9d0d8", 40, 44, 56, 43, 46, 24, 38, 24], ["#b5413a", 6, 48, 18, 47, 10, 28, 3, 28]],
  truck: [["#cfd8dd", 0, 0, 96, 0, 96, 66, 0, 66], ["#77787a", 0, 64, 96, 64, 96, 96, 0, 96], ["#e8e4da", 8, 22, 62, 22, 62, 68, 8, 68], ["#b8322a", 62, 34, 82, 34, 90, 50, 90, 68, 62, 68], ["#bfe0f0", 68, 38, 80, 38, 85, 50, 68, 50], wheel(22), wheel(48), wheel(78)],
};
async function takePicture(name) {
  const canvas = element("canvas", null, { width: 96, height: 96 }), context = canvas.getContext("2d");
  for (const [color, ...points] of drawnPictures[name]) {
    context.fillStyle = color;
    context.beginPath();
    for (let i = 0; i < points.length; i += 2) context.lineTo(points[i], points[i + 1]);
    context.fill();
  }
  const drawn = await new Promise(done => canvas.toBlob(done, "image/png"));
  return takeFile("file", new File([drawn], "drawn " + name, { type: "image/png" }));
}
