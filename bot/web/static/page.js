// Starts the page: forms and buttons send, regions keep themselves up to date.
import { follow, refresh, toEnd } from "./live.js";
import { sendForm, pressCard, submitCard } from "./send.js";

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.verb) {
    event.preventDefault();
    submitCard(form);
  } else if (form.dataset.send) {
    event.preventDefault();
    sendForm(form);
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-verb]");
  if (button) pressCard(button);
  const example = event.target.closest("button[data-example]");
  if (example) {
    const box = document.getElementById(example.dataset.example);
    box.value = example.textContent;
    box.focus();
  }
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
    const form = event.target.closest("form[data-send], form[data-verb]");
    if (form) {
      event.preventDefault();
      form.requestSubmit();
    }
  }
  const menu = event.target.closest("details.menu[open]");
  if (event.key === "Escape" && menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// Opening a form of a card leads into it, and closes the card's other form.
document.addEventListener(
  "toggle",
  (event) => {
    const more = event.target;
    if (!more.open || !more.classList?.contains("card-more") || more.dataset.restored) {
      delete more.dataset?.restored;
      return;
    }
    for (const other of more.closest(".card").querySelectorAll("details.card-more[open]")) {
      if (other !== more) other.open = false;
    }
    more.scrollIntoView({ block: "nearest" });
    more.querySelector("textarea, input, select")?.focus({ preventScroll: true });
  },
  true,
);

// Words typed for "other" mean that "other" is chosen.
document.addEventListener("input", (event) => {
  const match = /^other\.(\d+)$/.exec(event.target.name || "");
  if (!match || !event.target.value.trim()) return;
  const box = event.target.form.querySelector(`input[name="answer.${match[1]}"][value="other"]`);
  if (box) box.checked = true;
});

const scroll = document.getElementById("scroll");
if (scroll) toEnd(scroll);

if (document.body.dataset.live) {
  follow();
  // A running job's clock ticks although nothing else happens.
  setInterval(() => {
    if (!document.hidden && document.querySelector(".block[data-key='status'] .card-working")) refresh();
  }, 5000);
}
