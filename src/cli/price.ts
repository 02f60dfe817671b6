import type { Command } from 'commander'
import type { Offer } from '../base/domain/offer.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { declaredNames } from '../market/supply/detection/declared-names.ts'
import { detectClouds } from '../market/supply/detection/detect-clouds.ts'
import { localServersAt } from '../market/supply/detection/detect-local.ts'
import { comparePrices } from '../market/supply/prices/compare-prices.ts'
import { MODELS_DEV_URL, readPublishedPrices } from '../market/supply/prices/published-prices.ts'
import { configuredOffers } from '../start/config/configured-offers.ts'
import { createCommand, createCommandGroup, createSession, type Session } from './command.ts'
import { Failure } from './failure.ts'
import { priceText } from './output.ts'
import { table } from './table.ts'

export function priceCommands(): Command {
  return createCommandGroup('price', 'Compare the prices of clouds', [check()])
}

/** The hosts of clouds with their names in the list of models.dev, for endpoints with other names. */
const providersByHost: Readonly<Record<string, string>> = {
  'api.openai.com': 'openai',
  'api.anthropic.com': 'anthropic',
  'generativelanguage.googleapis.com': 'google',
  'api.mistral.ai': 'mistral',
  'api.groq.com': 'groq',
  'api.deepseek.com': 'deepseek',
  'api.together.xyz': 'togetherai',
  'api.fireworks.ai': 'fireworks-ai',
  'openrouter.ai': 'openrouter',
  'api.x.ai': 'xai',
}

function check(): Command {
  return createCommand(
    'check',
    'Compare the prices of cloud models with the list of models.dev; fails if one is sold below it',
    ['price check', 'price check --json'],
  )
    .option('--url <url>', `address of the list; default: ${MODELS_DEV_URL}`, MODELS_DEV_URL)
    .action(async options => {
      const session = createSession(options)
      const offers = cloudOffers(session)
      const published = await readPublishedPrices(options.url).catch((error: unknown) => {
        throw error instanceof SupplyError ? new Failure(error.message) : error
      })
      const rows = offers.flatMap(offer => {
        const model = published(providerOf(offer), offer.upstreamModel) ?? published(providerOf(offer), offer.modelId)
        if (model === undefined) return [rowOf(offer, 'not_listed')]
        const differences = comparePrices(offer, model)
        if (differences.length === 0) return [rowOf(offer, 'same')]
        return differences.map(({ tokens, aboveInputTokens, window, ours, published }) => ({
          ...rowOf(offer, ours < published ? 'below_list' : 'above_list'),
          ...{
            tokens,
            above_input_tokens: aboveInputTokens,
            window,
            sold_at: priceText(ours),
            list_price: priceText(published),
          },
        }))
      })
      session.output.result(
        rows,
        table(
          ['endpoint', 'model', 'result', 'tokens', 'prompts above', 'times (UTC)', 'USD/M sold', 'USD/M list'],
          rows.map(row => [
            row.endpoint,
            row.model,
            words[row.result],
            row.tokens ?? '-',
            row.above_input_tokens === null ? '-' : String(row.above_input_tokens),
            row.window ?? '-',
            row.sold_at ?? '-',
            row.list_price ?? '-',
          ]),
          'No cloud is offered, so there is nothing to compare.',
        ),
      )
      const below = new Set(rows.filter(({ result }) => result === 'below_list').map(({ model }) => model))
      if (below.size > 0) {
        throw new Failure(
          `Sold below the list price: ${[...below].join(', ')}. Raise these prices in switchyard.yaml, unless you pay less than the list says.`,
        )
      }
    })
}

/** The configured clouds, and the detected ones, as a start would find them. */
function cloudOffers({ config }: Session): readonly Offer[] {
  const { detect, endpoints } = config
  const declared = declaredNames(endpoints, localServersAt(detect.ports))
  const detected = detect.enabled && detect.cloud ? detectClouds(detect.cloudKeys, declared) : []
  return [...configuredOffers(config), ...detected.flatMap(({ offers }) => offers)].filter(
    ({ endpoint }) => endpoint.kind === 'cloud',
  )
}

type Result = 'same' | 'below_list' | 'above_list' | 'not_listed'

const words: Readonly<Record<Result, string>> = {
  same: 'as listed',
  below_list: 'BELOW LIST',
  above_list: 'above list',
  not_listed: 'not listed',
}

/** A type and not an interface, so that it counts as JSON. */
type Row = {
  readonly endpoint: string
  readonly model: string
  readonly result: Result
  readonly tokens: string | null
  readonly above_input_tokens: number | null
  /** Null outside of windows. */
  readonly window: string | null
  readonly sold_at: string | null
  readonly list_price: string | null
}

function rowOf({ endpoint, modelId }: Offer, result: Result): Row {
  const nothing = { tokens: null, above_input_tokens: null, window: null, sold_at: null, list_price: null }
  return { endpoint: endpoint.name, model: modelId, result, ...nothing }
}

function providerOf({ endpoint, speaks }: Offer): string {
  const { hostname } = new URL(endpoint.baseUrl)
  if (hostname.endsWith('.azure.com')) return 'azure'
  if (hostname.startsWith('bedrock-')) return 'amazon-bedrock'
  if (endpoint.credential?.kind === 'google_service_account') {
    return speaks?.[0] === 'messages' ? 'google-vertex-anthropic' : 'google-vertex'
  }
  return providersByHost[hostname] ?? endpoint.name
}
