import * as z from 'zod'
import { mayBeForwarded } from '../../base/domain/chat-fields.ts'
import type { GoogleServiceAccount } from '../../base/domain/cloud-credential.ts'
import { parsePricePerMillion, parseUsd } from '../../base/domain/money.ts'
import { readAddressRange } from '../../base/runtime/client-address.ts'
import { isEmail } from '../../base/runtime/email.ts'
import { parseFailpoints } from '../../base/runtime/failpoint.ts'
import { hostNameProblem } from '../../base/runtime/host-name.ts'
import { readServiceAccount } from '../../wire/credentials/read-service-account.ts'
import { WrittenNumber } from './read-yaml.ts'

// The types of configuration values. Each has a description for error messages, which a test compares with
// docs/config.md. Numbers and flags are also accepted as text, because ${NAME} always produces text.

/** Text without surrounding blanks, at least one character. */
export function text(type = 'text', allowed: RegExp = /^\S(.*\S)?$/s) {
  return value(type, written => matchingText(written, allowed))
}

/** The name of a body field that servers may get. */
export function bodyField() {
  return value('name of a body field that the gateway may pass on', written => {
    const name = matchingText(written, /^[A-Za-z_]\w{0,63}$/)
    return name !== undefined && mayBeForwarded(name) ? name : undefined
  })
}

/** The name of a host in lower case; `*.example.com` stands for all names below it, and `*` for all names. */
export function hostName() {
  return value('host name, *.name or *', written => {
    const name = typeof written === 'string' ? written.toLowerCase() : ''
    return /^(?:\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)$/.test(name) ? name : undefined
  })
}

/** An address, or a range of addresses such as `10.0.0.0/8`. */
export function addressRange() {
  return value('IP address or range such as 10.0.0.0/8', written =>
    typeof written === 'string' ? readAddressRange(written) : undefined,
  )
}

/** Text that is never repeated in error messages. */
export function secret(type: string, allowed: RegExp) {
  return value(type, written => matchingText(written, allowed), 'invalid (not shown, because it is a secret)')
}

function matchingText(written: unknown, allowed: RegExp): string | undefined {
  const found = written instanceof WrittenNumber ? written.source : written
  return typeof found === 'string' && allowed.test(found) ? found : undefined
}

export function wholeNumber(min: number, max: number) {
  return value(`whole number, ${min} to ${max}`, written => {
    const digits = sourceOf(written)
    if (digits === undefined || !/^\d{1,15}$/.test(digits)) return undefined
    const number = Number(digits)
    return number >= min && number <= max ? number : undefined
  })
}

/** A percentage with at most two decimals, as basis points. */
export function percentAsBps() {
  return value('percentage, 0 to 100, at most 2 decimals', written => {
    const match = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(sourceOf(written) ?? '')
    if (!match) return undefined
    const bps = Number(match[1]) * 100 + Number((match[2] ?? '').padEnd(2, '0'))
    return bps <= 10_000 ? bps : undefined
  })
}

/** A part of a whole, 0 to 1. */
export function ratio() {
  return value('number from 0 to 1', written => {
    const digits = sourceOf(written) ?? ''
    const number = Number(digits)
    return /^[01](?:\.\d{1,9})?$/.test(digits) && number <= 1 ? number : undefined
  })
}

