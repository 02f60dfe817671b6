import { InvalidArgumentError } from 'commander'
import { type KeyScope, keyScopes, type LimitReset, limitResets } from '../base/domain/caller.ts'
import { AUTO_MODEL, type KeyDefaults } from '../base/domain/chat-job.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { type Nanos, parsePricePerMillion, parseUsd } from '../base/domain/money.ts'
import { isEmail } from '../base/runtime/email.ts'
import { readInstant } from '../base/runtime/instant.ts'
import { isPlain, PLAIN_TEXT } from '../base/runtime/plain-text.ts'
import { keyDefaultNames } from '../wire/api/key-defaults.ts'
import { LABEL, labelMeaning } from '../wire/api/label.ts'
import { readRequestId } from '../wire/api/request-id.ts'
import { parseRoutingText } from '../wire/api/routing-text.ts'

// Parsers of command-line arguments. Each throws InvalidArgumentError, and commander adds the name of the
// argument to its message.

export function emailArgument(text: string): string {
  if (!isEmail(text)) throw new InvalidArgumentError('It must be an e-mail address.')
  return text
}

/** Parses an amount above zero in USD. */
export function amountArgument(text: string): Nanos {
  const nanos = parseUsd(text)
  if (nanos === undefined || nanos === 0n) {
    throw new InvalidArgumentError(
      'It must be USD above zero and below a billion, such as 25 or 0.50, with at most 9 decimals.',
    )
  }
  return nanos
}

/** Parses USD per million tokens. Returns picodollars per token. */
export function priceArgument(text: string): bigint {
  const picoPerToken = parsePricePerMillion(text)
  if (picoPerToken === undefined) {
    throw new InvalidArgumentError('It must be USD per million tokens, such as 0.15, with at most 6 decimals.')
  }
  return picoPerToken
}

export function limitResetArgument(text: string): LimitReset {
  const reset = limitResets.find(known => known === text)
  if (reset === undefined) throw new InvalidArgumentError(`It must be one of ${limitResets.join(', ')}.`)
  return reset
}

/** Parses the label of a key. */
export function labelArgument(text: string): string {
  if (!LABEL.test(text)) throw new InvalidArgumentError(`It must have ${labelMeaning}.`)
  return text
}

/** Parses comma-separated model ids. */
export function modelIdsArgument(text: string): string[] {
  const ids = [...new Set(text.split(',').map(id => id.trim()))]
  if (ids.includes('') || !isPlain(text)) {
    throw new InvalidArgumentError('It must be model ids without control characters, separated by commas.')
  }
  if (ids.includes(AUTO_MODEL)) {
    throw new InvalidArgumentError(
      'auto is not a model. Every key may request it; it chooses among the models listed here.',
    )
  }
  return ids
}

/**
 * Parses a routing field such as `tier=cheapest` and adds it to the previous ones. The value `none` becomes null, which
 * removes the field.
 */
export function defaultArgument(text: string, previous: KeyDefaults = {}): KeyDefaults {
  const [, name, value] = /^(\w+)=(.*)$/.exec(text) ?? []
  const field = keyDefaultNames.find(known => known === name)
  if (field === undefined || value === undefined) {
    throw new InvalidArgumentError(`It must be <field>=<value> with one of the fields ${keyDefaultNames.join(', ')}.`)
  }
  if (value === 'none') return { ...previous, [field]: null }
  const parsed = parseRoutingText(field, value)
  if ('value' in parsed && isPlain(value)) return { ...previous, [field]: parsed.value }
  throw new InvalidArgumentError(
    `${field} must be ${'problem' in parsed ? parsed.problem : 'a text without control characters'}.`,
  )
}

export function keyScopeArgument(text: string): KeyScope {
  const scope = keyScopes.find(known => known === text)
  if (scope === undefined) throw new InvalidArgumentError(`It must be ${keyScopes.join(' or ')}.`)
  return scope
}

