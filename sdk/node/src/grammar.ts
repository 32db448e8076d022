/** Grammar of HTTP message heads. */

/** Methods and field names (RFC 9110, section 5.6.2). */
export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Field values (RFC 9110, section 5.5) as Latin-1 text. */
export const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
