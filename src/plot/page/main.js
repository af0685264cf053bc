// The page of heed attend: one picture, with its data on the page.
const data = AttentionData.ofPage();
const viewer = new Viewer({ aside: true, shown: () => history.replaceState(null, "", "#" + viewer.address()) });

function start() {
  viewer.open([{ data }]);
  viewer.read(location.hash.slice(1));
}
$("title").textContent = data.title;
$("title").onclick = () => $("title").classList.toggle("whole");
$("precision").textContent = "Numbers have " + data.bits + " bits: steps of 1/" + (2 ** data.bits - 1) + " of each map's largest.";
if (data.scored) $("why").textContent = "Logits without this head come from a pass in which its output was replaced by zeros.";
window.onhashchange = () => viewer.read(location.hash.slice(1));
data.loadPicture().then(start);
