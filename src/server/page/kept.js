/* ---- the conversation survives a reload ---- */
// In IndexedDB: the turns under "talk", and each image's file under an id. A new conversation clears it.
const MOST_KEPT = 64 << 20;  // bytes of images
const SAVED = ["question", "text", "thought", "thinkingSeconds", "media", "usage", "reason", "stopped", "failure", "ended"];
let opened = null, work = Promise.resolve(), keptBytes = 0;

function openStore() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("ommatidia " + BASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("kept");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}
async function withStore(mode, act) {
  const transaction = (await openStore()).transaction("kept", mode), request = act(transaction.objectStore("kept"));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}
// One after the other; a browser without storage says so once, where the conversation stands.
function inTurn(act) {
  work = work.then(act).catch(() => {
    if (!turns.length || $("talk").dataset.lost) return;
    $("talk").dataset.lost = "true";
    addNote(turns.at(-1), "This browser keeps no conversation: it will be gone when the page is left.");
  });
  return work;
}
async function keepImage(image, turn) {
  const id = Date.now() + " " + Math.random();
  image.id = "none";
  if (keptBytes + image.file.size <= MOST_KEPT) {
    try {
      await withStore("readwrite", store => store.put(image.file, id));
      keptBytes += image.file.size;
      image.id = id;
      return;
    } catch { /* no room in the browser either */ }
  }
  turn.asked.append(make("p", {className: "note"}, image.name + " is too large to keep: it will be missing when the page is loaded again."));
}
const keep = () => inTurn(async () => {
  for (const turn of [...turns]) for (const image of turn.images) if (!image.id && image.file) await keepImage(image, turn);
  const saved = turns.map(turn => ({...Object.fromEntries(SAVED.map(name => [name, turn[name]])), images: turn.images.map(({id, name}) => ({id, name}))}));
  await withStore("readwrite", store => store.put(saved, "talk"));
});
// The page may be left before the database is cleared: what is to be forgotten is noted at once.
const FORGET = "ommatidia-forget " + BASE;
const clear = async () => { await withStore("readwrite", store => store.clear()); store(localStorage, FORGET, null); };
const forget = () => { keptBytes = 0; store(localStorage, FORGET, "yes"); return inTurn(clear); };

const restore = () => inTurn(async () => {
  if (store(localStorage, FORGET)) return clear();
  const saved = await withStore("readonly", store => store.get("talk")) ?? [], images = new Map();
  for (const {id, name} of saved.flatMap(turn => turn.images)) {
    const file = await withStore("readonly", store => store.get(id));
    keptBytes += file?.size ?? 0;
    images.set(id, file ? Object.assign(await imageOf(file, name), {id}) : null);
  }
  if (turns.length) return;
  for (const {images: kept, ...old} of saved) {
    const found = kept.map(({id, name}) => images.get(id) ?? {id: "none", name, figures: []});
    shown.push(...found.filter(image => image.data));
    const turn = Object.assign(addQuestion(old.question, found), old);
    if (!old.ended) turn.stopped = "The page was left before the answer was complete.";
    finish(turn);
    if (found.some(image => !image.data)) addNote(turn, "Later questions go without the images that were not kept.");
    if (!hasAnswer(turn)) takeBack(turn);
  }
  showState();
});
