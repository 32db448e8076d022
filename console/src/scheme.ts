/** Dark or light: as the system has it, unless the user has chosen. */
import { Cell } from './cell';

export type Choice = 'system' | 'light' | 'dark';

const KEY = 'forebay-scheme';
const system = matchMedia('(prefers-color-scheme: dark)');

const kept = localStorage.getItem(KEY);
export const choice = new Cell<Choice>(kept === 'dark' || kept === 'light' ? kept : 'system');
/** Whether the page is dark. */
export const scheme = new Cell(false);

function apply(): void {
  const { value } = choice;
  const dark = value === 'system' ? system.matches : value === 'dark';
  document.documentElement.style.colorScheme = value === 'system' ? 'light dark' : value;
  localStorage.setItem(KEY, value);
  scheme.value = dark;
}

choice.follow(apply);
system.addEventListener('change', apply);
apply();
