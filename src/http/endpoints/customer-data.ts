import { Readable } from 'node:stream'
import { z } from 'zod'
import type { Caller } from '../../base/domain/caller.ts'
import { usdPerMillion } from '../../base/domain/money.ts'
import type { LiveModel, LiveProvider } from '../../market/supply/catalog/describe-models.ts'
import type { CreditReports } from '../../money/usage/credit-reports.ts'
import {
  type KeyNames,
  keyNames,
  type LatencyReport,
  type LimitsReport,
  latencyReport,
  limitsReport,
  type ModelFacts,
  modelFacts,
  type SharesQuery,
  sharesQuery,
  type UsageShares,
  usageShares,
} from '../../wire/api/console-data.ts'
import { statementQuery } from '../../wire/api/credits.ts'
import { readQuery } from '../../wire/api/reports.ts'
import type { Endpoint, ReplyingEndpoint } from '../endpoint.ts'

export interface CustomerDataDeps {
  readonly latency: (customerId: string) => Promise<LatencyReport>
  readonly shares: (customerId: string, by: UsageShares['by'], query: SharesQuery) => Promise<UsageShares>
  readonly keyNames: (customerId: string) => Promise<KeyNames>
  readonly limits: (caller: Caller, personId: string) => Promise<LimitsReport>
  readonly models: (caller: Caller) => readonly LiveModel[]
  readonly creditReports: CreditReports
}

/** What the screens of one customer show and /v1 does not have: docs/console-api.md. */
export function customerData({
  latency,
  shares,
  keyNames: namesOf,
  limits,
  models,
  creditReports,
}: CustomerDataDeps): Endpoint[] {
  const sharesBy = (path: string, by: UsageShares['by']) =>
    customerEndpoint(path, {
      right: 'usage',
      schema: usageShares,
      summary: `Show the usage by ${by}`,
      handle: ({ caller, request }) => shares(caller.customerId, by, readQuery(sharesQuery, request.query)),
    })
  return [
    customerEndpoint('latency', {
      right: 'usage',
      schema: latencyReport,
      summary: 'Show the latency of the newest requests',
      handle: ({ caller }) => latency(caller.customerId),
    }),
    sharesBy('usage/keys', 'key'),
    sharesBy('usage/members', 'member'),
    sharesBy('usage/labels', 'label'),
    sharesBy('usage/models', 'model'),
    sharesBy('usage/providers', 'provider'),
    customerEndpoint('key-names', {
      right: 'keys',
      schema: keyNames,
      summary: 'List the names of the keys',
      handle: ({ caller }) => namesOf(caller.customerId),
    }),
    customerEndpoint('limits', {
      right: 'usage',
      schema: limitsReport,
      summary: 'Show how much of each limit is used',
      handle: ({ caller, signedIn }) => limits(caller, signedIn.person.personId),
    }),
    customerEndpoint('model-facts', {
      right: 'usage',
      schema: modelFacts,
      summary: 'Show the servers of each model as they are now',
      handle: ({ caller }) => showFacts(models(caller)),
    }),
    customerEndpoint('credits/statement', {
      right: 'credits',
      schema: z.string(),
      summary: 'Export the statement as CSV',
      async handle({ caller, request, reply }) {
        const period = readQuery(statementQuery, request.query)
        const csv = await creditReports.statement(caller, period)
        const name = ['switchyard-statement', period.from, period.to].filter(Boolean).join('-')
        reply.type('text/csv; charset=utf-8').header('content-disposition', `attachment; filename="${name}.csv"`)
        return Readable.from(csv, { highWaterMark: 2 })
      },
    }),
  ]
}

type Row = Pick<ReplyingEndpoint, 'right' | 'handle'> & { readonly schema: z.ZodType; readonly summary: string }

/** A GET under /console/api/customers/{id}. */
function customerEndpoint(path: string, { right, handle, schema, summary }: Row): ReplyingEndpoint {
  return {
    method: 'GET',
    path: `/console/api/customers/:customer_id/${path}`,
    access: 'session',
    ...(right !== undefined && { right }),
    showsCharges: true,
    doc: {
      operationId: summary,
      summary,
      description: summary,
      tag: 'Service',
      isHidden: true,
      response: { contentType: 'application/json', schema, description: summary },
    },
    handle,
  }
}

function showFacts(models: readonly LiveModel[]): ModelFacts {
  const data = models.map(({ modelId, providers }) => {
    const measured = providers.map(({ firstTokenMs }) => firstTokenMs).filter(ms => ms !== null)
    return {
      id: modelId,
      first_token_ms: measured.length === 0 ? null : Math.min(...measured),
      is_available: providers.some(({ healthy }) => healthy > 0),
      providers: providers.map(showProvider),
    }
  })
  return { object: 'list', data: data.sort((a, b) => (a.id < b.id ? -1 : 1)) }
}

function showProvider(provider: LiveProvider): ModelFacts['data'][number]['providers'][number] {
  return {
    kind: provider.kind,
    servers: provider.servers,
    healthy: provider.healthy,
    in_flight: provider.inFlight,
    first_token_ms: provider.firstTokenMs,
    trust_score: provider.trust,
    input_usd_per_million: usdPerMillion(provider.lowestPrice.inputPicoPerToken),
    output_usd_per_million: usdPerMillion(provider.lowestPrice.outputPicoPerToken),
  }
}
