import type { TaskClass } from '../../../base/domain/auto-table.ts'
import type { ChatJob } from '../../../base/domain/chat-job.ts'

export interface RequestFeatures {
  readonly taskClass: TaskClass
  /** In the order of `autoFeatures`. */
  readonly values: readonly number[]
}

/** The parts of a job that are read. */
export type FeatureSource = Pick<
  ChatJob,
  'forward' | 'source' | 'promptTextBytes' | 'messageCount' | 'maxTokens' | 'features'
>

/** Reads what a request is like. The time does not depend on its length: see `sampleText`. */
export function readFeatures(job: FeatureSource): RequestFeatures {
  const text = sampleText(job)
  const shares = countCharacters(text)
  const code = Math.min(1, shares.code * 8 + share(text, codeWords, 0.2))
  const math = Math.min(1, shares.math * 20 + share(text, mathWords, 0.34))
  const isLong = job.promptTextBytes > LONG_BYTES
  const has = (feature: 'tools' | 'images' | 'json_schema') => (job.features.has(feature) ? 1 : 0)
  return {
    taskClass: classOf({ code, math, isLong, hasImages: has('images') === 1, hasTools: has('tools') === 1 }),
    values: [
      Math.min(1, Math.log2(job.promptTextBytes + 1) / 24),
      code,
      math,
      Math.min(1, shares.digits * 5),
      share(text, reasoningWords, 0.34),
      shares.nonAscii,
      shares.cjk,
      has('tools'),
      has('images'),
      has('json_schema'),
      Math.min(1, Math.log2(job.messageCount + 1) / 8),
      Math.min(1, Math.log2((job.maxTokens ?? USUAL_OUTPUT_TOKENS) + 1) / 15),
    ],
  }
}

const LONG_BYTES = 64_000
const USUAL_OUTPUT_TOKENS = 256

function classOf(is: {
  code: number
  math: number
  isLong: boolean
  hasImages: boolean
  hasTools: boolean
}): TaskClass {
  if (is.hasImages) return 'vision'
  if (is.code >= 0.4 && is.code >= is.math) return 'code'
  if (is.math >= 0.4) return 'math'
  if (is.isLong) return 'long'
  return is.hasTools ? 'tools' : 'general'
}

const codeWords =
  /```|\b(?:function|class|return|import|const|def|void|struct|SELECT|INSERT|compile|compiler|refactor|regex|stack trace|unit tests?|TypeScript|JavaScript|Python|Rust|SQL|bug)\b/g
const mathWords =
  /\\(?:frac|sum|int|sqrt)|\$\$|\b(?:solve|equation|integral|derivative|theorem|proof|prove|probability|calculate|how many|how much|percent|triangle|polynomial|matrix)\b/gi
const reasoningWords = /\b(?:why|explain|step by step|analy[sz]e|compare|design|plan|argue|evaluate|trade-offs?)\b/gi

/** Returns `each` for every match, at most 1. */
function share(text: string, words: RegExp, each: number): number {
  return Math.min(1, (text.match(words)?.length ?? 0) * each)
}

/** Returns the shares of kinds of characters. */
function countCharacters(text: string): { code: number; math: number; digits: number; nonAscii: number; cjk: number } {
  let code = 0
  let math = 0
  let digits = 0
  let nonAscii = 0
  let cjk = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit > 127) {
      nonAscii++
      if (unit >= 0x3040 && unit <= 0xd7ff) cjk++
      else if (unit >= 0x2200 && unit <= 0x22ff) math++
    } else if (unit >= 48 && unit <= 57) digits++
    else kindOf[unit] === 1 ? code++ : kindOf[unit] === 2 && math++
  }
  const length = Math.max(1, text.length)
  return {
    code: code / length,
    math: math / length,
    digits: digits / length,
    nonAscii: nonAscii / length,
    cjk: cjk / length,
  }
}

/** By character: 1 is typical of code, 2 of mathematics. */
const kindOf = new Uint8Array(128)
for (const character of '{}[];<>_`|&#@\\') kindOf[character.charCodeAt(0)] = 1
for (const character of '=+*^/%') kindOf[character.charCodeAt(0)] = 2

/**
 * Returns pieces of the text of a request, at most about 8,000 characters however long it is: of the first two and the
 * last two messages, the beginning and the end of each text. Reads every dialect: each has another name for its
 * messages.
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
