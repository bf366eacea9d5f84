/* ---- documents: each page's image with its boxes, next to what stands on it ---- */
let reading = null;  // {controller, name, texts}
const NAMED = {amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'", "#39": "'"};
// Tables come as HTML: their rows and cells become elements, and whatever else is in them text.
const tableOf = html => make("div", {className: "table", tabIndex: 0}, make("table", {}, ...[...html.matchAll(/<tr>([^]*?)<\/tr>/g)].map(([, row]) =>
  make("tr", {}, ...[...row.matchAll(/<t[dh]([^>]*)>([^]*?)<\/t[dh]>/g)].map(([, spans, text]) =>
    make("td", {rowSpan: spans.match(/rowspan="(\d+)/)?.[1] || 1, colSpan: spans.match(/colspan="(\d+)/)?.[1] || 1},
      ...inline(text.replace(/&(#?\w+);/g, (all, name) => NAMED[name] ?? all))))))));
function showRead(holder, page) {
  for (const part of page.markdown.split(/(<table[^]*?<\/table>|!\[img-[^\]]*\]\([^)]*\))/)) {
    const image = page.images.find(one => part === `![${one.id}](${one.id})`);
    if (image) holder.append(make("img", {src: image.image_base64, alt: "Figure"}));
    else if (part.startsWith("<table")) holder.append(tableOf(part));
    else if (part.trim()) showMarkdown(holder.appendChild(make("div")), part);
  }
}
function addPage(page) {
  const sheet = make("figure"), text = make("div", {className: "markdown"}), name = "Page " + (page.index + 1);
  if (page.error) text.append(make("p", {className: "error"}, name + ": " + page.error.message));
  else {
    const {width, height} = page.dimensions, part = (value, all) => 100 * value / all + "%";
    sheet.append(make("img", {src: page.page_image, alt: name}), ...page.blocks.map(b => make("i", {title: b.type, style: {
      left: part(b.top_left_x, width), top: part(b.top_left_y, height),
      width: part(b.bottom_right_x - b.top_left_x, width), height: part(b.bottom_right_y - b.top_left_y, height)}})));
    showRead(text, page);
    reading.texts.push(page.markdown);
  }
  $("sheets").append(make("article", {}, sheet, text));
}
async function readDocument(file, name) {
  const own = reading = {controller: new AbortController(), name, texts: []}, say = text => { $("read-state").textContent = text; };
  let n = 0, all = 0, rest = "";
  $("read-name").textContent = name;
  $("sheets").replaceChildren();
  $("reader").showModal();
  say("Reading…");
  try {
    const response = await send("v1/ocr", {method: "POST", signal: own.controller.signal, headers: {"Content-Type": "application/json"},
      body: JSON.stringify({document: {document_url: await readFile(file)}, stream: true, include_image_base64: true, ommatidia: {page_images: true}})});
    if (!response.ok) throw new Error(await messageOf(response));
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
      const events = (rest + piece).split("\n\n");
      rest = events.pop();
      for (const event of events.filter(line => line.startsWith("data: {")).map(line => JSON.parse(line.slice(6)))) {
        if (event.error && !event.object) throw new Error(event.error.message);
        if (event.pages) all = event.pages.length;
        if (event.object === "ocr.page") { addPage(event); n++; }
        say(n + " of " + all + (all === 1 ? " page" : " pages"));
      }
    }
  } catch (error) {
    if (own === reading) say(inWords(error));
  }
}
$("reader").onclose = () => { reading?.controller.abort(); reading = null; };
$("read-close").onclick = () => $("reader").close();
$("read-close").before(Object.assign(copyButton(() => reading.texts.join("\n\n")), {className: "button small"}), make("button", {type: "button", className: "button small", onclick: () =>
  make("a", {download: reading.name.replace(/\.\w+$/, "") + ".md", href: URL.createObjectURL(new Blob([reading.texts.join("\n\n") + "\n"]))}).click()}, "Download"));
function offerReading() {
  $("ideas").append(make("button", {type: "button", className: "button small", onclick: () => readDocument(pending[0].file, pending[0].name)}, "Read as a document"));
}
