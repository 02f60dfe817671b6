import type { Dialect } from '../../base/domain/conversation.ts'
import {
  ASSUMED_CONTEXT_TOKENS,
  awsRegionIn,
  hidesReasoningAt,
  keyHeaderAt,
} from '../../base/domain/endpoint-defaults.ts'
import type { Endpoint, Offer } from '../../base/domain/offer.ts'
import { type ListedPrice, type PriceList, pricesOf } from '../../base/domain/price-list.ts'
import type { EndpointSettings } from './schema.ts'
import { weekdays } from './values.ts'

/**
 * Returns the offers of the endpoints and models that are enabled, in the order of the file.
 *
 * @param contexts what servers report, by offer id, for models without `context_tokens`
 */
export function configuredOffers(
  config: { readonly endpoints: readonly EndpointSettings[] },
  contexts: ReadonlyMap<string, number> = new Map(),
): Offer[] {
  return config.endpoints.filter(isEnabled).flatMap(settings => {
    const endpoint = endpointOf(settings)
    return settings.models.filter(isEnabled).map(model => {
      const offerId = `${endpoint.endpointId}/${model.id}`
      const contextTokens = model.context_tokens ?? contexts.get(offerId) ?? ASSUMED_CONTEXT_TOKENS
      return {
        offerId,
        endpoint,
        modelId: model.id,
        upstreamModel: model.upstream_model ?? model.id,
        ...pricesOf(configuredPrices(model.price_per_million_usd), endpoint.kind),
        ...costOf(model.cost_per_million_usd),
        contextTokens,
        maxOutputTokens: Math.min(model.max_output_tokens ?? contextTokens, contextTokens),
        ...(model.max_in_flight !== undefined && { capacity: model.max_in_flight }),
        ...weightOf(model.weight ?? settings.weight),
        features: new Set(model.features),
        quirks: {
          dropFields: model.drop_fields,
          exclusiveReasoning: model.exclusive_reasoning,
          thinking: model.thinking,
        },
        ...speaking(model.speaks ?? settings.speaks),
      }
    })
  })
}

const isEnabled = ({ enabled }: { readonly enabled: boolean }) => enabled

const USUAL_WEIGHT = 100

function weightOf(weight: number): Pick<Offer, 'weight'> {
  return weight === USUAL_WEIGHT ? {} : { weight: weight / USUAL_WEIGHT }
}

/** Offers that speak only chat say nothing, so that requests to them cost nothing more. */
function speaking(speaks: readonly Dialect[]): Pick<Offer, 'speaks'> {
  return speaks.every(dialect => dialect === 'chat') ? {} : { speaks }
}

function endpointOf(settings: EndpointSettings): Endpoint {
  return {
    endpointId: settings.name,
    kind: settings.kind,
    hosterId: null,
    name: settings.name,
    baseUrl: settings.base_url,
    apiKey: settings.api_key ?? null,
    ...credentialOf(settings),
    dialect: {
      maxTokensField: settings.dialect.max_tokens_field,
      developerToSystem: settings.dialect.developer_to_system,
      streamOptions: settings.dialect.stream_options,
      forwardFields: settings.dialect.forward_fields,
      dropFields: settings.dialect.drop_fields,
      toolCallIds: settings.dialect.tool_call_ids,
      hidesReasoning: settings.dialect.hides_reasoning ?? hidesReasoningAt(settings.base_url),
      base64Embeddings: settings.dialect.base64_embeddings,
      keyHeader:
        settings.key_header === 'auto' ? keyHeaderAt(settings.base_url, settings.speaks[0]!) : settings.key_header,
    },
    timeouts: {
      connectMs: settings.timeouts.connect_ms,
      firstTokenMs: settings.timeouts.first_token_ms,
      tokenMs: settings.timeouts.token_ms,
      thinkingMs: settings.timeouts.thinking_ms,
      idleMs: settings.timeouts.idle_ms,
      totalMs: settings.timeouts.total_ms,
    },
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
    ...(settings.monthly_budget_usd !== undefined && { monthlyBudgetNanos: settings.monthly_budget_usd }),
    ...(settings.trace_context !== undefined && { getsTraces: settings.trace_context }),
    origin: 'file',
  }
}

function credentialOf(settings: EndpointSettings): Pick<Endpoint, 'credential'> {
  const { google_service_account: account, aws_access_key_id: accessKeyId, aws_secret_access_key: secret } = settings
  if (account !== undefined) return { credential: account }
  if (accessKeyId === undefined || secret === undefined) return {}
  return {
    credential: {
      kind: 'aws_keys',
      accessKeyId,
      secretAccessKey: secret,
      sessionToken: settings.aws_session_token || null,
      region: settings.aws_region ?? awsRegionIn(settings.base_url)!,
    },
  }
}

type PriceSettings = EndpointSettings['models'][number]['price_per_million_usd']

function costOf(cost: EndpointSettings['models'][number]['cost_per_million_usd']): Pick<Offer, 'cost'> {
  if (cost === undefined) return {}
  return { cost: pricesOf(configuredPrices({ ...cost, steps: [], windows: [] }), 'cloud').price }
}

/** Returns the price list of a configured model. */
function configuredPrices({ steps, windows, ...base }: PriceSettings): PriceList {
  return {
    ...listedPrice(base),
    steps: steps.map(({ above_input_tokens, ...prices }) => ({
      ...listedPrice(prices),
      aboveInputTokens: above_input_tokens,
    })),
    windows: windows.map(({ days, hours, ...prices }) => ({
      ...listedPrice(prices),
      ...hours,
      days: days.map(day => weekdays.indexOf(day)),
    })),
  }
}

function listedPrice({
  input,
  output,
  per_request_usd,
  ...parts
}: Omit<PriceSettings, 'steps' | 'windows'>): ListedPrice {
  return { input, output, parts: named(parts), perRequest: (per_request_usd ?? 0n) * PICOS_PER_NANO }
}

/** Leaves out the kinds without a price. */
function named<Parts extends object>(parts: Parts): { [Kind in keyof Parts]?: NonNullable<Parts[Kind]> } {
  return Object.fromEntries(Object.entries(parts).filter(([, price]) => price !== undefined)) as typeof parts
}

const PICOS_PER_NANO = 1_000n
