// The page of the API in app.py: what there is, and a form for more.
"use strict";
const form = document.querySelector("form");
const list = document.querySelector("ul");

async function show() {
  const items = await (await fetch("items")).json();
  list.replaceChildren(...Object.values(items).map((item) => {
    const line = document.createElement("li");
    line.textContent = `${item.name}: ${item.price}`;
    return line;
  }));
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const item = { name: form.elements.name.value, price: Number(form.elements.price.value) };
  const headers = { "Content-Type": "application/json" };
  await fetch("items", { method: "POST", headers, body: JSON.stringify(item) });
  form.reset();
  await show();
});

show();
