import type { ZodType } from 'zod'
import { parseRoutingText, routingFieldNames } from '../api/routing-text.ts'
import { routingSchemas } from '../dialects/routing-schemas.ts'
import { preferences } from '../domain/chat-job.ts'
import { ApiError } from '../domain/errors.ts'
import { type Routing, type RoutingFields, routingOf } from '../domain/routing-fields.ts'
import { SWITCHYARD_PREFIX } from './generation-exchange.ts'

const headerOf = (field: string) => `${SWITCHYARD_PREFIX}${field.replaceAll('_', '-')}`
const fieldOf = new Map(routingFieldNames.map(field => [headerOf(field), field] as const))

/** Every routing field as a request header, for the OpenAPI document. Lists are separated by commas, OpenAPI's default. */
export const routingHeaders: Readonly<Record<string, ZodType>> = Object.fromEntries(
  [...fieldOf].map(([header, field]) => [
    header,
    (routingSchemas[field].unwrap().unwrap() as ZodType).optional().describe(descriptionOf(field)),
  ]),
)

function descriptionOf(field: keyof RoutingFields): string {
  return preferences.some(name => name === field)
    ? `The same as \`${field}\` in the body, which takes precedence.`
    : `The same as \`${field}\` in the body. With both, the stricter value holds.`
}

/**
 * Reads the routing fields from headers. Throws ApiError `invalid_header` for a malformed value, a header that was sent
 * twice, and an unknown header: a misspelt constraint must not be ignored.
 *
 * @param headers names in any letter case and values in turn, all with the prefix of the gateway
 */
export function readRoutingHeaders(headers: readonly string[]): Routing {
  const fields: Partial<Record<keyof RoutingFields, RoutingFields[keyof RoutingFields]>> = {}
  for (let i = 0; i < headers.length; i += 2) {
    const header = headers[i]!.toLowerCase()
    const field = fieldOf.get(header)
    if (field === undefined) throw unknownHeader(header)
    if (field in fields) throw invalidHeader(header, `The header ${header} was sent more than once. Send it once.`)
    const text = headers[i + 1]!.trim()
    const parsed = parseRoutingText(field, text)
    if ('problem' in parsed) {
      throw invalidHeader(header, `The header ${header} must be ${parsed.problem}; got ${quoted(text)}.`)
    }
    fields[field] = parsed.value
  }
  return routingOf(fields as RoutingFields)
}

function unknownHeader(header: string): ApiError {
  return invalidHeader(
    header,
    `${quoted(header)} is not a header of a request. The headers are ${[...fieldOf.keys()].join(', ')}.`,
  )
}

function invalidHeader(param: string, message: string): ApiError {
  return new ApiError('invalid_header', { param: param.slice(0, 60), message })
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
}
