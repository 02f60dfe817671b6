// Controls, which steer terminals; what separates lines and paragraphs; and the marks that turn the direction of writing, with which a text changes how
// its neighbours are read: the name of a key stands in one line with its state in the operator's list. As ranges, since not every reader of a JSON Schema
// knows \p{Bidi_Control}.
const steering = '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069'
const STEERING = new RegExp(`[${steering}]`)

/** 1 to 200 characters that may be shown in terminals, mails and pages: nothing in them steers those. */
export const PLAIN_TEXT = new RegExp(`^[^${steering}]{1,200}$`, 'u')

/** The same of a text of any length. */
export function isPlain(text: string): boolean {
  return !STEERING.test(text)
}
