import { standardQuirks } from '../../../base/domain/endpoint-defaults.ts'
import type { UpstreamQuirks } from '../../../base/domain/offer.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { type CloudModel, type CloudPreset, type CloudPrices, cloudPresets } from '../detection/cloud-presets.ts'
import { commonLocalServers } from '../detection/detect-local.ts'
import { regionalPresets } from '../detection/regional-presets.ts'

/** A kind of server to choose from: what an entry of `endpoints` in switchyard.yaml begins with. */
export interface ProviderPreset {
  /** Also the proposed name. */
  readonly id: string
  readonly title: string
  /** As in an entry of `endpoints`: `kind`, `base_url`, `speaks`, `dialect`. Capitals in the address stand for what the operator knows. */
  readonly settings: JsonObject
  /** Which keys the server needs. */
  readonly secrets: readonly ('api_key' | 'google_service_account')[]
  /** The provider's id in the price library; null: not there. */
  readonly libraryId: string | null
  /** Models whose prices and limits are known here, as entries of `models`. */
  readonly models: readonly JsonObject[]
}

const titles: Readonly<Record<string, readonly [title: string, libraryId: string]>> = {
  openai: ['OpenAI', 'openai'],
  anthropic: ['Anthropic', 'anthropic'],
  gemini: ['Google Gemini', 'google'],
  mistral: ['Mistral', 'mistral'],
  groq: ['Groq', 'groq'],
  deepseek: ['DeepSeek', 'deepseek'],
  together: ['Together', 'together'],
  fireworks: ['Fireworks', 'fireworks'],
  openrouter: ['OpenRouter', 'openrouter'],
  azure: ['Azure OpenAI', 'azure'],
  bedrock: ['Amazon Bedrock', 'aws'],
  'bedrock-claude': ['Amazon Bedrock, Claude', 'aws'],
  vertex: ['Google Vertex AI', 'google'],
}

const localTitles: Readonly<Record<string, string>> = {
  vllm: 'vLLM',
  ollama: 'Ollama',
  llamacpp: 'llama.cpp',
  lmstudio: 'LM Studio',
  sglang: 'SGLang',
}

const weekdayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

/** The kinds of servers that an operator can choose from: clouds, local servers, and any other with OpenAI's API. */
export const providerPresets: readonly ProviderPreset[] = [
  ...cloudPresets.map(preset => cloudPreset(preset, preset.baseUrl, 'api_key')),
  {
    id: 'xai',
    title: 'xAI',
    settings: { kind: 'cloud', base_url: 'https://api.x.ai/v1' },
    secrets: ['api_key'],
    libraryId: 'x-ai',
    models: [],
  },
  ...regionalPresets.map(regional => {
    const { exampleEnvironment, exampleUrl, secret } = regional
    const models = exampleEnvironment === null ? [] : regional.preset(exampleEnvironment).models
    return cloudPreset({ ...regional, models }, exampleUrl, secret)
  }),
  ...commonLocalServers.flatMap(({ name, port }): ProviderPreset[] => {
    const title = localTitles[name]
    if (title === undefined) return []
    const settings = { kind: 'local', base_url: `http://127.0.0.1:${port}/v1` }
    return [{ id: name, title, settings, secrets: ['api_key'], libraryId: null, models: [] }]
  }),
  {
    id: 'other',
    title: 'Other, OpenAI-compatible',
    settings: { kind: 'cloud', base_url: 'https://HOST/v1' },
    secrets: ['api_key'],
    libraryId: null,
    models: [],
  },
]

/** Returns the preset of the vendor at an address; undefined if it is no known cloud. */
export function presetAt(baseUrl: string): ProviderPreset | undefined {
  const { hostname } = new URL(baseUrl)
  const regional = regionalPresets.find(({ hosts }) => hosts.test(hostname))
  return providerPresets.find(({ id, libraryId, settings }) =>
    regional ? id === regional.name : libraryId !== null && new URL(settings.base_url as string).hostname === hostname,
  )
}

function titleOf(name: string): readonly [title: string, libraryId: string] {
  const title = titles[name]
  if (title === undefined) throw new Error(`the preset ${name} has no title`)
  return title
}

function cloudPreset(
  { name, dialect, speaks, models }: Pick<CloudPreset, 'name' | 'dialect' | 'speaks' | 'models'>,
  baseUrl: string,
  secret: ProviderPreset['secrets'][number],
): ProviderPreset {
  const [title, libraryId] = titleOf(name)
  return {
    id: name,
    title,
    settings: { kind: 'cloud', base_url: baseUrl, ...(speaks && { speaks }), dialect: dialectSettings(dialect) },
    secrets: [secret],
    libraryId,
    models: models.map(model => modelSettings(model)),
  }
}

/**
 * Returns what differs from the defaults of `dialect`. The header of the key and whether reasoning is hidden follow from
 * the address; no preset changes how embeddings are asked for.
 */
function dialectSettings(quirks: UpstreamQuirks): JsonObject {
  const all: readonly (readonly [string, unknown, unknown])[] = [
    ['max_tokens_field', quirks.maxTokensField, standardQuirks.maxTokensField],
    ['developer_to_system', quirks.developerToSystem, standardQuirks.developerToSystem],
    ['stream_options', quirks.streamOptions, standardQuirks.streamOptions],
    ['forward_fields', quirks.forwardFields, standardQuirks.forwardFields],
    ['drop_fields', quirks.dropFields, standardQuirks.dropFields],
    ['tool_call_ids', quirks.toolCallIds, standardQuirks.toolCallIds],
  ]
  return Object.fromEntries(all.filter(([, value, usual]) => value !== usual).map(([key, value]) => [key, value]))
}

function modelSettings(model: CloudModel): JsonObject {
  const prices = priceSettings(model)
  return {
    id: model.modelId,
    ...(model.upstreamModel !== undefined && { upstream_model: model.upstreamModel }),
    price_per_million_usd: prices,
    cost_per_million_usd: listed(model.prices),
    context_tokens: model.contextTokens,
    max_output_tokens: model.maxOutputTokens,
    features: model.features,
    ...(model.quirks && {
      drop_fields: model.quirks.dropFields,
      exclusive_reasoning: model.quirks.exclusiveReasoning,
      ...(model.quirks.thinking && { thinking: model.quirks.thinking }),
    }),
    ...(model.speaks && { speaks: model.speaks }),
  }
}

function priceSettings({ prices, longPrompts, peaks = [] }: CloudModel): JsonObject {
  return {
    ...listed(prices),
    ...(longPrompts && { steps: [{ above_input_tokens: longPrompts.aboveInputTokens, ...listed(longPrompts) }] }),
    ...(peaks.length > 0 && {
      windows: peaks.map(peak => ({
        days: peak.days.map(day => weekdayNames[day]),
        hours: `${clock(peak.fromMinute)}-${clock(peak.untilMinute)}`,
        ...listed(peak),
      })),
    }),
  }
}

/** A cloud without a price for cache writes charges nothing extra for them. */
function listed({ input, output, cacheRead, cacheWrite = input }: CloudPrices): JsonObject {
  return { input, output, ...(cacheRead !== undefined && { cache_read: cacheRead }), cache_write: cacheWrite }
}

function clock(minute: number): string {
  return `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`
}
