/** Numbers, times and sizes as people read them, always with their unit. */

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const PRECISE = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

/** Stands where there is no value. */
export const NONE = '–';

type Optional = number | null | undefined;

const of = (value: Optional, write: (value: number) => string): string => (value === null || value === undefined || Number.isNaN(value) ? NONE : write(value));

/** Three significant digits below a thousand, all digits above. */
export const number = (value: Optional): string => of(value, (value) => (Math.abs(value) >= 1000 ? WHOLE : PRECISE).format(value));

export const rate = (value: Optional): string => of(value, (value) => `${number(value)}/s`);

/** A duration given in microseconds. */
export const duration = (us: Optional): string =>
  of(us, (us) => {
    if (us < 1000) return `${PRECISE.format(us)} µs`;
    if (us < 1e6) return `${PRECISE.format(us / 1e3)} ms`;
    if (us < 60e6) return `${PRECISE.format(us / 1e6)} s`;
    return age(us / 1e6);
  });

/** A duration of minutes to years, given in seconds: its two largest units. */
export const age = (seconds: Optional): string =>
  of(seconds, (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
    if (hours < 1) return `${minutes} min ${Math.floor(seconds % 60)} s`;
    if (days < 1) return `${hours} h ${minutes % 60} min`;
    return `${days} d ${hours % 24} h`;
  });

export const bytes = (value: Optional): string =>
  of(value, (value) => {
    const power = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
    return `${power === 0 ? WHOLE.format(value) : PRECISE.format(value / 1024 ** power)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
  });

export const cores = (value: Optional): string => of(value, (value) => `${PRECISE.format(value)} cores`);

export const share = (value: Optional): string => of(value, (value) => `${PRECISE.format(value * 100)} %`);

const TIME = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });

/** The time of day, of a moment in milliseconds since 1970; of another day, with its date. */
export const clock = (ms: Optional): string => of(ms, (ms) => (DAY.format(ms) === DAY.format(Date.now()) ? TIME.format(ms) : `${DAY.format(ms)}, ${TIME.format(ms)}`));

/** `1 worker`, `2 workers`. */
export const several = (count: number, noun: string): string => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;
