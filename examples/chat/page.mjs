// The page: it shows the words of the agent as they come, and asks for an approval. With React, `rondo/react` has hooks for the same.
import { connect } from "rondo/client";

const at = (id) => document.querySelector(`#${id}`);

document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask(new FormData(event.target).get("question")).catch((error) => {
    at("answer").textContent = error.message;
  });
});

async function ask(question) {
  const started = await fetch("/chats", { method: "POST", body: JSON.stringify({ question }) });
  const { id, token, url } = await started.json();
  const execution = connect({ url, token }).execution(id);
  for (const name of ["approve", "reject"]) at(name).onclick = () => execution.signal(name);
  await Promise.all([showWords(execution), showState(execution)]);
}

async function showWords(execution) {
  for await (const { chunks } of execution.stream("words")) at("words").textContent += chunks.join("");
}

async function showState(execution) {
  for await (const { status, output, published } of execution.watch()) {
    at("approval").hidden = published?.asks === undefined || published.asks === null;
    at("asks").textContent = `The agent wants to: ${published?.asks}.`;
    if (status === "done") at("answer").textContent = output;
  }
}
