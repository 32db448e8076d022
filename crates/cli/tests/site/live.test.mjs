// The showcase's page of an event stream and WebSockets, at FOREBAY_SHOWCASE_URL, in Chromium.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Browser } from '../../../../tests/browser.mjs';

test('two visitors see the clock and each other', async () => {
  const browser = new Browser();
  try {
    const url = `${process.env.FOREBAY_SHOWCASE_URL}/live`;
    const [ada, grace] = [await browser.tab(), await browser.tab()];
    for (const tab of [ada, grace]) {
      await tab.send('Page.navigate', { url });
      await tab.sees('Welcome.');
      await tab.until('the clock runs', () => document.getElementById('clock').value.startsWith('20'));
    }
    await ada.sees('is here');
    await grace.run(() => {
      document.getElementById('message').value = 'good evening';
      document.getElementById('form').requestSubmit();
    });
    await grace.sees('you: good evening');
    await ada.sees(': good evening');
    await grace.run(() => {
      socket.onclose = null;
      socket.close();
    });
    await ada.sees('has left');
    assert.deepEqual(ada.complaints, []);
  } finally {
    await browser.close();
  }
});
