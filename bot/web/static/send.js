// Sends what people type and press. Nothing typed is lost: a form is emptied only after it was taken.
import { refresh, touched } from "./live.js";

const words = document.body.dataset;

/** The composer and the reply box. */
export async function sendForm(form) {
  const box = form.elements.text;
  if (busy(form) || !box.value.trim()) {
    box.focus();
    return;
  }
  const sent = { text: box.value };
  if (form.elements.workspace) sent.workspace = form.elements.workspace.value;
  if (form.elements.plan?.checked) sent.plan = true;
  const note = form.querySelector("[data-note]");
  const done = begin(form, form.querySelector("button[type=submit]"));
  try {
    const answer = await post(form.dataset.send, sent);
    if (answer.url) {
      form.reset();
      location.assign(answer.url);
      return;
    }
    if (box.value === sent.text) box.value = "";
    say(note, answer.text, false);
    refresh();
  } catch (problem) {
    say(note, problem.message, true);
  } finally {
    done();
  }
}

/** A button of a card. */
export function pressCard(button) {
  // Of a batch, a step's own button is about its own form, and the one about all is about each.
  const around = button.closest(".card-step") ?? button.closest(".card");
  const forms = [...around.querySelectorAll("details.card-more-change form")];
  const edited = forms.find((form) => [...form.elements].some(isEdited));
  if (edited && /^(approve.*|always.*)$/.test(button.dataset.verb)) {
    edited.closest("details").open = true;
    complain(button.closest(".block"), words.edited);
    return;
  }
  act(button, button, {});
}

function isEdited(field) {
  return field.name && touched(field);
}

/** A form of a card: its fields go as they are. */
export function submitCard(form) {
  const fields = {};
  for (const [name, value] of new FormData(form)) (fields[name] ??= []).push(value);
  act(form, form.querySelector("button[type=submit]"), fields, form);
}

async function act(from, button, fields, form = null) {
  const card = from.closest(".card");
  if (busy(card)) return;
  const { verb, inquiry, task, revision, seen } = from.dataset;
  const url = inquiry ? `/cards/${inquiry}/${verb}` : `/t/${task}/${verb}`;
  const done = begin(card, button);
  const block = from.closest(".block");
  complain(block, "");
  try {
    await post(url, inquiry ? { revision: Number(revision), fields, seen } : {});
    if (form) form.dataset.sent = "yes";
    await refresh();
  } catch (problem) {
    complain(block, problem.message);
    if (problem.status === 403 || problem.status === 409 || problem.status === 410) await refresh();
  } finally {
    done();
  }
}

/** Says under a card what went wrong, in place of what was said there before. */
function complain(block, text) {
  for (const old of block.querySelectorAll(":scope > .note")) old.remove();
  if (!text) return;
  const note = document.createElement("p");
  note.className = "note";
  note.setAttribute("role", "alert");
  block.append(note);
  say(note, text, true);
  note.scrollIntoView({ block: "nearest" });
}

function busy(element) {
  return element.dataset.busy === "yes";
}

/** Shows that something is being sent; the returned function ends that. Focus stays where it is. */
function begin(element, button) {
  element.dataset.busy = "yes";
  button.setAttribute("aria-disabled", "true");
  const label = button.textContent;
  const slow = setTimeout(() => (button.textContent = words.sending), 150);
  return () => {
    clearTimeout(slow);
    delete element.dataset.busy;
    button.removeAttribute("aria-disabled");
    button.textContent = label;
  };
}

async function post(url, sent) {
  let answer;
  try {
    answer = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(sent),
    });
  } catch {
    throw new Error(words.unreachable);
  }
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return told;
  if (answer.status === 401) throw Object.assign(new Error(words.signedOut), { status: 401 });
  const { message, hint } = told.error ?? { message: words.unreachable, hint: "" };
  throw Object.assign(new Error([message, hint].filter(Boolean).join("\n")), { status: answer.status });
}

function say(note, text, wrong) {
  note.hidden = !text;
  note.classList.toggle("note-error", wrong);
  note.textContent = text ?? "";
}
