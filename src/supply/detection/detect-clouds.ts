import { standardTimeouts } from '../../domain/endpoint-defaults.ts'
import { parsePricePerMillion } from '../../domain/money.ts'
import type { Endpoint, Offer } from '../../domain/offer.ts'
import { type ListedPrice, type PriceList, pricesOf } from '../../domain/price-list.ts'
import { type CloudModel, type CloudPreset, type CloudPrices, cloudPresets, cloudPricesAsOf } from './cloud-presets.ts'
import { type Finding, modelsOf } from './detect-local.ts'

export interface DetectedCloud {
  readonly finding: Finding
  readonly offers: readonly Offer[]
}

/**
 * Returns the clouds with a key in `environment`, with the models that have a known price
 * (cloud-presets.ts). Sends no request, so that a start neither waits for clouds nor contacts them. A cloud without
 * priced models is listed but offers nothing.
 *
 * @param except endpoint names that the configuration declares
 */
export function detectClouds(
  environment: Readonly<Record<string, string | undefined>>,
  except: ReadonlySet<string> = new Set(),
): DetectedCloud[] {
  return cloudPresets.flatMap(preset => {
    const apiKey = environment[preset.keyVariable]?.trim()
    if (!apiKey || except.has(preset.name)) return []
    const offers = offersOf(preset, apiKey)
    return [
      {
        finding: {
          name: preset.name,
          kind: 'cloud',
          baseUrl: preset.baseUrl,
          ...modelsOf(offers),
          note: noteOf(preset),
        },
        offers,
      },
    ]
  })
}

function offersOf(preset: CloudPreset, apiKey: string): Offer[] {
  const endpoint: Endpoint = {
    endpointId: preset.name,
    kind: 'cloud',
    hosterId: null,
    name: preset.name,
    baseUrl: preset.baseUrl,
    apiKey,
    dialect: preset.dialect,
    timeouts: standardTimeouts,
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
  }
  return preset.models.map(model => ({
    offerId: `${preset.name}/${model.modelId}`,
    endpoint,
    modelId: model.modelId,
    upstreamModel: model.modelId,
    ...pricesOf(cloudPriceList(model), 'cloud'),
    contextTokens: model.contextTokens,
    maxOutputTokens: model.maxOutputTokens,
    features: new Set(model.features),
    ...(model.quirks && { quirks: model.quirks }),
    ...spoken(model.speaks ?? preset.speaks),
  }))
}

function spoken(speaks: Offer['speaks']): Pick<Offer, 'speaks'> {
  return speaks === undefined ? {} : { speaks }
}

/** Returns the price list of a preset. A cloud without a price for cache writes charges nothing extra for them. */
function cloudPriceList({ prices, longPrompts, peaks = [] }: CloudModel): PriceList {
  return {
    ...listed(prices),
    steps:
      longPrompts === undefined ? [] : [{ ...listed(longPrompts), aboveInputTokens: longPrompts.aboveInputTokens }],
    windows: peaks.map(({ days, fromMinute, untilMinute, ...price }) => ({
      ...listed(price),
      ...{ days, fromMinute, untilMinute },
    })),
  }
}

function listed({ input, output, cacheRead, cacheWrite = input }: CloudPrices): ListedPrice {
  const picos = (text: string) => parsePricePerMillion(text)!
  return {
    input: picos(input),
    output: picos(output),
    parts: { ...(cacheRead !== undefined && { cache_read: picos(cacheRead) }), cache_write: picos(cacheWrite) },
    perRequest: 0n,
  }
}

function noteOf({ name, keyVariable, models }: CloudPreset): string {
  if (models.length > 0)
    return `${keyVariable} is set. Sold at the list prices of ${cloudPricesAsOf}, without a margin: check them before selling. Other models need a price in switchyard.yaml.`
  return `${keyVariable} is set, but no prices are known, so nothing is offered. Declare an endpoint "${name}" with models and prices in switchyard.yaml.`
}
