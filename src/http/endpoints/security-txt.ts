import { z } from 'zod'
import { DAY_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Endpoint } from '../endpoint.ts'

/** RFC 9116 recommends less than a year. */
const EXPIRES_AFTER_MS = 180 * DAY_MS

const KEYS = '# The keys of this gateway match [sho]k-sy-[0-9A-Za-z]{38}. The last six characters are a checksum.'
const example = `${KEYS}
Contact: mailto:security@gateway.example
Expires: 2027-05-25T00:00:00.000Z
Preferred-Languages: en
Canonical: https://gateway.example/.well-known/security.txt
`

export interface SecurityTxtDeps {
  /** A `mailto:` or `https:` URI; null: 404. */
  readonly contact: string | null
  /** The configured URL of the gateway, without `/v1`. */
  readonly publicBaseUrl: string | null
  readonly clock: Clock
}

/** GET /.well-known/security.txt: the address for reports of leaked keys and vulnerabilities, as in RFC 9116. */
export function securityTxt({ contact, publicBaseUrl, clock }: SecurityTxtDeps): Endpoint {
  return {
    method: 'GET',
    path: '/.well-known/security.txt',
    access: 'open',
    doc: {
      operationId: 'getSecurityContact',
      summary: 'Get the contact for security reports',
      description:
        'The address for reports of leaked keys and of vulnerabilities, in the form of RFC 9116. 404 unless the operator sets `security.contact`.',
      tag: 'Service',
      errors: ['not_found'],
      response: {
        contentType: 'text/plain',
        schema: z.string().meta({ examples: [example] }),
        description: 'The contact.',
      },
    },
    handle({ reply }) {
      if (contact === null) throw new ApiError('not_found')
      reply.header('content-type', 'text/plain; charset=utf-8').header('cache-control', 'max-age=86400')
      return [
        KEYS,
        `Contact: ${contact}`,
        `Expires: ${startOfDay(clock.epochMs() + EXPIRES_AFTER_MS)}`,
        'Preferred-Languages: en',
        ...(publicBaseUrl === null ? [] : [`Canonical: ${publicBaseUrl}/.well-known/security.txt`]),
        '',
      ].join('\n')
    },
  }
}

/** Nodes with different clocks give the same answer nearly always. */
function startOfDay(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 10)}T00:00:00.000Z`
}
