// Answers to questions. The code is typed once, and is in this variable only.
{
  const STILL = 700;
  let code = "";
  const places = new WeakMap();
  const formsOf = () => document.querySelectorAll("form.answer");

  // A press counts if the form has stood still in the window for 0.7 s, and is not sent or ended.
  function isReady(form) {
    const [place, now] = [JSON.stringify(form.getBoundingClientRect()), performance.now()];
    if (places.get(form)?.place !== place) places.set(form, { place, since: now });
    const isOn = now - places.get(form).since >= STILL && !form.matches(".off");
    for (const button of form.querySelectorAll("button[name]")) {
      button.setAttribute("aria-disabled", !isOn);
    }
    return isOn;
  }
  setInterval(() => formsOf().forEach(isReady), 100);

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
    form.classList.add("off");
    output.textContent = "sending";
    const reply = await fetch(form.action, { method: "POST", body }).catch(() => null);
    const result = parse(await reply?.text() ?? "").querySelector("main [role=status]");
    const unknown = "no reply: load the page again to see whether the answer counts";
    output.textContent = result?.textContent ?? unknown;
    form.classList.toggle("off", result !== null && reply.ok);
    if (!result) return;
    code = reply.status === 403 ? "" : body.get("code");
    for (const each of formsOf()) each.elements.code.value = "";
    document.body.classList.toggle("known", code !== "");
  });
}
