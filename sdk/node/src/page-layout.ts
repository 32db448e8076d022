/** Layout of the page that a worker shares with its server or pool (protocol/PROTOCOL.md, section 6). Words are 32 bits. */

export const PAGE_BYTES = 282_624;
export const FORMAT = 0x46420001;
export const FORMAT_WORD = 0;
export const BELL_WORD = 64 / 4;
export const HEAD_WORD = 128 / 4;
export const TAIL_WORD = 192 / 4;
export const CLAIM_WORDS = 4096 / 4;
export const SLOTS = 4096;
export const OUTBOX_AT = 20_480;
export const OUTBOX_BYTES = 262_144;

/** States of a claim word, in its two lowest bits. */
export const OFFERED = 1;
export const CLAIMED = 2;
export const REVOKED = 3;
