import type { JsonObject } from '../../base/runtime/json-object.ts'

/** A field with another value in each event of a stream that only adds text. */
export interface EventField {
  /** The name of the field with its colon, as it stands in the JSON. */
  readonly key: string
  /** `text`: the text of the answer. `padding`: a string without meaning. `count`: a positive whole number. */
  readonly kind: 'text' | 'padding' | 'count'
  /** Returns the value of the field in a parsed event. */
  valueIn(event: JsonObject): unknown
}

interface Step {
  /** The constant part of the event before the value. */
  readonly before: string
  readonly kind: EventField['kind']
}

/**
 * The constant parts of a stream's events, for dialects with events that differ in more than their text, such as in a
 * sequence number. Reading the text between these parts takes a fraction of the time of parsing the event. See
 * ContentPattern for events that differ only in their text.
 */
export class EventPattern {
  readonly #steps: readonly Step[]
  readonly #tail: string

  private constructor(steps: readonly Step[], tail: string) {
    this.#steps = steps
    this.#tail = tail
  }

  /**
   * Returns the pattern of an event that only adds `text`, or null if the text is not at its place.
   *
   * @param fields the values that may differ: exactly one text. Events need not have the others
   */
  static of(data: string, text: string, fields: readonly EventField[]): EventPattern | null {
    const found = fields.flatMap(field => findValue(data, field)).sort((a, b) => a.start - b.start)
    if (!found.some(({ field }) => field.kind === 'text')) return null
    const steps: Step[] = []
    const probes: unknown[] = []
    let probe = ''
    let at = 0
    for (const { field, start, end } of found) {
      const value: unknown = parse(data.slice(start, end))
      if (start < at || (field.kind === 'text' && value !== text)) return null
      const before = data.slice(at, start)
      const changed = typeof value === 'number' ? value + 1 : `${value}.`
      steps.push({ before, kind: field.kind })
      probes.push(changed)
      probe += before + JSON.stringify(changed)
      at = end
    }
    const tail = data.slice(at)
    // Proof that these are the values: other values at their places must change the fields to them.
    const event = parse(probe + tail) as JsonObject | undefined
    const isProved = event !== undefined && found.every(({ field }, index) => valueAt(event, field) === probes[index])
    return isProved ? new EventPattern(steps, tail) : null
  }

  /** Returns the text of an event that matches the pattern, or null. Each value must be one JSON string or number. */
  read(data: string): string | null {
    let at = 0
    let textStart = 0
    let textEnd = 0
    for (const { before, kind } of this.#steps) {
      const start = at + before.length
      // Not `startsWith`, which compares character by character:
      // docs/decisions/2026-11-22-what-is-expensive-in-v8.md.
      if (data.slice(at, start) !== before) return null
      at = kind === 'count' ? endOfCount(data, start) : endOfString(data, start, kind === 'text')
      if (at === -1) return null
      if (kind !== 'text') continue
      textStart = start
      textEnd = at
    }
    return data.slice(at) === this.#tail ? decode(data, textStart, textEnd) : null
  }
}

interface FoundValue {
  readonly field: EventField
  readonly start: number
  readonly end: number
}

/** Returns the place of a value; none if the event does not have it, or has it in another form. */
function findValue(data: string, field: EventField): FoundValue[] {
  const key = data.indexOf(field.key)
  if (key === -1) return []
  let start = key + field.key.length
  while (data.charCodeAt(start) === SPACE) start++
  const end = field.kind === 'count' ? endOfCount(data, start) : endOfString(data, start, field.kind === 'text')
  return end === -1 ? [] : [{ field, start, end }]
}

function valueAt(event: JsonObject, field: EventField): unknown {
  try {
    return field.valueIn(event)
  } catch {
    return undefined
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

const QUOTE = 34
const BACKSLASH = 92
const SPACE = 32
const DIGIT_0 = 48
const DIGIT_9 = 57
/** Reports of more tokens than so many digits can have are not believed. */
const DIGITS_MAX = 8

/** Returns the index after the string that begins at `start`, or -1 if there is none. */
function endOfString(data: string, start: number, mayHaveEscapes: boolean): number {
  if (data.charCodeAt(start) !== QUOTE) return -1
  for (let at = start + 1; at < data.length; at++) {
    const unit = data.charCodeAt(at)
    if (unit === QUOTE) return at + 1
    if (unit < SPACE) return -1
    if (unit !== BACKSLASH) continue
    if (!mayHaveEscapes) return -1
    at++
  }
  return -1
}

/** Returns the index after the positive whole number that begins at `start`, or -1 if there is none. */
function endOfCount(data: string, start: number): number {
  let at = start
  while (isDigit(data.charCodeAt(at))) at++
  // JSON has no leading zeros, and reports of 0 may have a meaning of their own.
  return at === start || at - start > DIGITS_MAX || data.charCodeAt(start) === DIGIT_0 ? -1 : at
}

function isDigit(unit: number): boolean {
  return unit >= DIGIT_0 && unit <= DIGIT_9
}

/** Returns the text of a JSON string, or null if an escape in it is invalid. */
function decode(data: string, start: number, end: number): string | null {
  const inside = data.slice(start + 1, end - 1)
  // Avoid JSON.parse: V8 keeps short strings that it parses in its table of names.
  if (!inside.includes('\\')) return inside
  const text = parse(data.slice(start, end))
  return typeof text === 'string' ? text : null
}
