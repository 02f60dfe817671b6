import type { ManifestModel } from '#api/hoster-manifest.ts'
import { readCount } from '../../format/typed-number.ts'
import { perMillionText, perTokenText } from './manifest-edits.ts'

/** A model of the manifest as it is typed. Prices are USD per million tokens. */
export interface ModelInput {
  readonly id: string
  readonly name: string
  readonly upstream: string
  readonly context: string
  readonly maxOutput: string
  /** Requests at once. Empty: the gateway finds a limit. */
  readonly concurrent: string
  /** Empty: not stated. */
  readonly quantization: string
  readonly features: readonly string[]
  readonly input: string
  readonly output: string
  /** Empty: the price of input. */
  readonly cacheRead: string
  readonly cacheWrite: string
}

/** @param model null: a new one */
export function modelInput(model: ManifestModel | null): ModelInput {
  const price = (perToken: string | null | undefined) => (perToken ? perMillionText(perToken) : '')
  return {
    id: model?.id ?? '',
    name: model?.name ?? '',
    upstream: model?.upstream_model ?? '',
    context: String(model?.context_length ?? 32_768),
    maxOutput: String(model?.max_output_length ?? 8_192),
    concurrent: String(model?.max_concurrent ?? ''),
    quantization: model?.quantization ?? '',
    features: model?.supported_features ?? [],
    input: price(model?.pricing.prompt),
    output: price(model?.pricing.completion),
    cacheRead: price(model?.pricing.input_cache_read),
    cacheWrite: price(model?.pricing.input_cache_write),
  }
}

/** Returns the model to send. What cannot be read is sent as it is, so that the gateway says what is wrong with it. */
export function typedModel(input: ModelInput): ManifestModel {
  const optional = (text: string) => (text.trim() === '' ? null : text.trim())
  const price = (text: string) => (text.trim() === '' ? null : perTokenText(text))
  return {
    id: input.id.trim(),
    name: optional(input.name),
    upstream_model: optional(input.upstream),
    context_length: wholeNumber(input.context),
    max_output_length: wholeNumber(input.maxOutput),
    max_concurrent: input.concurrent.trim() === '' ? null : wholeNumber(input.concurrent),
    quantization: optional(input.quantization) as ManifestModel['quantization'],
    supported_features: [...input.features] as NonNullable<ManifestModel['supported_features']>,
    pricing: {
      prompt: perTokenText(input.input),
      completion: perTokenText(input.output),
      input_cache_read: price(input.cacheRead),
      input_cache_write: price(input.cacheWrite),
    },
  }
}

/** What is no number stays text. */
function wholeNumber(text: string): number {
  return readCount(text) as number
}
