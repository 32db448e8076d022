// What the shop sells, what is in carts, and what has been ordered. Prices are whole cents.
//
//   Product(ref)            a record: name, category, price, text
//   Stock(ref)              how many there are; never below zero
//   Cart(id)                quantities by the reference of the product; expires
//   Order(id)               what was ordered, by whom, and what has become of it
import { HttpError, store } from 'forebay';
import { records, tql } from 'forebay/records';

export const CATEGORIES = ['green', 'black', 'herbal'];
export const QUANTITY_MAX = 20;
const CART_MS = 14 * 24 * 3600 * 1000;

/** The products of a category, or all, whose names contain `search`. */
export function products({ category, search } = {}) {
  const where = ['AND', ['EQ', 'kind', "'Product"]];
  if (category) where.push(['EQ', 'category', `'${category}`]);
  if (search) where.push(['REGEX', 'name', `'(?i)${search.replace(/[!-/:-@[-`{-~]/g, '\\$&')}`]);
  const { results } = tql({ where, select: { ref: '$ref', product: '$' }, sort: 'name', limit: 100 });
  return results.map(({ ref, product }) => ({ ...product, ref, left: store.get('Stock', ref) ?? 0 }));
}

/** The lines of a cart, at today's prices. */
export function cart(id) {
  const quantities = Object.entries((id && store.get('Cart', id)) ?? {});
  return quantities.flatMap(([ref, quantity]) => {
    const product = records.read(Number(ref), 'Product');
    return product === undefined ? [] : [{ ref: Number(ref), name: product.name, price: product.price, quantity }];
  });
}

export const total = (lines) => lines.reduce((sum, { price, quantity }) => sum + price * quantity, 0);

/** Sets how many of a product are in a cart; with 0 it leaves the cart. */
export function setQuantity(id, ref, quantity) {
  if (!Number.isSafeInteger(ref) || records.read(ref, 'Product') === undefined) throw new HttpError(422, 'there is no such product');
  if (!Number.isInteger(quantity) || quantity < 0 || quantity > QUANTITY_MAX) throw new HttpError(422, `a quantity is 0 to ${QUANTITY_MAX}`);
  store.transaction(() => {
    const node = store.node('Cart', id);
    if (quantity === 0) node.at(ref).delete();
    else node.set(ref, quantity);
    node.expire(Date.now() + CART_MS);
  });
}

/**
 * Orders what is in a cart: all of it, or nothing. The id comes with the form, so whoever sends it twice orders once.
 *
 * Throws HttpError 409 when the cart is empty, or when there is not enough of a product.
 */
export function placeOrder(id, cartId, { name, email }) {
  store.transaction(() => {
    if (store.node('Order', id).exists) return;
    const lines = cart(cartId);
    if (lines.length === 0) throw new HttpError(409, 'the cart is empty');
    for (const { ref, name, quantity } of lines) {
      const left = store.node('Stock', ref).increment(-quantity);
      // The error undoes the transaction, so the stock is as before.
      if (left < 0) throw new HttpError(409, `of ${name} there are only ${left + quantity} left`);
    }
    store.set('Order', id, { name, email, lines, total: total(lines), placed: new Date().toISOString(), status: 'placed' });
    store.delete('Cart', cartId);
  });
}

export const order = (id) => store.get('Order', id);

/** The latest orders, newest first. */
export const latestOrders = () => [...store.query('order-placed', { reverse: true, limit: 50 })].map((node) => ({ id: node.key, ...node.document }));

/** Notes that an order has left the house. */
export function ship(id) {
  store.transaction(() => {
    if (store.get('Order', id, 'status') !== 'placed') throw new HttpError(409, 'only an order that is placed can be shipped');
    store.set('Order', id, 'status', 'shipped');
    store.set('Order', id, 'shipped', new Date().toISOString());
  });
}
