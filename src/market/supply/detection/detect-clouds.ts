import { cloudTimeouts } from '../../../base/domain/endpoint-defaults.ts'
import { parsePricePerMillion } from '../../../base/domain/money.ts'
import type { Endpoint, Offer } from '../../../base/domain/offer.ts'
import { type ListedPrice, type PriceList, pricesOf } from '../../../base/domain/price-list.ts'
import { type CloudModel, type CloudPreset, type CloudPrices, cloudPresets, cloudPricesAsOf } from './cloud-presets.ts'
import { type Finding, modelsOf } from './detect-local.ts'
import { type RegionalPreset, regionalPresets } from './regional-presets.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface DetectedCloud {
  readonly finding: Finding
  readonly offers: readonly Offer[]
}

/**
 * Returns the clouds with a key in `environment`, with the models that have a known price (cloud-presets.ts,
 * regional-presets.ts). Sends no request, so that a start neither waits for clouds nor contacts them. A cloud without
 * priced models, or with an incomplete environment, is listed but offers nothing.
 *
 * @param except endpoint names that the configuration declares
 */
export function detectClouds(environment: Environment, except: ReadonlySet<string> = new Set()): DetectedCloud[] {
  const isDetected = ({ name, keyVariable }: { name: string; keyVariable: string }) =>
    environment[keyVariable]?.trim() && !except.has(name)
  return [
    ...cloudPresets.filter(isDetected).map(preset => detected(preset, environment)),
    ...regionalPresets.filter(isDetected).map(regional => {
      try {
        return detected(regional.preset(environment), environment)
      } catch (error) {
        return incomplete(regional, (error as Error).message)
      }
    }),
  ]
}

function detected(preset: CloudPreset, environment: Environment): DetectedCloud {
  const offers = offersOf(preset, (environment[preset.keyVariable] ?? '').trim())
  const { name, baseUrl } = preset
  return { finding: { name, kind: 'cloud', baseUrl, ...modelsOf(offers), note: noteOf(preset) }, offers }
}

function incomplete({ name, keyVariable, exampleUrl }: RegionalPreset, problem: string): DetectedCloud {
  const note = `${keyVariable} is set, but nothing is offered: ${problem}.`
  return { finding: { name, kind: 'cloud', baseUrl: exampleUrl, ...modelsOf([]), note }, offers: [] }
}

function offersOf(preset: CloudPreset, apiKey: string): Offer[] {
  const endpoint: Endpoint = {
    endpointId: preset.name,
    kind: 'cloud',
    hosterId: null,
    name: preset.name,
    baseUrl: preset.baseUrl,
    apiKey: preset.credential === undefined ? apiKey : null,
    ...(preset.credential && { credential: preset.credential }),
    dialect: preset.dialect,
    timeouts: cloudTimeouts,
    trustScore: null,
    hosterShareBps: 0,
    demo: false,
    egress: 'any',
  }
  return preset.models.map(model => {
    const prices = pricesOf(cloudPriceList(model), 'cloud')
    return {
      offerId: `${preset.name}/${model.modelId}`,
      endpoint,
      modelId: model.modelId,
      upstreamModel: model.upstreamModel ?? model.modelId,
      ...prices,
      // The prices are those of the cloud.
      cost: prices.price,
      contextTokens: model.contextTokens,
      maxOutputTokens: model.maxOutputTokens,
      features: new Set(model.features),
      ...(model.quirks && { quirks: model.quirks }),
      ...spoken(model.speaks ?? preset.speaks),
    }
  })
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
      days,
      fromMinute,
      untilMinute,
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
