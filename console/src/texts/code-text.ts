/**
 * A code of the API in words, such as `first_token_timeout`. console/texts-of-codes.ts lists those that are translated.
 * Others, such as codes of servers and of newer gateways, stay as they are, with blanks.
 */
export function codeText(code: string): string {
  return globalThis.switchyardTexts?.codes[code] ?? code.replaceAll(/[._]/g, ' ')
}

/** The text of an error of the API in the language of the page. Undefined: the API's own words are the best there are. */
export function errorText(code: string): string | undefined {
  return globalThis.switchyardTexts?.codes[`error ${code}`]
}