/** Headers as OpenTelemetry writes them: `name=value,name=value`, each value percent-encoded. They may hold keys. */
export function headerList() {
  return value(
    'list of headers, name=value with commas between',
    written => {
      const text = matchingText(written, /^[\x20-\x7e]{1,8192}$/)
      const members = text?.split(',').filter(member => member.trim() !== '')
      const headers = members?.map(member => /^\s*([\w!#$%&'*+.^`|~-]+)\s*=(.+)$/.exec(member))
      if (headers === undefined || headers.some(match => match === null)) return undefined
      const pairs = headers.map(match => [match?.[1]?.toLowerCase() ?? '', decoded(match?.[2]?.trim() ?? '')] as const)
      return pairs.every(([, value]) => value !== undefined)
        ? (Object.fromEntries(pairs) as Readonly<Record<string, string>>)
        : undefined
    },
    'invalid (not shown, because it may be a secret)',
  )
}

/** Returns the text of a percent-encoded header value; undefined if a header cannot contain it. */
function decoded(encoded: string): string | undefined {
  try {
    const text = decodeURIComponent(encoded)
    return /^[\x20-\x7e]+$/.test(text) ? text : undefined
  } catch {
    return undefined
  }
}

export function email() {
  return value('e-mail address', written => (typeof written === 'string' && isEmail(written) ? written : undefined))
}

export function flag() {
  return value('true or false', written => {
    if (typeof written === 'boolean') return written
    return written === 'true' ? true : written === 'false' ? false : undefined
  })
}

export function oneOf<const Choice extends string>(choices: readonly Choice[]) {
  return value(`one of ${choices.join(', ')}`, written => choices.find(choice => choice === written))
}

/** An amount of money, as nano-USD. */
export function usdAmount() {
  return value('USD, at most 9 decimals', written => {
    const digits = sourceOf(written)
    return digits === undefined ? undefined : parseUsd(digits)
  })
}

/** USD per million tokens, as picodollars per token. */
export function usdPerMillionTokens() {
  return value('USD per million tokens, at most 6 decimals', written => {
    const digits = sourceOf(written)
    return digits === undefined ? undefined : parsePricePerMillion(digits)
  })
}

/** In the order of `Date.getUTCDay`. */
export const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const

/** A part of a day in UTC, as minutes of the day. */
export function hoursOfDay() {
  return value('part of a day in UTC such as 01:00-04:00', written => {
    const match = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)$/.exec(
      typeof written === 'string' ? written : '',
    )
    if (!match) return undefined
    const [, fromHour = '', from = '', untilHour = '', until = ''] = match
    const [fromMinute, untilMinute] = [minuteOfDay(fromHour, from), minuteOfDay(untilHour, until)]
    return fromMinute < untilMinute && untilMinute <= 1_440 ? { fromMinute, untilMinute } : undefined
  })
}

/** A directory, or a bucket with the beginning of the names in it: `s3://backups/switchyard/`. */
export function backupPlace() {
  return value('directory or s3://bucket/prefix/', written => {
    const place = typeof written === 'string' ? written : ''
    if (!/^\w+:\/\//.test(place)) return matchingText(place, /^\S(.*\S)?$/s)
    return matchingText(place, /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w.-]+)*\/?$/)
  })
}

/** A time of the day in UTC, as minutes after midnight. */
export function timeOfDay() {
  return value('time of the day in UTC such as 03:15', written => {
    const match = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(typeof written === 'string' ? written : '')
    if (!match) return undefined
    const [, hour = '', minute = ''] = match
    return minuteOfDay(hour, minute)
  })
}

const minuteOfDay = (hours: string, minutes: string) => Number(hours) * 60 + Number(minutes)

/**
 * The identifier of an OpenID provider, with its trailing slash if it has one. http only for programs on this machine.
 */
export function issuerUrl() {
  return value('https URL', written => {
    const url = typeof written === 'string' ? URL.parse(written) : null
    if (url === null || url.search !== '' || url.hash !== '' || url.username !== '') return undefined
    if (/\s/.test(written as string) || hostNameProblem(url.hostname, { allowUnderscores: false })) return undefined
    const isLocal = url.protocol === 'http:' && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname)
    return url.protocol === 'https:' || isLocal ? (written as string) : undefined
  })
}

