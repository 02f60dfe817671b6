import { generateKeyPairSync } from 'node:crypto'
import { calcPrice, type Usage } from '@pydantic/genai-prices'
import { describe, expect, test } from 'vitest'
import type { UsageParts } from '../../../base/domain/answer-event.ts'
import { hidesReasoningAt, keyHeaderAt } from '../../../base/domain/endpoint-defaults.ts'
import { billedCost } from '../../../base/domain/money.ts'
import { declaredNames } from './declared-names.ts'
import { detectClouds } from './detect-clouds.ts'

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const key = JSON.stringify({
  type: 'service_account',
  project_id: 'my-project',
  private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  client_email: 'a@my-project.iam.gserviceaccount.com',
  token_uri: 'https://oauth2.googleapis.com/token',
})

const azure = {
  AZURE_OPENAI_API_KEY: 'secret-azure',
  AZURE_OPENAI_ENDPOINT: 'https://me.openai.azure.com/',
  AZURE_OPENAI_DEPLOYMENTS: 'gpt-5.6-sol, gpt-4.1-mini=my-mini,gpt-6-luna,text-embedding-3-small',
}
const bedrock = { AWS_BEARER_TOKEN_BEDROCK: 'secret-aws', AWS_REGION: 'eu-central-1' }
const vertex = { GOOGLE_VERTEX_LOCATION: 'global', GOOGLE_APPLICATION_CREDENTIALS: key }

const offersOf = (environment: Record<string, string>) => detectClouds(environment).flatMap(({ offers }) => offers)

test('Azure is offered with its endpoint and the deployments that are named', () => {
  const offers = offersOf(azure)
  expect(offers.map(({ offerId, upstreamModel, speaks }) => [offerId, upstreamModel, speaks])).toEqual([
    ['azure/gpt-5.6-sol', 'gpt-5.6-sol', ['responses', 'chat']],
    ['azure/gpt-4.1-mini', 'my-mini', undefined],
    ['azure/gpt-6-luna', 'gpt-6-luna', ['responses', 'chat']],
    ['azure/text-embedding-3-small', 'text-embedding-3-small', undefined],
  ])
  const { baseUrl, apiKey, dialect } = offers[0]!.endpoint
  expect([baseUrl, apiKey, dialect.keyHeader]).toEqual([
    'https://me.openai.azure.com/openai/v1',
    'secret-azure',
    'api-key',
  ])
  expect(keyHeaderAt(baseUrl, 'responses')).toBe('api-key')
})

test('Bedrock is offered with a bearer key in the region, Claude as messages', () => {
  const offers = offersOf(bedrock)
  expect(offers.map(({ offerId, upstreamModel }) => [offerId, upstreamModel])).toEqual([
    ['bedrock/openai/gpt-oss-120b', 'openai.gpt-oss-120b-1:0'],
    ['bedrock/openai/gpt-oss-20b', 'openai.gpt-oss-20b-1:0'],
    ['bedrock-claude/claude-opus-5', 'anthropic.claude-opus-5'],
    ['bedrock-claude/claude-sonnet-5', 'anthropic.claude-sonnet-5'],
    ['bedrock-claude/claude-haiku-4-5', 'anthropic.claude-haiku-4-5'],
  ])
  const [chat, claude] = [offers[0]!, offers[2]!]
  expect([chat.endpoint.baseUrl, chat.endpoint.dialect.keyHeader, chat.speaks]).toEqual([
    'https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1',
    'authorization',
    undefined,
  ])
  expect([claude.endpoint.baseUrl, claude.endpoint.dialect.keyHeader, claude.speaks]).toEqual([
    'https://bedrock-mantle.eu-central-1.api.aws/anthropic/v1',
    'x-api-key',
    ['messages'],
  ])
  expect(claude.features).not.toContain('json_schema')
})

test.each([
  ['global', 'https://aiplatform.googleapis.com/v1/projects/my-project/locations/global'],
  ['eu', 'https://aiplatform.eu.rep.googleapis.com/v1/projects/my-project/locations/eu'],
  ['us-east5', 'https://us-east5-aiplatform.googleapis.com/v1/projects/my-project/locations/us-east5'],
])('Vertex is offered in %s with a service account', (location, baseUrl) => {
  const offers = offersOf({ ...vertex, GOOGLE_VERTEX_LOCATION: location })
  const byId = new Map(offers.map(offer => [offer.modelId, offer]))
  expect(byId.get('gemini-3.5-flash-lite')).toMatchObject({ speaks: ['gemini'], endpoint: { baseUrl, apiKey: null } })
  expect(byId.get('claude-haiku-4-5')).toMatchObject({
    speaks: ['messages'],
    upstreamModel: 'claude-haiku-4-5@20251001',
    endpoint: { credential: { clientEmail: 'a@my-project.iam.gserviceaccount.com' } },
  })
  expect(byId.get('gemini-3.5-flash-lite')!.features).toContain('json_schema')
  expect(byId.get('claude-haiku-4-5')!.features).not.toContain('json_schema')
  expect(hidesReasoningAt(baseUrl)).toBe(true)
})

