"use strict";

// The next part of a timeline comes when its link is near; without scripts the link leads there.
const further = new IntersectionObserver((entries) => {
  entries.filter((entry) => entry.isIntersecting).forEach((entry) => extend(entry.target));
}, { rootMargin: "600px" });

async function extend(link) {
  further.unobserve(link);
  const answer = await fetch(link.dataset.part);
  if (!answer.ok) return;
  const part = new DOMParser().parseFromString(await answer.text(), "text/html");
  link.parentElement.replaceWith(...part.body.childNodes);
  watchFurther();
}

function watchFurther() {
  document.querySelectorAll("a[data-part]").forEach((link) => further.observe(link));
}
watchFurther();
