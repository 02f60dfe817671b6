import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { type Seal, sealFamilies } from '../../base/domain/conversation.ts'

const PREFIX = 'sy1.'
/** Begins the seals with text to inflate. */
const TEXT_PREFIX = `${PREFIX}text.`
const REDACTED = '~'
/** Where the text stands next to its seal, nothing that a client sends is inflated. */
const NO_HIDDEN_TEXT = 0
/** Reasoning longer than this, in UTF-8 bytes, is not carried. It is far above what models write in one step. */
const TEXT_BYTES_MAX = 1_048_576
/** Hidden reasoning of one request may inflate to this many bytes in all; the rest is dropped. */
const REQUEST_BYTES_MAX = 4_194_304
/** Inflating so many texts takes about 40 ms. A conversation has at most one for each of its messages. */
const REQUEST_TEXTS_MAX = 4_096
/** A text that does not inflate counts as so many: exceptions are expensive, and no client changes its seals. */
const TEXTS_PER_FAILURE = 64
/** One byte of deflated data can inflate to a thousand. */
const EXPANSION_MAX = 64
const EXPANSION_BYTES_MIN = 4_096
/** What the tag of an account may consist of; a dot would end it. */
const ACCOUNT = /^[\w-]{0,64}$/

/** A seal as a client sends it back, with the text of the reasoning if the seal carries it. */
export interface CarriedSeal {
  readonly seal: Seal
  /** Set for the family `text`, unless the text travels next to the seal. */
  readonly text?: string
}

/**
 * Encodes a seal for a client: `sy1.<family>.<tag of the account>.<data>`. A seal of the family that the client's
 * dialect expects stays as it is, unless only one account accepts it. A tilde behind the account marks Anthropic's
 * redacted thinking.
 *
 * @param ownFamily the family of the client's dialect
 * @param hiddenText for the family `text`: the reasoning, if the client does not get it as text. It is deflated.
 */
export function wrapSeal(
  { family, data, account = '', isRedacted }: Seal,
  ownFamily: Seal['family'],
  hiddenText = '',
): string {
  if (family === ownFamily && account === '') return data
  const carried = family === 'text' ? deflateText(hiddenText) : data
  return `${PREFIX}${family}.${ACCOUNT.test(account) ? account : ''}${isRedacted ? REDACTED : ''}.${carried}`
}

/**
 * Reads a seal that a client sent back next to its text. Returns null for a wrapped one that is invalid. Other texts
 * are seals of the client's own family.
 */
export function readSeal(text: string, ownFamily: Seal['family']): Seal | null {
  if (!isWrappedSeal(text)) return { family: ownFamily, data: text }
  return unwrapSeal(text, NO_HIDDEN_TEXT)?.seal ?? null
}

/** Whether a text claims to be a wrapped seal, valid or not. */
export function isWrappedSeal(text: string): boolean {
  return text.startsWith(PREFIX)
}

/**
 * Decodes a seal that `wrapSeal` encoded. Returns null for other texts, and for data that inflates to more than
 * `bytesMax`: they come from a client, which may send anything.
 */
export function unwrapSeal(text: string, bytesMax = TEXT_BYTES_MAX): CarriedSeal | null {
  if (!isWrappedSeal(text)) return null
  const familyEnd = text.indexOf('.', PREFIX.length)
  const accountEnd = text.indexOf('.', familyEnd + 1)
  if (familyEnd === -1 || accountEnd === -1) return null
  const family = sealFamilies.find(each => each === text.slice(PREFIX.length, familyEnd))
  if (family === undefined) return null
  const tag = text.slice(familyEnd + 1, accountEnd)
  const isRedacted = family === 'anthropic' && tag.endsWith(REDACTED)
  const account = isRedacted ? tag.slice(0, -REDACTED.length) : tag
  if (!ACCOUNT.test(account)) return null
  const data = text.slice(accountEnd + 1)
  const tagged = { family, ...(account !== '' && { account }), ...(isRedacted && { isRedacted }) }
  if (family !== 'text') return { seal: { ...tagged, data } }
  const hiddenText = inflateText(data, bytesMax)
  if (hiddenText === null) return null
  return { seal: { ...tagged, data: '' }, ...(hiddenText !== '' && { text: hiddenText }) }
}

/**
 * Unwraps the seals of one request, which together may inflate to no more than 4 MiB. Data that could not be read
 * count too: a client could otherwise make the gateway inflate the same megabyte for each block of a large body.
 */
export class SealReader {
  #bytesLeft = REQUEST_BYTES_MAX
  #textsLeft = REQUEST_TEXTS_MAX

  /** Decodes a seal, as `unwrapSeal` does. */
  read(text: string): CarriedSeal | null {
    if (text.startsWith(TEXT_PREFIX) && this.#textsLeft-- <= 0) return null
    const carried = unwrapSeal(text, this.#bytesLeft)
    if (carried === null) this.#textsLeft -= TEXTS_PER_FAILURE
    this.#bytesLeft -= carried === null ? Math.min(this.#bytesLeft, expandedMax(text.length)) : byteLength(carried.text)
    return carried
  }
}

function byteLength(text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(text)
}

function expandedMax(deflatedBytes: number): number {
  return Math.min(TEXT_BYTES_MAX, Math.max(EXPANSION_BYTES_MIN, deflatedBytes * EXPANSION_MAX))
}

function deflateText(text: string): string {
  return text === '' || Buffer.byteLength(text) > TEXT_BYTES_MAX
    ? ''
    : deflateRawSync(Buffer.from(text)).toString('base64url')
}

function inflateText(data: string, bytesMax: number): string | null {
  if (data === '') return ''
  const deflated = Buffer.from(data, 'base64url')
  const maxOutputLength = Math.min(bytesMax, expandedMax(deflated.length))
  if (maxOutputLength < 1) return null
  try {
    return inflateRawSync(deflated, { maxOutputLength }).toString()
  } catch {
    return null
  }
}
