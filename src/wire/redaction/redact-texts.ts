import { redact } from '@arcjet/redact'
import { lintSource } from '@secretlint/core'
import { rules as secretRules } from '@secretlint/secretlint-rule-preset-recommend'
import type { RedactableText } from '../../base/domain/request-content.ts'
import { unescaped } from './unescaped.ts'

/**
 * Replaces what looks like a credential or like personal data in texts, which are searched together: a call has costs of its own.
 * `redactions`: how many pieces. It may take long for a text that is made for it: call it on a thread that can be ended.
 */
export async function redactTexts(
  texts: readonly RedactableText[],
): Promise<{ readonly texts: readonly string[]; readonly redactions: number }> {
  const pieces = await findPieces(texts.map(({ text }) => text).join(SEPARATOR))
  let redactions = 0
  let from = 0
  let next = 0
  const redacted = texts.map(({ text, length }) => {
    const [start, keptTo] = [from, from + Math.min(length, text.length)]
    from += text.length + SEPARATOR.length
    let open = ''
    let end = 0
    while (next < pieces.length && pieces[next]!.to <= start) next++
    // A piece may reach into the next text, so the loop does not move `next` beyond it.
    for (let at = next; at < pieces.length && pieces[at]!.from < keptTo; at++) {
      const piece = pieces[at]!
      open += `${text.slice(end, Math.max(end, piece.from - start))}[${piece.kind}]`
      end = Math.max(end, piece.to - start)
      redactions++
    }
    return open + text.slice(end, Math.min(length, text.length))
  })
  return { texts: redacted, redactions }
}

/** No pattern takes it for the inside of a word, a number or a key. */
const SEPARATOR = '\n\u0000\n'

interface Piece {
  readonly from: number
  readonly to: number
  readonly kind: 'CREDENTIAL' | 'EMAIL' | 'PHONE' | 'IP' | 'CARD'
}

/** Finds the pieces to replace, in order and apart from each other. */
async function findPieces(text: string): Promise<readonly Piece[]> {
  const plain = unescaped(text)
  const found = await findPiecesIn(text)
  if (plain !== null) {
    const ofPlain = await findPiecesIn(plain.text)
    found.push(...ofPlain.map(({ from, to, kind }) => ({ from: plain.indexOf(from), to: plain.indexOf(to), kind })))
  }
  const pieces: Piece[] = []
  for (const piece of found.toSorted((a, b) => a.from - b.from)) {
    const last = pieces.at(-1)
    if (last === undefined || piece.from >= last.to) pieces.push(piece)
    else {
      const kind = piece.kind === 'CREDENTIAL' ? piece.kind : last.kind
      pieces[pieces.length - 1] = { from: last.from, to: Math.max(last.to, piece.to), kind }
    }
  }
  return pieces
}

async function findPiecesIn(text: string): Promise<Piece[]> {
  const { messages } = await lintSource({
    source: { content: text, filePath: 'text.txt', ext: '.txt', contentType: 'text' },
    options: { noPhysicFilePath: true, config: { rules } },
  })
  const pieces: Piece[] = messages.map(({ range: [from, to] }) => ({ from, to, kind: 'CREDENTIAL' }))
  for (const pattern of [OWN_KEYS, PRIVATE_KEYS]) {
    for (const { index: from, 0: key } of text.matchAll(pattern))
      pieces.push({ from, to: from + key.length, kind: 'CREDENTIAL' })
  }
  return [...pieces, ...(await findPersonalData(text))]
}

/** Keys of this gateway, of customers, hosters and operators: see identity/auth/api-key.ts. */
const OWN_KEYS = /\b[hos]k-sy-[0-9A-Za-z]{16,64}/g

/** With or without its end: the text may have been cut. Those of secretlint need one, and at most 10,000 characters. */
const PRIVATE_KEYS =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[\w\s+/=\\,:.()-]*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[\w\s+/=\\,:.()-]*)/g

/**
 * Each rule by itself. The preset is made for repositories: one of its rules lets a comment in the text, `secretlint-disable`, switch
 * off the others, and a text that people or models write must not.
 */
const rules = secretRules
  .filter(({ meta }) => meta.id !== '@secretlint/secretlint-rule-filter-comments')
  .map(rule => ({
    id: rule.meta.id,
    rule,
    ...(rule.meta.id === '@secretlint/secretlint-rule-aws' && { options: { enableIDScanRule: true } }),
  }))

async function findPersonalData(text: string): Promise<Piece[]> {
  const found: { readonly kind: Piece['kind']; readonly plaintext: string }[] = []
  // The library returns the text, not the places, so it marks them with a character that the searched text does not have.
  const [marked] = await redact(text.replaceAll(MARK, ' '), {
    entities: ['email', 'phone-number', 'ip-address', 'credit-card-number'],
    replace(entity, plaintext) {
      found.push({ kind: kinds[entity as keyof typeof kinds], plaintext })
      return MARK
    },
  })
  const between = marked.split(MARK)
  if (between.length !== found.length + 1) throw new Error('Personal data was found at unknown places.')
  let at = 0
  return found.map(({ kind, plaintext }, index) => {
    const from = at + between[index]!.length
    at = from + plaintext.length
    return { from, to: at, kind }
  })
}

const MARK = '\uE000'

const kinds = {
  email: 'EMAIL',
  'phone-number': 'PHONE',
  'ip-address': 'IP',
  'credit-card-number': 'CARD',
} as const
