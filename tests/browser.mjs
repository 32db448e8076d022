// Chromium without a window, spoken to in the DevTools protocol over two pipes: messages of JSON, each ended by a NUL.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How long a test waits for what must happen. Long, because only a failing test ever waits that long. */
const PATIENCE_MS = 30_000;
const LOOK_EVERY_MS = 10;
const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

function program() {
  const named = process.env.FOREBAY_CHROMIUM;
  if (named) return named;
  const found = NAMES.find((name) => spawnSync(name, ['--version']).status === 0);
  assert.ok(found, `no Chromium in PATH (looked for ${NAMES.join(', ')}): install it (Debian: apt-get install chromium), or name one in FOREBAY_CHROMIUM`);
  return found;
}

/** A browser; end it with {@link Browser.close}. */
export class Browser {
  #child;
  #profile = mkdtempSync(join(tmpdir(), 'forebay-browser-'));
  #waiting = new Map();
  #listeners = new Map();
  #last = 0;
  #said = '';

  /** `ready` selects what a page has once it can be used; {@link Tab.open} waits for it. */
  constructor(ready = 'body') {
    this.ready = ready;
    this.#child = spawn(
      program(),
      // Without the sandbox because tests may run as root, where Chromium has none.
      ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${this.#profile}`, 'about:blank'],
      { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], env: { ...process.env, HOME: this.#profile } },
    );
    this.#child.stderr.on('data', (bytes) => (this.#said = (this.#said + bytes).slice(-4000)));
    let rest = '';
    this.#child.stdio[4].setEncoding('utf8').on('data', (text) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop();
      for (const message of messages) this.#take(JSON.parse(message));
    });
    this.#child.on('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`Chromium has ended: ${this.#said}`));
    });
  }

  #take({ id, result, error, method, params, sessionId }) {
    if (id === undefined) {
      this.#listeners.get(sessionId)?.(method, params);
      return;
    }
    const { resolve, reject, what } = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) reject(new Error(`${what}: ${error.message}`));
    else resolve(result);
  }

  /** Sends a command, and resolves to its result. */
  send(method, params = {}, sessionId = undefined) {
    this.#last += 1;
    const id = this.#last;
    const { promise, resolve, reject } = Promise.withResolvers();
    this.#waiting.set(id, { resolve, reject, what: method });
    this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return promise;
  }

  /** A new tab. The page keeps nothing in the browser, so tabs share a profile: one of their own costs as much as a test. */
  async tab({ width = 1280, height = 800, dark = false, scale = 1 } = {}) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const tab = new Tab(this, sessionId);
    this.#listeners.set(sessionId, (method, params) => tab.hear(method, params));
    await tab.send('Page.enable');
    await tab.send('Runtime.enable');
    await tab.send('Log.enable');
    await tab.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: scale, mobile: width < 600 });
    await tab.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    return tab;
  }

  async close() {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    await this.send('Browser.close').catch(() => {});
    await ended;
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** A page as a person has it before them. */
export class Tab {
  /** Errors that the page has not caught, and what its policy has refused. */
  complaints = [];
  #browser;
  #session;

  constructor(browser, session) {
    this.#browser = browser;
    this.#session = session;
  }

  send(method, params) {
    return this.#browser.send(method, params, this.#session);
  }

  hear(method, params) {
    if (method === 'Runtime.exceptionThrown') this.complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Runtime.consoleAPICalled' && params.type === 'error') this.complaints.push(params.args.map(({ value, description }) => value ?? description).join(' '));
    if (method === 'Log.entryAdded' && params.entry.level === 'error' && params.entry.source !== 'network') this.complaints.push(params.entry.text);
    if (method === 'Page.javascriptDialogOpening') this.complaints.push(`a dialog: ${params.message}`);
  }

  async open(url) {
    await this.send('Page.navigate', { url });
    await this.until('the page to be there', (ready) => document.querySelector(ready) !== null, this.#browser.ready);
  }

  /** What a function says in the page. Its arguments must be JSON. */
  async run(work, ...given) {
    const expression = `(${work})(${given.map((value) => JSON.stringify(value)).join(',')})`;
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until a function says in the page something that is true, and gives it. */
  async until(what, work, ...given) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      // While a page makes way for another one it cannot be asked.
      const found = await this.run(work, ...given).catch(() => undefined);
      if (found) return found;
      if (Date.now() > end) {
        const text = await this.run(() => `${location.hash}\n${document.body.innerText}`);
        throw new Error(`waited ${PATIENCE_MS} ms for ${what}; the page shows ${text}\n${this.complaints.join('\n')}`);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }

  /** Waits until a text is to be seen. */
  sees(text) {
    return this.until(`“${text}”`, (text) => document.body.innerText.includes(text), text);
  }

  /** Waits until the main heading is this. */
  heading(text) {
    return this.until(`the heading “${text}”`, (text) => document.querySelector('h1')?.innerText === text, text);
  }

  /** Clicks with the mouse on what has a role and a name, once it is there. */
  async click(role, name) {
    const { x, y } = await this.until(`the ${role} “${name}”`, place, role, name);
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
  }

  /** Puts text in place of what an entry has, as if it was typed. */
  async type(label, text) {
    await this.until(`the entry “${label}”`, focusOn, label);
    await this.run(() => document.activeElement.select?.());
    if (text === '') await this.key('Delete');
    else await this.send('Input.insertText', { text });
  }

  /** Presses a key. */
  async key(key, modifiers = 0) {
    const codes = { Tab: 9, Enter: 13, Escape: 27, Delete: 46, ' ': 32 };
    const text = { Enter: '\r', ' ': ' ' }[key] ?? (key.length === 1 ? key : undefined);
    const event = { key, code: key === ' ' ? 'Space' : key, windowsVirtualKeyCode: codes[key] ?? key.toUpperCase().charCodeAt(0), modifiers };
    await this.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text, ...event });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  back() {
    return this.run(() => history.back());
  }

  /** A picture, as PNG. */
  async picture() {
    return Buffer.from((await this.send('Page.captureScreenshot', { format: 'png' })).data, 'base64');
  }
}

// What follows runs in the page.

/** Text against what is behind it (WCAG 2, 1.4.3): where it is too faint. */
export function tooFaint() {
  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const light = ([r, g, b]) => {
    const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const behind = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const { rgb, a } = parse(getComputedStyle(at).backgroundColor);
      if (a === 1) return rgb;
    }
    return [255, 255, 255];
  };
  const faint = [];
  let seen = 0;
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== '') || element.matches('input, textarea, select');
    if (!own || !element.checkVisibility({ visibilityProperty: true }) || element.matches(':disabled, noscript, option')) continue;
    seen += 1;
    const [one, other] = [light(parse(getComputedStyle(element).color).rgb), light(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) faint.push(`${element.tagName} “${element.textContent.slice(0, 30)}” ${ratio.toFixed(2)}`);
  }
  return { seen, faint };
}

