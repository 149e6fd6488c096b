// Answers to questions. The code is typed once, and is in this variable only.
{
  const STILL = 700;
  const ENDED = "It waits no longer: it was answered or withdrawn, or it has expired.";
  let code = "";
  const places = new WeakMap();
  const sending = new WeakSet();
  const formsOf = () => document.querySelectorAll("form.answer");
  const buttonsOf = (form) => [...form.querySelectorAll("button[name]")];

  // A click counts if the buttons of its form have stood still in the window for 0.7 s.
  function isStill(form) {
    const boxes = buttonsOf(form).map((button) => button.getBoundingClientRect());
    const place = boxes.map((box) => [box.left, box.top]).join();
    if (places.get(form)?.place !== place) places.set(form, { place, since: performance.now() });
    return performance.now() - places.get(form).since >= STILL;
  }
  function watch() {
    for (const form of formsOf()) {
      form.querySelector("label.code").hidden = code !== "";
      const isOff = !isStill(form) || sending.has(form);
      for (const button of buttonsOf(form)) button.setAttribute("aria-disabled", isOff);
    }
  }
  watch();
  setInterval(watch, 100);

  async function send(form, button, output) {
    const fields = new URLSearchParams(new FormData(form, button));
    if (code) fields.set("code", code);
    const headers = { accept: "text/plain" };
    const reply = await fetch(form.action, { method: "POST", body: fields, headers });
    const isOurs = reply.headers.get("content-type")?.startsWith("text/plain");
    output.textContent = isOurs ? await reply.text() : "it did not count: load the page again";
    if (!isOurs) return;
    code = reply.status === 403 ? "" : fields.get("code");
    for (const each of formsOf()) each.elements.code.value = "";
    if (!reply.ok) return;
    form.replaceChildren(output);
    form.className = "answered";
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form.answer")) return;
    event.preventDefault();
    if (!event.submitter?.name || sending.has(form) || !isStill(form)) return;
    const output = form.querySelector("output");
    sending.add(form);
    output.textContent = "sending";
    try {
      await send(form, event.submitter, output);
    } catch {
      output.textContent = "no reply: load the page again to see whether the answer counts";
    }
    sending.delete(form);
    watch();
  });

  // Updates, by the rules at the head of question.html; script.js tells of each change of the store.
  const list = document.getElementById("waiting");
  const isBusy = (article) => article.matches(":hover") || article.contains(document.activeElement);
  let timer = 0;
  function plan() {
    timer ||= setTimeout(() => { timer = 0; refresh().catch(plan); }, 1000);
  }
  async function refresh() {
    const reply = await fetch(list.dataset.source);
    if (!reply.ok) return;
    const other = new DOMParser().parseFromString(await reply.text(), "text/html");
    for (const fresh of other.querySelectorAll("#waiting > article")) {
      const old = document.getElementById(fresh.id);
      if (!old) list.append(fresh);
      else if (old.dataset.version !== fresh.dataset.version) change(old, fresh);
    }
    for (const old of list.querySelectorAll(":scope > article")) {
      const form = old.querySelector("form.answer");
      if (form && !sending.has(form) && !other.getElementById(old.id)) change(old);
    }
    if (list.querySelector("article")) list.querySelector(".none")?.remove();
  }
  function change(old, fresh) {
    if (isBusy(old)) return plan();
    const height = `${old.getBoundingClientRect().height}px`;
    if (fresh) old.replaceWith(fresh);
    else old.querySelector("form").replaceWith(ENDED);
    (fresh ?? old).style.minHeight = height;
  }
  if (list) document.addEventListener("toolbus-news", plan);
}
