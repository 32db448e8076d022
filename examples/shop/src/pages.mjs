// The pages as HTML. `html` escapes every value.
import { html } from 'forebay';
import { CATEGORIES, QUANTITY_MAX, total } from './orders.mjs';

const HUES = { green: 95, black: 20, herbal: 330 };

/** Cents as an amount of money: 1250 is € 12.50. */
export const money = (cents) => `€ ${(cents / 100).toFixed(2)}`;

const time = (iso) => html`<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')}</time>`;

const layout = (title, content, { count, live } = {}) => html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${title} · Leeward Tea</title>
    <link rel="icon" href="/public/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/public/shop.css">
    ${live && html`<script type="module" src="/public/follow.mjs"></script>`}
  </head>
  <body>
    <header><a class="brand" href="/">Leeward Tea</a><a class="button quiet" href="/cart">Cart${count > 0 && html` <b>${count}</b>`}</a></header>
    <main data-live="${live}">${content}</main>
  </body>
</html>`;

const countOf = (lines) => lines.reduce((sum, { quantity }) => sum + quantity, 0);

const picture = (hue) => html`<svg viewBox="0 0 120 72" preserveAspectRatio="xMidYMid slice" role="presentation">
  <rect width="120" height="72" fill="hsl(${hue} 42% 84%)"/>
  <path d="M38 26h38v16a16 16 0 0 1-16 16h-6a16 16 0 0 1-16-16z" fill="hsl(${hue} 38% 34%)"/>
  <path d="M76 31h5a7 7 0 0 1 0 14h-6" fill="none" stroke="hsl(${hue} 38% 34%)" stroke-width="4"/>
  <path d="M50 20c-4-5 4-7 0-12M62 20c-4-5 4-7 0-12" fill="none" stroke="hsl(${hue} 30% 60%)" stroke-width="2.5" stroke-linecap="round"/>
</svg>`;

export const catalogue = ({ category, search, products, cart }) => {
  const tab = (name, label) => html`<a href="/?category=${name}" aria-current="${(category ?? '') === name ? 'page' : 'false'}">${label}</a>`;
  const availability = (left) => (left === 0 ? 'Sold out' : left < 5 ? `Only ${left} left` : 'In stock');
  const card = ({ ref, name, category, price, text, left }) => html`<li class="card">
    ${picture(HUES[category])}
    <h2>${name}</h2>
    <p>${text}</p>
    <form method="post" action="/cart">
      <input type="hidden" name="product" value="${ref}">
      <input type="hidden" name="quantity" value="${(cart.find((line) => line.ref === ref)?.quantity ?? 0) + 1}">
      <span class="price">${money(price)}<small>${availability(left)}</small></span>
      <button ${left === 0 && 'disabled'}>Add<span class="hidden"> ${name}</span></button>
    </form>
  </li>`;
  return layout('Teas', html`
    <nav aria-label="Categories">${tab('', 'All teas')}${CATEGORIES.map((name) => tab(name, name))}</nav>
    <form class="search" role="search"><input type="search" name="search" value="${search}" maxlength="50" placeholder="Find a tea" aria-label="Find a tea"></form>
    ${products.length === 0 ? html`<p class="empty">No tea is called that.</p>` : html`<ul class="cards">${products.map(card)}</ul>`}`, { count: countOf(cart) });
};

const table = (lines, quantity) => html`<table>
  <thead><tr><th>Tea<th>Quantity<th>Price</thead>
  <tbody>${lines.map((line) => html`<tr><td>${line.name}<td>${quantity(line)}<td>${money(line.price * line.quantity)}`)}</tbody>
  <tfoot><tr><td colspan="2">Total<td>${money(total(lines))}</tfoot>
</table>`;

export const cart = ({ lines, order, problem }) => {
  const quantity = (line) => html`<form method="post" action="/cart" class="quantity">
    <input type="hidden" name="product" value="${line.ref}">
    <input type="number" name="quantity" value="${line.quantity}" min="0" max="${QUANTITY_MAX}" aria-label="Quantity of ${line.name}">
    <button class="quiet">Change</button>
  </form>`;
  return layout('Cart', html`<h1>Your cart</h1>
    ${problem && html`<p class="problem" role="alert">We cannot take this order: ${problem}.</p>`}
    ${lines.length === 0 ? html`<p class="empty">It is empty. <a href="/">Choose a tea</a></p>` : html`${table(lines, quantity)}
    <form method="post" action="/orders" class="checkout">
      <h2>Checkout</h2>
      <input type="hidden" name="order" value="${order}">
      <label>Name<input name="name" required maxlength="100" autocomplete="name"></label>
      <label>E-mail<input name="email" type="email" required maxlength="200" autocomplete="email"></label>
      <button>Order for ${money(total(lines))}</button>
    </form>`}`, { count: countOf(lines) });
};

export const order = ({ id, name, email, lines, status, placed, shipped, confirmed }) => layout('Order', html`
  <h1>Thank you, ${name}!</h1>
  <ol class="steps">
    <li class="done">Ordered<small>${time(placed)}</small></li>
    <li class="${status === 'shipped' && 'done'}">${status === 'shipped' ? html`Shipped<small>${time(shipped)}</small>` : 'Being packed'}</li>
  </ol>
  <p>${confirmed ? 'A confirmation was sent to' : 'We are sending a confirmation to'} ${email}. Keep the address of this page: it is where you see what becomes of your order.</p>
  ${table(lines, ({ quantity }) => quantity)}`, { live: `/orders/${id}/live` });

export const staff = (orders) => {
  const action = ({ id, status, shipped }) => status === 'shipped' ? html`shipped ${time(shipped)}` : html`<form method="post" action="/staff/orders/${id}/ship"><button>Ship</button></form>`;
  const row = (order) => html`<tr><td>${time(order.placed)}<td><a href="/orders/${order.id}">${order.name}</a><td>${order.lines.map(({ quantity, name }) => `${quantity} × ${name}`).join(', ')}<td>${money(order.total)}<td>${action(order)}`;
  return layout('Orders', html`<h1>Orders</h1>
    ${orders.length === 0 ? html`<p class="empty">There are none yet.</p>` : html`<table class="wide"><thead><tr><th>Placed<th>Customer<th>Teas<th>Total<th>Status</thead><tbody>${orders.map(row)}</tbody></table>`}`,
  { live: '/staff/orders/live' });
};
