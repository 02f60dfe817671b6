// Characters that change how the text around them is shown: control characters, line and paragraph separators, and
// bidirectional marks. In the operator's list the name of a key is on the same line as its state, so a mark in the name
// could alter how the state reads. Written as ranges, because not every implementation of JSON Schema knows
// \p{Bidi_Control}. Half of a surrogate pair is no character: PostgreSQL refuses it in JSON.
const forbidden = '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff'
const FORBIDDEN = new RegExp(`[${forbidden}]`, 'u')
const ALL_FORBIDDEN = new RegExp(`[${forbidden}]`, 'gu')

/** 1 to 200 characters that are safe to show in terminals, mails and pages. */
export const PLAIN_TEXT = new RegExp(`^[^${forbidden}]{1,200}$`, 'u')

/**
 * Replaces each character that is not safe to show. Half of a surrogate pair counts as one, so a cut text stays safe.
 */
export function toPlain(text: string): string {
  return text.replaceAll(ALL_FORBIDDEN, '\ufffd')
}

/** Whether a text of any length is safe to show in terminals, mails and pages. */
export function isPlain(text: string): boolean {
  return !FORBIDDEN.test(text)
}
