/** Two customers write in different scripts, so that each letter of an answer shows the customer it belongs to. */
const alphabets = ['αβγδεζηθικλμνξοπρσ', 'бвгджзилмнпрстуфцч'] as const
export const customerCount = alphabets.length

const DIGITS = 8
const REPEATS = 20

/** The answer to one request: its number, written with the letters of its customer, twenty times. */
export function answerText(customer: number, request: number): string {
  const letters = alphabets[customer]!
  let word = ''
  for (let rest = request; word.length < DIGITS; rest = Math.floor(rest / letters.length)) {
    word += letters[rest % letters.length]
  }
  return word.repeat(REPEATS)
}

/** What a customer received in place of its answer. */
export type Found = 'own' | 'part of own' | 'own earlier' | 'mixed' | 'foreign'

/** Judges the text of an answer to this request. `raw`: all that the customer received, headers left out. */
export function judgeAnswer(customer: number, request: number, text: string, raw: string): Found {
  const foreign = alphabets.filter((_, other) => other !== customer)
  if (foreign.some(letters => [...letters].some(letter => raw.includes(letter)))) return 'foreign'
  const expected = answerText(customer, request)
  if (text === expected) return 'own'
  if (expected.startsWith(text)) return 'part of own'
  const word = text.slice(0, DIGITS)
  return word.repeat(REPEATS).startsWith(text) ? 'own earlier' : 'mixed'
}
