import { ZodArray, type ZodType, z } from 'zod'
import { addRouting } from '../base/domain/add-routing.ts'
import type { Caller } from '../base/domain/caller.ts'
import {
  type ChatJob,
  CREDIT_WAIT_MS_MAX,
  preferences,
  type Routing,
  type RoutingFields,
  routingOf,
} from '../base/domain/chat-job.ts'
import { ApiError } from '../base/domain/errors.ts'
import { headerValues } from '../base/runtime/header-list.ts'
import { LABEL, label, labelMeaning } from '../wire/api/label.ts'
import { parseRoutingText, routingFieldNames } from '../wire/api/routing-text.ts'
import { routingSchemas } from '../wire/dialects/routing-schemas.ts'
import { type GenerationRequest, SWITCHYARD_PREFIX } from './generation-exchange.ts'

/**
 * Adds what the headers and the key say to a parsed job, whatever dialect it came in: routing fields, the label, the
 * wait for credit and the session. Returns the job itself when they say nothing, as for most requests. Throws
 * `invalid_header`.
 */
export function requestedJob(
  parsed: ChatJob,
  request: Pick<GenerationRequest, 'header' | 'switchyardHeaders'>,
  { access: { defaults } }: Caller,
): ChatJob {
  const { switchyardHeaders } = request
  let job = parsed
  if (switchyardHeaders !== null) {
    const { routing, ...own } = readRoutingHeaders(switchyardHeaders)
    job = { ...addRouting(job, routing, 'header'), ...own }
  }
  if (defaults !== null) job = addRouting(job, defaults, 'key')
  const session = job.sessionKey ?? sessionOf(request)
  return session === job.sessionKey ? job : { ...job, sessionKey: session }
}

/** Codex sends the first of these headers, opencode the second, Claude Code the third. */
function sessionOf(request: Pick<GenerationRequest, 'header'>): string | null {
  return (
    request.header('session-id') || request.header('x-session-id') || request.header('x-claude-code-session-id') || null
  )
}

const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/

/**
 * Returns the Idempotency-Key of a request. Throws `invalid_header` unless it is 1 to 255 printable ASCII
 * characters, sent once.
 */
export function readIdempotencyKey(request: Pick<GenerationRequest, 'header' | 'rawHeaders'>): string | undefined {
  const key = request.header('idempotency-key')
  if (key === undefined) return
  // node:http joins two keys into one that the client never sent; proxies and other nodes may pick one of the
  // two instead.
  const isSingle = headerValues(request.rawHeaders, 'idempotency-key').length === 1
  if (isSingle && KEY.test(key)) return key
  throw new ApiError('invalid_header', {
    param: 'Idempotency-Key',
    message: isSingle
      ? 'Idempotency-Key must be 1 to 255 printable ASCII characters. A UUID works well.'
      : 'The Idempotency-Key header was sent more than once. Send it once.',
  })
}

/** Names what a request is for, for the spend by label. */
export const LABEL_HEADER = `${SWITCHYARD_PREFIX}label`
/** Limits how long the request waits for credit that other requests of the customer hold. */
export const CREDIT_WAIT_HEADER = `${SWITCHYARD_PREFIX}wait-for-credit-ms`

const headerOf = (field: string) => `${SWITCHYARD_PREFIX}${field.replaceAll('_', '-')}`
const fieldOf = new Map(routingFieldNames.map(field => [headerOf(field), field] as const))

/**
 * The gateway's own request headers, for the OpenAPI document: every routing field, the label and the wait for credit.
 * Lists are separated by commas, OpenAPI's default.
 */
export const routingHeaders: Readonly<Record<string, ZodType>> = {
  ...Object.fromEntries(
    [...fieldOf].map(([header, field]) => [header, headerSchemaOf(field).optional().describe(descriptionOf(field))]),
  ),
  [LABEL_HEADER]: label
    .optional()
    .describe('What the request is for, such as a project. Spend is summed by label. Default: the label of the key.'),
  [CREDIT_WAIT_HEADER]: z
    .int()
    .min(0)
    .max(CREDIT_WAIT_MS_MAX)
    .optional()
    .describe(
      'The longest time to wait for credit that running requests of the customer hold, in milliseconds; 0 does not wait. The server has a limit of its own.',
    ),
}

/** An empty header is refused, so a list in a header has an item; in a body it may be empty. */
function headerSchemaOf(field: keyof RoutingFields): ZodType {
  const schema: ZodType = routingSchemas[field].unwrap().unwrap()
  return schema instanceof ZodArray ? schema.min(1) : schema
}

function descriptionOf(field: keyof RoutingFields): string {
  return preferences.some(name => name === field)
    ? `The same as \`${field}\` in the body, which takes precedence.`
    : `The same as \`${field}\` in the body. With both, the stricter value holds.`
}

/**
 * Reads the routing fields, the label and the wait for credit from headers. Throws ApiError `invalid_header` for a
 * malformed value, a header that was sent twice, and an unknown header: a misspelt constraint must not be ignored.
 *
 * @param headers names in any letter case and values in turn, all with the prefix of the gateway
 */
export function readRoutingHeaders(
  headers: readonly string[],
): { readonly routing: Routing } & Pick<ChatJob, 'label' | 'creditWaitMsMax'> {
  const own: { label?: string; creditWaitMsMax?: number } = {}
  const fields: Partial<Record<keyof RoutingFields, RoutingFields[keyof RoutingFields]>> = {}
  for (let i = 0; i < headers.length; i += 2) {
    const header = headers[i]!.toLowerCase()
    const text = headers[i + 1]!.trim()
    if (header === LABEL_HEADER) {
      if (own.label !== undefined) throw sentTwice(header)
      own.label = text
      if (!LABEL.test(text)) throw malformed(header, labelMeaning, text)
      continue
    }
    if (header === CREDIT_WAIT_HEADER) {
      if (own.creditWaitMsMax !== undefined) throw sentTwice(header)
      own.creditWaitMsMax = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
      if (!(own.creditWaitMsMax <= CREDIT_WAIT_MS_MAX))
        throw malformed(header, `a whole number from 0 to ${CREDIT_WAIT_MS_MAX}`, text)
      continue
    }
    const field = fieldOf.get(header)
    if (field === undefined) throw unknownHeader(header)
    if (field in fields) throw sentTwice(header)
    const parsed = parseRoutingText(field, text)
    if ('problem' in parsed) throw malformed(header, parsed.problem, text)
    fields[field] = parsed.value
  }
  return { routing: routingOf(fields as RoutingFields), ...own }
}

function malformed(header: string, allowed: string, text: string): ApiError {
  return invalidHeader(header, `The header ${header} must be ${allowed}; got ${quoted(text)}.`)
}

function sentTwice(header: string): ApiError {
  return invalidHeader(header, `The header ${header} was sent more than once. Send it once.`)
}

function unknownHeader(header: string): ApiError {
  return invalidHeader(
    header,
    `${quoted(header)} is not a header of a request. The headers are ${Object.keys(routingHeaders).join(', ')}.`,
  )
}

function invalidHeader(param: string, message: string): ApiError {
  return new ApiError('invalid_header', { param: param.slice(0, 60), message })
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
