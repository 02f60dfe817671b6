import { features } from '../../../base/domain/chat-job.ts'
import { MODEL_ID, modelIdText, UPSTREAM_MODEL_ID, upstreamModelIdText } from '../../../base/domain/model-id.ts'
import { isReservedModel } from '../../../base/domain/offer.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { UUID } from '../../../base/runtime/uuid.ts'
import { parseOutboundUrl } from '../../../wire/egress/outbound-url.ts'
import type { HostedModel } from './hosted-model.ts'

// Checks of operator input. Each throws SupplyError `invalid_value`.

/**
 * 1,000 USD per million tokens. The most expensive models cost about 200; a higher price is a misplaced
 * decimal point.
 */
const PICO_PER_TOKEN_MAX = 1_000_000_000n

export function checkModel(model: HostedModel): void {
  if (!MODEL_ID.test(model.modelId))
    throw new SupplyError('invalid_value', `The model id "${model.modelId}" is not ${modelIdText}.`)
  if (isReservedModel(model.modelId))
    throw new SupplyError('invalid_value', `The model id "${model.modelId}" is reserved. Choose another one.`)
  if (model.upstreamModel !== undefined && !UPSTREAM_MODEL_ID.test(model.upstreamModel))
    throw new SupplyError('invalid_value', `The upstream model "${model.upstreamModel}" is not ${upstreamModelIdText}.`)
  checkPrice('The input price', model.price.inputPicoPerToken)
  checkPrice('The output price', model.price.outputPicoPerToken)
  checkCachePrice('The cache read price', model.price.cacheReadPicoPerToken, model.price.inputPicoPerToken)
  checkCachePrice('The cache write price', model.price.cacheWritePicoPerToken, model.price.inputPicoPerToken)
  checkInteger('The context length', model.contextTokens, 1, 100_000_000)
  checkInteger('The largest output', model.maxOutputTokens, 1, 100_000_000)
  if (model.maxOutputTokens > model.contextTokens) {
    const [output, context] = [model.maxOutputTokens, model.contextTokens]
    throw new SupplyError(
      'invalid_value',
      `The largest output, ${output} tokens, is more than the context length, ${context}. Input and output together must fit into the context.`,
    )
  }
  if (model.maxConcurrent !== null && model.maxConcurrent !== undefined)
    checkInteger('The number of requests at once', model.maxConcurrent, 1, 100_000)
  const unknown = model.features.find(feature => !features.includes(feature))
  if (unknown) throw new SupplyError('invalid_value', `"${unknown}" is not a feature. Use ${features.join(', ')}.`)
}

function checkPrice(what: string, picoPerToken: bigint): void {
  if (picoPerToken < 0n || picoPerToken > PICO_PER_TOKEN_MAX)
    throw new SupplyError('invalid_value', `${what} must be between 0 and 1,000 USD per million tokens.`)
}

/** Cached tokens are billed as the hoster reports them, so they may only lower a bill. */
function checkCachePrice(what: string, picoPerToken: bigint | undefined, inputPicoPerToken: bigint): void {
  if (picoPerToken === undefined) return
  checkPrice(what, picoPerToken)
  if (picoPerToken > inputPicoPerToken)
    throw new SupplyError('invalid_value', `${what} must be at most the input price: cached tokens only lower a bill.`)
}

export function checkInteger(what: string, value: number, least: number, most: number): number {
  if (!Number.isInteger(value) || value < least || value > most)
    throw new SupplyError('invalid_value', `${what} must be a whole number from ${least} to ${most}.`)
  return value
}

export function checkTrust(trustScore: number): number {
  if (!(trustScore >= 0 && trustScore <= 1))
    throw new SupplyError('invalid_value', 'The trust score must be between 0 and 1.')
  return trustScore
}

export function checkName(name: string): string {
  if (!/^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,79}$/u.test(name) || name.endsWith(' '))
    throw new SupplyError(
      'invalid_value',
      'The name must have 1 to 80 letters, digits, spaces, dots, dashes or underscores. It must begin with a letter or digit and must not end with a space.',
    )
  // Commands find hosters by id or name. A name that equals another hoster's id would receive that hoster's
  // changes and keys.
  if (UUID.test(name)) throw new SupplyError('invalid_value', 'The name must not look like an id. Choose another name.')
  return name
}

export function checkKey(key: string | undefined): string | undefined {
  // The key becomes a header value. Other characters are a typing mistake or an attempt to inject headers.
  if (key !== undefined && !/^[\x21-\x7e]{1,4096}$/.test(key))
    throw new SupplyError('invalid_value', 'The upstream key must be printable ASCII without spaces.')
  return key
}

/**
 * Checks the URL of a hoster and returns it without a trailing slash. Requests and a credential are sent
 * there, so it must be https on the public internet; with `allowPrivate` the operator permits private
 * addresses and http. Throws SupplyError `invalid_url`.
 */
export function checkHosterUrl(text: string, { allowPrivate }: { allowPrivate: boolean }): string {
  const url = parseOutboundUrl(text, { allowPrivate, allowQuery: false })
  if (typeof url !== 'string') return url.href.replace(/(?<!\/)\/+$/, '')
  const isPrivate = typeof parseOutboundUrl(text, { allowPrivate: true, allowQuery: false }) !== 'string'
  const advice = isPrivate
    ? ' To use your own server on a private network, set hosters.allow_private_urls: true in switchyard.yaml and restart the gateway.'
    : ''
  throw new SupplyError('invalid_url', `This hoster URL is refused: ${url}.${advice}`)
}
