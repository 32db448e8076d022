// The policy allows no script within the page. Texts of others are shown as text.
const list = document.querySelector('#notes');

async function show() {
  const notes = await (await fetch('api/notes')).json();
  list.replaceChildren(
    ...notes.map(({ text }) => {
      const item = document.createElement('li');
      item.textContent = text;
      return item;
    }),
  );
}

document.querySelector('#form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const text = new FormData(event.target).get('text');
  const headers = { 'content-type': 'application/json' };
  await fetch('api/notes', { method: 'POST', headers, body: JSON.stringify({ text }) });
  event.target.reset();
  await show();
});

show();