export function countArgument(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

/** Parses a port to listen on. 0 lets the system choose. */
export function portArgument(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new InvalidArgumentError('It must be a whole number from 0 to 65535.')
  }
  return Number(text)
}

/** Parses a number of workers. Has the same bounds as `server.workers`. */
export function workersArgument(text: string): number {
  const workers = Number(text)
  if (!/^\d{1,2}$/.test(text) || workers < 1 || workers > 64) {
    throw new InvalidArgumentError('It must be a whole number from 1 to 64.')
  }
  return workers
}

/** Parses a number from 0 to 1. */
export function scoreArgument(text: string): number {
  if (!/^(0(\.\d+)?|1(\.0+)?)$/.test(text)) throw new InvalidArgumentError('It must be a number from 0 to 1.')
  return Number(text)
}

/** Parses the expiry of a key: `90d` from now, or a date or time in UTC. */
export function expiryArgument(text: string): Date {
  const days = /^(\d{1,5})d$/.exec(text)?.[1]
  const inUtc = /^[^T]+(T.+Z)?$/.test(text)
  const time = days !== undefined ? Date.now() + Number(days) * DAY_MS : inUtc ? readInstant(text) : undefined
  if (time === undefined) {
    throw new InvalidArgumentError('It must be a valid date: 90d, 2030-01-31 or 2030-01-31T12:00:00Z.')
  }
  if (time <= Date.now()) {
    throw new InvalidArgumentError('It must be in the future: 90d, 2030-01-31 or 2030-01-31T12:00:00Z.')
  }
  return new Date(time)
}

/** Parses a date, which means 00:00 UTC, or a time with its offset. */
export function instantArgument(text: string): Date {
  const epochMs = readInstant(text)
  if (epochMs === undefined) {
    throw new InvalidArgumentError(
      'It must be a valid UTC date, or a time with an offset: 2026-11-01 or 2026-11-01T12:00:00Z.',
    )
  }
  return new Date(epochMs)
}

/** Parses a UTC day: `2026-11-01`. */
export function dayArgument(text: string): string {
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || readInstant(text) === undefined) {
    throw new InvalidArgumentError('It must be a UTC day, such as 2026-11-01.')
  }
  return text
}

/** Parses a month: `2026-01`. */
export function monthArgument(text: string): string {
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(text)) throw new InvalidArgumentError('It must be a month, such as 2026-01.')
  return text
}

/** Parses a request id: a UUID, or the id in an answer, such as `chatcmpl-<uuid>`. */
export function requestIdArgument(text: string): string {
  const id = readRequestId(text.trim())
  if (id === undefined) {
    throw new InvalidArgumentError('It must be the x-request-id of an answer, or the id in its body.')
  }
  return id
}

/**
 * Trims a text, which must not be blank. It is shown in terminals and mails, so control characters and direction
 * marks are refused.
 */
export function textArgument(text: string): string {
  const trimmed = text.trim()
  if (!PLAIN_TEXT.test(trimmed)) {
    throw new InvalidArgumentError(
      'It must have 1 to 200 characters, without control characters or marks that change the writing direction.',
    )
  }
  return trimmed
}

/** A new value of a setting; null removes it. Commander takes a bare null for a missing value. */
export interface Change<T> {
  readonly to: T | null
}

/** Returns a parser that takes `word` as the removal of a setting, and parses anything else with `parse`. */
export function changeArgument<T>(word: string, parse: (text: string) => T): (text: string) => Change<T> {
  return text => {
    if (text === word) return { to: null }
    try {
      return { to: parse(text) }
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error
      throw new InvalidArgumentError(`${error.message.replace(/\.$/, '')}, or ${word}.`)
    }
  }
}

/** Returns a parser of a whole number from 1 to `max`. */
export function upToArgument(max: number): (text: string) => number {
  return text => {
    const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
    if (count < 1 || count > max) throw new InvalidArgumentError(`It must be a whole number from 1 to ${max}.`)
    return count
  }
}
