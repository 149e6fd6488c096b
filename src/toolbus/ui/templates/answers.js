// Answers to questions. The code is typed once, and is in this variable only.
{
  const STILL = 700;
  const ENDED = "ended, or changed: load the page again";
  let code = "";
  const places = new WeakMap();
  const sending = new WeakSet();
  const formsOf = () => document.querySelectorAll("form.answer");

  // A press counts if the buttons of its form have stood still in the window for 0.7 s.
  function isReady(form) {
    const buttons = [...form.querySelectorAll("button[name]")];
    const boxes = buttons.map((button) => button.getBoundingClientRect());
    const place = boxes.map((box) => [box.left, box.top]).join();
    if (places.get(form)?.place !== place) places.set(form, { place, since: performance.now() });
    const isStill = performance.now() - places.get(form).since >= STILL;
    const isOn = isStill && !sending.has(form) && !form.matches(".ended");
    for (const button of buttons) button.setAttribute("aria-disabled", !isOn);
    return isOn;
  }
  function watch() {
    for (const form of formsOf()) {
      form.querySelector("label.code").classList.toggle("known", code !== "");
      isReady(form);
    }
  }
  watch();
  setInterval(watch, 100);

  document.addEventListener("submit", async (event) => {
    const [form, button] = [event.target, event.submitter];
    if (!form.matches(".answer")) return;
    event.preventDefault();
    const output = form.querySelector("output");
    const isOn = isReady(form);
    if (!isOn) output.textContent ||= "the form has just moved: press again";
    if (!isOn || !button?.name) return;
    const body = new URLSearchParams(new FormData(form, button));
    if (code) body.set("code", code);
    sending.add(form);
    output.textContent = "sending";
    const reply = await fetch(form.action, { method: "POST", body }).catch(() => null);
    const result = parse(await reply?.text() ?? "").querySelector("[role=status]");
    const unknown = "no reply: load the page again to see whether the answer counts";
    output.textContent = result?.textContent ?? unknown;
    sending.delete(form);
    if (!result) return;
    code = reply.status === 403 ? "" : body.get("code");
    for (const each of formsOf()) each.elements.code.value = "";
    form.classList.toggle("ended", reply.ok);
    watch();
  });

  // Updates, by the rules at the head of question.html, when script.js tells of a change.
  const list = document.getElementById("waiting");
  let planned = 0;
  async function refresh() {
    planned = 0;
    const reply = await fetch(list.dataset.source);
    if (!reply.ok) return;
    const fresh = [...parse(await reply.text()).querySelectorAll(".question")];
    const versions = new Set(fresh.map((each) => each.id + each.dataset.version));
    for (const form of list.querySelectorAll("form.answer:not(.ended)")) {
      const article = form.closest("article");
      if (versions.has(article.id + article.dataset.version)) continue;
      form.classList.add("ended");
      form.querySelector("output").textContent ||= ENDED;
    }
    if (fresh.length) list.querySelector(".none")?.remove();
    list.append(...fresh.filter((each) => !document.getElementById(each.id)));
  }
  if (list) document.addEventListener("toolbus-news", () => { planned ||= setTimeout(refresh, 1000); });
}
