/* ---- images to send ---- */
const readFile = file => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});
// What files begin with that the server reads; and what people take for images, in the words of `omma chat`.
const READABLE = /^(?:\xff\xd8|\x89PNG|RIFF.{4}WEBP|GIF8|BM|II\*\0|MM\0\*|.{4}ftyp(?:hei[cx]|hevc|mif1|msf1|avi[fs]))/s;
const MAGICK = "magick FILE out.png";
const FOREIGN = [
  [/^%PDF-/, "a PDF", "pdftoppm -png -r 100 FILE page makes an image of each page"],
  [/^.{4}ftypcrx/s, "a camera's raw image", "darktable-cli FILE out.png"],
  [/^(?:.{4}ftyp|\x1aE\xdf\xa3|RIFF.{4}AVI )/s, "a video", "ffmpeg -i FILE -vf fps=2 FRAMES/%d.png"],
  [/^\0\0\0\x0cjP {2}/, "a JPEG 2000 image", MAGICK],
  [/^(?:\0\0\0\x0cJXL |\xff\x0a)/, "a JPEG XL image", "djxl FILE out.png"],
  [/^8BPS/, "a Photoshop document", MAGICK],
  [/^\0\0\x01\0/, "an icon (ICO)", MAGICK],
  [/^PK\x03\x04/, "a ZIP archive", "unzip FILE"],
  [/^\x1f\x8b/, "compressed by gzip", "gunzip FILE"],
  [/^\s*(?:<!doctype html|<html)/i, "an HTML page, not the image itself", "download the image's own address"],
  [/^\s*<[^]*<?svg/, "an SVG drawing", "rsvg-convert FILE -o out.png"]];
async function whyRefused(file) {
  const start = String.fromCharCode(...new Uint8Array(await file.slice(0, 512).arrayBuffer()));
  if (READABLE.test(start)) return "";
  const [, what, hint] = FOREIGN.find(([begin]) => begin.test(start)) || [];
  return what ? "it is " + what + ": " + hint.replaceAll("FILE", file.name)
    : (file.size ? "it is in no known format" : "it is empty") + " (JPEG, PNG, WebP, GIF, BMP, TIFF, HEIF/AVIF)";
}
const imageOf = async (file, name) => ({file, name, url: URL.createObjectURL(file), data: await readFile(file), id: "", figures: []});
async function addFiles(files) {
  const refused = [], before = pending.length;
  for (const file of [...files]) {
    const name = file.name || "image";
    try {
      if (canRead && await file.slice(0, 5).text() === "%PDF-") { readDocument(file, name); continue; }
      const why = await whyRefused(file);
      if (why) refused.push(name + " was not added: " + why); else pending.push(await imageOf(file, name));
    } catch (error) {  // a folder, or a file that was removed meanwhile
      refused.push(name + " cannot be read: " + error.message);
    }
  }
  const added = pending.slice(before);
  if (added.length) announce(added.length === 1 ? "Image added: " + added[0].name : added.length + " images added");
  $("refused").replaceChildren(...refused.map(line => make("p", {}, line)));
  showPending();
  $("question").focus();
}
// An image, or its name where the browser cannot show what the server can read (HEIC, TIFF).
function showImage(image, alt) {
  const element = make("img", {src: image.url, alt});
  element.onerror = () => element.replaceWith(make("span", {className: "name"}, image.name));
  return element;
}
function showPending() {
  $("pending").replaceChildren(...pending.map((image, i) => make("li", {}, showImage(image, image.name),
    make("button", {type: "button", onclick: () => { URL.revokeObjectURL(image.url); pending.splice(i, 1); showPending(); $("question").focus(); },
                    attributes: {"aria-label": "Remove " + image.name}}, "×"))));
  showState();
}
function showState() {
  const empty = !$("question").value.trim(), begun = $("talk").hasChildNodes();
  $("welcome").hidden = begun;
  $("fresh").hidden = !begun;
  $("talk").classList.toggle("numbered", shown.length > 1);
  $("ideas").hidden = !pending.length || !empty || Boolean(running);
  $("send").firstElementChild.textContent = running ? "Stop" : "Ask";
  $("send").disabled = !running && empty;
}
const IDEAS = ["Describe this image.", "Read the text in this image.", "How many objects are there?", "Locate every object"];
const LOCATE = {one: 'Locate every object, as JSON: [{"bbox_2d": [x1, y1, x2, y2], "label": "..."}]',
                several: 'Locate every object, as JSON: [{"image": 1, "bbox_2d": [x1, y1, x2, y2], "label": "..."}]. "image" is the number of the image.'};
$("ideas").append(...IDEAS.map(idea => make("button", {type: "button", className: "button small", onclick: () => {
  $("question").value = !idea.startsWith("Locate") ? idea : shown.length + pending.length > 1 ? LOCATE.several : LOCATE.one;
  showState();
  $("question").focus();
}}, idea)));
$("attach").onclick = $("choose").onclick = () => $("files").click();
$("files").onchange = () => { addFiles($("files").files); $("files").value = ""; };
$("tune").onclick = () => {
  $("settings").hidden = !$("settings").hidden;
  if (!$("settings").hidden) $("settings").scrollIntoView({block: "nearest"});
  $("tune").setAttribute("aria-expanded", String(!$("settings").hidden));
};
document.addEventListener("paste", event => {
  const files = event.clipboardData?.files;
  if (files?.length) { event.preventDefault(); addFiles(files); }
});
let depth = 0;  // of elements that a drag is over
const isFiles = event => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragenter", event => { if (isFiles(event)) { depth++; $("drop").hidden = false; event.preventDefault(); } });
document.addEventListener("dragleave", event => { if (isFiles(event) && --depth <= 0) { depth = 0; $("drop").hidden = true; } });
document.addEventListener("dragover", event => { if (isFiles(event)) event.preventDefault(); });
document.addEventListener("drop", event => {
  if (!isFiles(event)) return;
  event.preventDefault();
  depth = 0;
  $("drop").hidden = true;
  addFiles(event.dataTransfer.files);
});
