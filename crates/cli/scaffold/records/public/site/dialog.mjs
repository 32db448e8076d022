// Questions that must be answered before anything goes on.
import { h } from './dom.mjs';

/** Asks; resolves to whether the answer is yes. Escape is no. */
export function confirm({ title, text, yes, no = 'Cancel', danger = false }) {
  return new Promise((resolve) => {
    const answer = (value) => () => dialog.close(value);
    const dialog = h(
      'dialog',
      { 'aria-labelledby': 'dialog-title', 'aria-describedby': 'dialog-text' },
      h('h2', { id: 'dialog-title' }, title),
      h('p', { id: 'dialog-text' }, text),
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'button', autofocus: true, onclick: answer('no') }, no),
        h('button', { type: 'button', class: danger ? 'danger' : 'primary', onclick: answer('yes') }, yes),
      ),
    );
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