function place(role, name) {
  const selectors = { link: 'a[href]', button: 'button, a.button, summary', choice: 'select', box: 'input[type=checkbox]', row: 'tbody tr' };
  const scope = document.querySelector('dialog[open]') ?? document;
  const called = (element) => (element.getAttribute('aria-label') ?? element.innerText).trim();
  const matches = (element) => (role === 'row' ? called(element).includes(name) : called(element) === name || element.labels?.[0]?.innerText === name);
  const found = [...scope.querySelectorAll(selectors[role])].find((element) => matches(element) && element.checkVisibility() && !element.disabled);
  if (found === undefined) return undefined;
  found.scrollIntoView({ block: 'center' });
  const { x, y, width, height } = found.getBoundingClientRect();
  const point = { x: x + width / 2, y: y + height / 2 };
  // What is covered cannot be clicked.
  const hit = document.elementFromPoint(point.x, point.y);
  return hit !== null && (found.contains(hit) || hit.contains(found)) ? point : undefined;
}

function focusOn(label) {
  const called = (input) => input.getAttribute('aria-label') ?? input.labels?.[0]?.firstChild.textContent;
  const input = [...document.querySelectorAll('input, textarea, select')].find((input) => called(input) === label);
  input?.focus();
  return input !== undefined && document.activeElement === input;
}