/** Where people are reached, as RFC 9116 wants it. */
export function contactUri() {
  return value('mailto: or https: URI', written => {
    const found = matchingText(written, /^(?:mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/)
    return found !== undefined && URL.canParse(found) ? found : undefined
  })
}

/** An http or https address without credentials, query and fragment; its trailing slashes are removed. */
export function httpUrl() {
  return plainUrl(() => undefined)
}

/** The address of a model server, to which the gateway adds the path of each request. */
export function baseUrl() {
  return plainUrl(({ pathname, href }) => {
    const operation = OPERATIONS.find(path => pathname.endsWith(path))
    return operation && `ends in ${operation}, which the gateway adds itself; write ${href.slice(0, -operation.length)}`
  })
}

const OPERATIONS = ['/chat/completions', '/completions', '/responses', '/messages', '/embeddings', '/rerank', '/models']

/** The address of the gateway itself. It serves at the root of its name, so only its own /v1 may follow. */
export function publicUrl() {
  return plainUrl(({ pathname, origin }) =>
    /^(?:\/v1)?\/*$/.test(pathname)
      ? undefined
      : `has the path ${pathname}, and the gateway serves at the root of its name; write ${origin}`,
  )
}

/** @param problemOf why an address cannot work, with what to write instead */
function plainUrl(problemOf: (url: URL) => string | undefined) {
  const type = 'http or https URL'
  return z
    .unknown()
    .transform((written, context) => {
      const refuse = (message: string) => {
        context.issues.push({ code: 'custom', message, input: written })
        return z.NEVER
      }
      const expected = `it must be ${withArticle(type)}`
      if (written === undefined) return refuse(`is missing; write ${withArticle(type)}`)
      const url = typeof written === 'string' ? URL.parse(written) : null
      if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
        return refuse(`is ${shown(written)}; ${expected}`)
      // The parser would drop or encode them.
      if (/[\s\\]/.test(written as string)) return refuse(`contains spaces or backslashes; ${expected}`)
      if (url.search !== '' || url.hash !== '')
        return refuse(`has a query or a fragment, which would be sent with no request; ${expected} without them`)
      url.pathname = url.pathname.replace(/(?<!\/)\/+$/, '')
      const nameProblem = hostNameProblem(url.hostname, { allowUnderscores: true })
      if (nameProblem !== undefined) return refuse(`cannot be reached: ${nameProblem}`)
      const problem = problemOf(url)
      return problem === undefined ? url.href.replace(/(?<!\/)\/+$/, '') : refuse(problem)
    })
    .meta({ type })
}

/** The key of a service account of Google Cloud: its JSON, or the path of its file, from the working directory. */
export function googleServiceAccount() {
  return z
    .unknown()
    .transform((written, context): GoogleServiceAccount => {
      try {
        return readServiceAccount(typeof written === 'string' ? written : '')
      } catch (error) {
        context.issues.push({ code: 'custom', message: (error as Error).message, input: written })
        return z.NEVER
      }
    })
    .meta({ type: 'JSON of a service account key, or the path of its file' })
}

/** Failpoints for crash tests; see src/base/runtime/failpoint.ts. */
export function failpointList() {
  return value('failpoints, name:action or name:hit=3:action, with commas between', written =>
    typeof written === 'string' ? parseFailpoints(written) : undefined,
  )
}

/** Returns the description of a value type of this file; undefined for objects, lists and records. */
export function typeDescription(schema: z.core.$ZodType): string | undefined {
  return z.globalRegistry.get(schema)?.type as string | undefined
}

function value<Value>(type: string, read: (written: unknown) => Value | undefined, fault?: string) {
  return z
    .unknown()
    .transform((written, context) => {
      const found = read(written)
      if (found !== undefined) return found
      const problem = written === undefined ? 'is missing; write' : `is ${fault ?? shown(written)}; it must be`
      context.issues.push({ code: 'custom', message: `${problem} ${withArticle(type)}`, input: written })
      return z.NEVER
    })
    .meta({ type })
}

function sourceOf(written: unknown): string | undefined {
  if (written instanceof WrittenNumber) return written.source
  return typeof written === 'string' ? written.trim() : undefined
}

function shown(written: unknown): string {
  // JSON.stringify returns undefined for UNREADABLE. read-settings.ts drops that message.
  const whole = written instanceof WrittenNumber ? written.source : String(JSON.stringify(written))
  const text = whole.replace(/\/\/[^/@]*@/, '//***@')
  return text.length > 80 ? `${text.slice(0, 77)}...` : text
}

function withArticle(type: string): string {
  return /^(text|ASCII text|true|one of|USD|failpoints|32 bytes)/.test(type)
    ? type
    : /^(http|e-)/.test(type)
      ? `an ${type}`
      : `a ${type}`
}
