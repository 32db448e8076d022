// Keeps a page up to date: when the server says that there is news, or after a lost connection, the page's content is read again.
const { live } = document.querySelector('main').dataset;

async function refresh() {
  const response = await fetch(location.href);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  document.querySelector('main').replaceWith(page.querySelector('main'));
}

function follow() {
  const socket = new WebSocket(live);
  socket.addEventListener('open', refresh);
  socket.addEventListener('message', refresh);
  socket.addEventListener('close', () => setTimeout(follow, 1000));
}

follow();
