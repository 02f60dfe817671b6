import type { CodedSentence } from '../../../src/base/domain/said.ts'
import { dateText } from '../format/time-text.ts'
import { messageText } from './i18n.ts'

/**
 * A code of the API in words, such as `first_token_timeout`. console/texts-of-codes.ts lists those that are translated.
 * Others, such as codes of servers and of newer gateways, stay as they are, with blanks.
 */
export function codeText(code: string): string {
  return globalThis.switchyardTexts?.codes[code] ?? code.replaceAll(/[._]/g, ' ')
}

/** A text of the API in the language of the page: English, or if a code has no text there. */
export function saidText(text: string, codes: readonly CodedSentence[]): string {
  return translated(codes) ?? text
}

/** What a check found, in the language of the page; null: nothing is wrong. */
export function problemText(found: {
  readonly problem: string | null
  readonly problem_codes: readonly CodedSentence[]
}): string | null {
  return found.problem === null ? null : saidText(found.problem, found.problem_codes)
}

/**
 * An error of the API in the language of the page. If the language only has the text of its code, and the API said more, that follows
 * in English.
 */
export function errorText(code: string, message: string, codes: readonly CodedSentence[] = []): string {
  const general = globalThis.switchyardTexts?.codes[`error ${code}`]
  const detailed = globalThis.switchyardTexts?.codes[`detail ${code}`]
  return translated(codes) ?? general ?? (detailed === undefined ? message : `${detailed} ${message}`)
}

/** Undefined: the page is in English, or its language lacks one of the sentences. */
function translated(codes: readonly CodedSentence[]): string | undefined {
  const known = globalThis.switchyardTexts?.sentences
  const sentences = codes.flatMap(({ code, values }) => {
    const message = known?.[code]
    const { at } = values
    return message === undefined
      ? []
      : [messageText(message, at === undefined ? values : { ...values, at: dateText(new Date(at)) })]
  })
  if (codes.length === 0 || sentences.length < codes.length) return undefined
  // Chinese has no blanks between sentences.
  return sentences.join(' ').replaceAll(/(?<=[。！？；：]) /g, '')
}
