/* ---- the server ---- */
let key = store(sessionStorage, KEY);
const headers = more => ({...more, ...(key ? {Authorization: "Bearer " + key} : {})});
async function messageOf(response) {
  const text = await response.text();
  try { return JSON.parse(text).error.message; } catch { return response.status + " " + response.statusText; }
}
// Browsers report every failure below HTTP as a TypeError of a few words.
const inWords = error => error instanceof TypeError ? "The server cannot be reached. Is it still running, and this device still on its network?" : error.message;
let unlocked = null, canRead = false;  // whether the server reads documents
function askForKey(wrong) {
  $("lock-error").hidden = !wrong;
  $("lock-error").textContent = wrong ? "The server does not know this key." : "";
  if (!$("lock").open) $("lock").showModal();
  $("key").select();
  return new Promise(resolve => { unlocked = resolve; });
}
$("lock-form").onsubmit = event => {
  event.preventDefault();
  key = $("key").value.trim();
  store(sessionStorage, KEY, key);
  $("lock").close();
};
$("lock-cancel").onclick = () => { key = null; $("lock").close(); };
$("lock").oncancel = () => { key = null; };
$("lock").onclose = () => { unlocked?.(Boolean(key)); unlocked = null; };

// Sends a request; where a key is asked for, the user is, until there is one that is right.
async function send(path, options = {}) {
  for (;;) {
    const response = await fetch(BASE + path, {...options, headers: headers(options.headers)});
    if (response.status !== 401) return response;
    const wrong = Boolean(key);
    key = null;
    store(sessionStorage, KEY, null);
    if (!await askForKey(wrong)) throw new Error("The server asks for an API key.");
  }
}
async function loadModel() {
  try {
    const response = await send("v1/models");
    if (!response.ok) throw new Error(await messageOf(response));
    const model = (await response.json()).data[0];
    $("model").textContent = model.id + " · " + model.max_model_len.toLocaleString("en") + " tokens";
    $("model").title = $("model").textContent;
    contextSize = model.max_model_len;
    if (model.capabilities?.ocr && !canRead) offerReading();
    canRead = Boolean(model.capabilities?.ocr);
  } catch (error) {
    $("model").textContent = inWords(error);
  }
}