test.each<[environment: Record<string, string>, problem: string]>([
  [{ AZURE_OPENAI_API_KEY: 'k' }, 'AZURE_OPENAI_ENDPOINT is not set; for example https://NAME.openai.azure.com'],
  [{ ...azure, AZURE_OPENAI_ENDPOINT: 'http://me' }, 'AZURE_OPENAI_ENDPOINT is invalid'],
  [{ ...azure, AZURE_OPENAI_DEPLOYMENTS: '' }, 'AZURE_OPENAI_DEPLOYMENTS is not set'],
  [{ ...azure, AZURE_OPENAI_DEPLOYMENTS: 'gpt-99' }, 'names gpt-99, which has no known price'],
  [{ AWS_BEARER_TOKEN_BEDROCK: 'k' }, 'AWS_REGION is not set; for example us-east-1'],
  [{ ...bedrock, AWS_REGION: 'a.example/' }, 'AWS_REGION is invalid'],
  [{ GOOGLE_VERTEX_LOCATION: 'global' }, 'GOOGLE_APPLICATION_CREDENTIALS is not set'],
  [{ ...vertex, GOOGLE_APPLICATION_CREDENTIALS: '/no/such/file' }, 'names a file that cannot be read'],
  [{ ...vertex, GOOGLE_APPLICATION_CREDENTIALS: '{}' }, 'is not the key of a service account'],
  [{ ...vertex, GOOGLE_VERTEX_LOCATION: 'a.example/' }, 'GOOGLE_VERTEX_LOCATION is invalid'],
  [{ ...vertex, GOOGLE_VERTEX_PROJECT: 'a/b' }, 'GOOGLE_VERTEX_PROJECT must be the id of a project'],
])('an incomplete environment offers nothing and says what is wrong: %#', (environment, problem) => {
  const found = detectClouds(environment)
  expect(found.length).toBeGreaterThan(0)
  for (const { finding, offers } of found) {
    expect(offers).toEqual([])
    expect(finding.note).toContain(problem)
  }
})

test('nothing is detected without a key, nor what the file declares', () => {
  expect(detectClouds({ GOOGLE_APPLICATION_CREDENTIALS: key, AWS_REGION: 'us-east-1' })).toEqual([])
  const declared = declaredNames([
    { name: 'a', base_url: 'https://me.openai.azure.com/openai/v1' },
    { name: 'b', base_url: 'https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1' },
    { name: 'c', base_url: 'https://bedrock-mantle.us-east-1.api.aws/anthropic/v1' },
    { name: 'd', base_url: 'https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1' },
  ])
  expect(detectClouds({ ...azure, ...bedrock, ...vertex }, declared)).toEqual([])
})

test('no secret is shown to the operator', () => {
  const findings = detectClouds({ ...azure, ...bedrock, ...vertex }).map(({ finding }) => finding)
  for (const secret of ['secret-azure', 'secret-aws', 'PRIVATE']) expect(JSON.stringify(findings)).not.toContain(secret)
})

describe('prices', () => {
  /** Newer than the data of genai-prices, or known to it under the price of another model. */
  const unknown = ['claude-sonnet-5-5', 'claude-haiku-5-5']
  /** The vendor charges half of this price until the end of 2026. */
  const soldAbove = ['gemini-3.7-flash']
  const providers: Record<string, string> = {
    azure: 'azure',
    bedrock: 'aws',
    'bedrock-claude': 'aws',
    vertex: 'google',
  }
  const oracleIds: Record<string, string> = {
    'my-mini': 'gpt-4.1-mini',
    'anthropic.claude-haiku-4-5': 'anthropic.claude-haiku-4-5-20251001-v1:0',
  }
  const offers = offersOf({ ...azure, ...bedrock, ...vertex }).filter(({ modelId }) => !unknown.includes(modelId))
  const timestamp = new Date(Date.UTC(2026, 10, 23, 12))
  const parts = (more: Partial<UsageParts>) => ({
    ...{ freshTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, cacheWriteLongTokens: 0 },
    ...{ outputTokens: 0, reasoningTokens: null },
    ...more,
  })

  test.each(offers.map(offer => [offer.offerId, offer] as const))('%s costs what genai-prices knows', (_, offer) => {
    const { price, upstreamModel, modelId, endpoint } = offer
    for (const input of [10_000, 300_000]) {
      const cases: [Usage, UsageParts | null, number][] = [
        [{ input_tokens: input }, null, 0],
        [{ input_tokens: input, output_tokens: 1_000 }, null, 1_000],
        [{ input_tokens: input, cache_read_tokens: input }, parts({ cacheReadTokens: input }), 0],
        [{ input_tokens: input, cache_write_tokens: input }, parts({ cacheWriteTokens: input }), 0],
      ]
      for (const [usage, split, output] of cases) {
        const providerId = providers[endpoint.name]!
        const id = oracleIds[upstreamModel] ?? upstreamModel
        const theirs = Number(calcPrice(usage, id, { providerId, timestamp })!.total_price)
        const ours = Number(billedCost(price, input, output, split).nanos) / 1e9
        if (soldAbove.includes(modelId)) expect(ours).toBeGreaterThanOrEqual(theirs)
        else expect(ours, JSON.stringify(usage)).toBeCloseTo(theirs, 8)
      }
    }
  })

  test('outside of global, Vertex costs a tenth more, for long prompts too', () => {
    const [here, there] = ['global', 'us-east5'].map(location =>
      offersOf({ ...vertex, GOOGLE_VERTEX_LOCATION: location }),
    ) as [typeof offers, typeof offers]
    for (const [index, { price }] of here.entries()) {
      for (const input of [1_000, 900_000]) {
        const cost = (each: typeof price) => billedCost(each, input, 1_000, null).nanos
        expect(cost(there[index]!.price) * 10n).toBe(cost(price) * 11n)
      }
    }
  })
})
