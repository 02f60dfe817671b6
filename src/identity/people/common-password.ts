import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { joined, type Said } from '../../base/domain/said.ts'
import { textBefore } from '../../base/runtime/collections.ts'
import { loadOnce } from '../../base/runtime/load-once.ts'
import { hashPassword } from './password.ts'

/** Hashes a password that a person sets. Rejects like `requireUncommon`. */
export async function hashNewPassword(password: string, email: string, param = 'password'): Promise<string> {
  await requireUncommon(password, email, param)
  return hashPassword(password)
}

/**
 * Rejects with `invalid_value` if a password is one of the first that an attacker tries.
 *
 * @param param the field at fault
 */
export async function requireUncommon(password: string, email: string, param = 'password'): Promise<void> {
  const reason = await weaknessOf(password, email)
  if (reason === null) return
  throw new ApiError('invalid_value', { message: joined(reason, sayRefusal('refusal.password_choose')), param })
}

/** Returns why attackers would guess a password soon, or null. */
export async function weaknessOf(password: string, email: string): Promise<Said | null> {
  const typed = password.normalize('NFKC').toLowerCase()
  if (new Set(typed).size < DISTINCT_MIN) return sayRefusal('refusal.password_few_characters')
  if (isSequence(typed)) return sayRefusal('refusal.password_row')
  const { passwords, words } = await loadCommon()
  if (passwords.has(typed)) return sayRefusal('refusal.password_common')
  const [local = '', host = ''] = email.toLowerCase().split('@')
  const own = new Set([local, host, textBefore(host, '.'), email.toLowerCase(), ...SITE_WORDS])
  for (const form of [typed, withoutLeet(typed)]) {
    const word = repeatedPart(withoutEdges(form))
    if (word === '') return sayRefusal('refusal.password_no_letters')
    if (words.has(word) || own.has(word)) {
      return sayRefusal('refusal.password_word')
    }
  }
  return null
}

const DISTINCT_MIN = 5
const SITE_WORDS = ['switchyard', 'switchyardgateway']
const LETTER = /\p{L}/u

/** Removes the digits and signs at both ends, which people add to a word because they must. */
function withoutEdges(text: string): string {
  const characters = [...text]
  const first = characters.findIndex(character => LETTER.test(character))
  return first < 0 ? '' : characters.slice(first, lastLetter(characters) + 1).join('')
}

function lastLetter(characters: readonly string[]): number {
  return characters.findLastIndex(character => LETTER.test(character))
}

const LEET: Readonly<Record<string, string>> = {
  0: 'o',
  1: 'i',
  3: 'e',
  4: 'a',
  5: 's',
  7: 't',
  '@': 'a',
  $: 's',
  '!': 'i',
}

function withoutLeet(text: string): string {
  const characters = [...text]
  // The digits at the end are usually a number, not letters.
  const last = lastLetter(characters)
  return characters.map((character, index) => (index < last ? (LEET[character] ?? character) : character)).join('')
}

/** Returns `abc` for `abcabc`, and other texts as they are. */
function repeatedPart(text: string): string {
  const period = `${text}${text}`.indexOf(text, 1)
  return period < text.length ? text.slice(0, period) : text
}

const ROWS = [
  'abcdefghijklmnopqrstuvwxyz',
  '01234567890',
  '1234567890',
  'qwertyuiopasdfghjklzxcvbnm',
  'qwertzuiopasdfghjklyxcvbnm',
  'azertyuiopqsdfghjklmwxcvbn',
]

/** Whether the text is a piece of one of the rows, forwards or backwards, once or repeated. */
function isSequence(text: string): boolean {
  const backwards = [...text].reverse().join('')
  return ROWS.some(row => {
    const round = row.repeat(Math.ceil(text.length / row.length) + 1)
    return round.includes(text) || round.includes(backwards)
  })
}

/** How many of the most common passwords count as words, whatever is put around them. */
const WORD_RANKS = 10_000
const WORD_LETTERS_MIN = 4

interface Common {
  readonly passwords: ReadonlySet<string>
  readonly words: ReadonlySet<string>
}

/** Loads the list on first use: 49,233 passwords that people really chose, the most common first. */
const loadCommon = loadOnce(async (): Promise<Common> => {
  const { dictionary } = await import('@zxcvbn-ts/language-common')
  const ranked = dictionary['passwords-common'].map(String)
  const words = ranked.slice(0, WORD_RANKS).map(password => withoutEdges(password.toLowerCase()))
  return { passwords: new Set(ranked), words: new Set(words.filter(word => word.length >= WORD_LETTERS_MIN)) }
})
