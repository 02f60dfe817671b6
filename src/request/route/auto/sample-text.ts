import type { ChatJob } from '../../../base/domain/chat-job.ts'

/**
 * Returns pieces of the text of a request, at most about 8,000 characters however long it is: of the first two and the
 * last two messages, the beginning and the end of each text. Reads every dialect: each has another name for its messages.
 */
export function sampleText(job: Pick<ChatJob, 'forward' | 'source'>): string {
  const messages = messagesOf(job.source?.body ?? job.forward)
  const pieces: string[] = []
  const read = messages.length <= 4 ? messages : [...messages.slice(0, 2), ...messages.slice(-2)]
  for (const message of read) collect(message, pieces, { visits: VALUES_MAX, pieces: PIECES_MAX })
  return pieces.join('\n')
}

/** Of one message: nested values, and texts. */
const VALUES_MAX = 64
const PIECES_MAX = 4
const BEGINNING = 400
const END = 100

/** Where the dialects have their messages. */
const names = ['messages', 'input', 'contents', 'prompt'] as const

function messagesOf(body: Readonly<Record<string, unknown>>): readonly unknown[] {
  for (const name of names) {
    const value = body[name]
    if (Array.isArray(value)) return value
    if (typeof value === 'string') return [value]
  }
  return []
}

function collect(value: unknown, pieces: string[], left: { visits: number; pieces: number }): void {
  if (left.visits-- <= 0 || left.pieces <= 0) return
  if (typeof value === 'string') {
    // Roles, types and ids are short. Images are addresses or base64 without blanks.
    if (value.length < 12 || !value.slice(0, 200).includes(' ')) return
    left.pieces--
    pieces.push(value.length <= BEGINNING + END ? value : `${value.slice(0, BEGINNING)}\n${value.slice(-END)}`)
  } else if (Array.isArray(value)) {
    for (const item of value.length <= 4 ? value : value.slice(-4)) collect(item, pieces, left)
  } else if (typeof value === 'object' && value !== null) {
    for (const key in value) collect((value as Record<string, unknown>)[key], pieces, left)
  }
}
