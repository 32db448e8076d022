/** What HTTP allows in heads. */

/** Methods and names of fields (RFC 9110, 5.6.2). */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Values of fields (RFC 9110, 5.5), whose bytes are Latin-1 text. */
export const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
