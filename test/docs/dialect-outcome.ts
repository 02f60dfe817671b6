import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { Dialect } from '../../src/base/domain/conversation.ts'
import { ApiError } from '../../src/base/domain/errors.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { plainPrices, pricesOf } from '../../src/base/domain/price-list.ts'
import type { JsonObject } from '../../src/base/runtime/json-object.ts'
import { eligible } from '../../src/request/admit/eligible.ts'
import { nativeDroppedFields, nativeTask } from '../../src/wire/dialects/native-task.ts'
import { crossingClients } from '../dispatch/crossing-clients.ts'
import { offerAt } from '../dispatch/dispatching.ts'
import type { ScriptedDialect } from '../harness/scripted-vendors.ts'
import { healthOf } from '../supply/random-market.ts'
import type { DialectFeature } from './dialect-features.ts'

const question: Readonly<Record<ScriptedDialect, JsonObject>> = {
  chat: { model: 'public-model', max_tokens: 64, messages: [{ role: 'user', content: 'Hi' }] },
  responses: { model: 'public-model', max_output_tokens: 64, input: [{ role: 'user', content: 'Hi' }] },
  messages: { model: 'public-model', max_tokens: 64, messages: [{ role: 'user', content: 'Hi' }] },
  gemini: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
}

const prices = { ...plainPrices(1n, 1n), parts: { cache_read: 1n, cache_write: 1n, cache_write_long: 1n } }

/** A local offer whose server speaks one dialect, and that has prices for caches. */
function offerOf(server: Dialect): Offer {
  const { price } = pricesOf(prices, 'local')
  const offer = { ...offerAt('http://vendor.test/v1'), price, upstreamModel: 'anthropic.claude-model' }
  return server === 'chat' ? offer : { ...offer, speaks: [server] }
}

/**
 * What becomes of a part of a request. `yes`: its server gets it, as it is or translated. `always`: the server does so without
 * being asked. `dropped`: the server does not get it, and the client learns its name. `refused`: 400. `lost` would be a fault:
 * the server does not get it, and the client does not learn of it.
 */
type FeatureOutcome = 'yes' | 'always' | 'dropped' | 'excluded' | 'refused' | 'lost'

/** Returns what becomes of a feature on its way from a client to a server, by what the server would be sent. */
export function featureOutcome(client: ScriptedDialect, feature: DialectFeature, server: Dialect): FeatureOutcome {
  const offer = offerOf(server)
  let job: ChatJob
  try {
    job = jobOf(client, feature.body)
  } catch (error) {
    if (error instanceof ApiError && error.row.status === 400) return 'refused'
    throw error
  }
  const { excluded } = eligible([offer], job, healthOf())
  if (excluded.length > 0) {
    if (excluded[0]!.reason !== 'feature_missing') throw new Error(`${feature.name}: ${excluded[0]!.reason}`)
    return 'excluded'
  }
  const plain = jobOf(client, feature.without ?? {})
  const isSent = bodyFor(job, offer) !== bodyFor(plain, offer)
  const before = new Set(nativeDroppedFields(plain, offer))
  const isNamed = nativeDroppedFields(job, offer).some(field => !before.has(field))
  if (isSent && isNamed) throw new Error(`${feature.name} is sent to ${server}, and named as dropped.`)
  if (isSent) return 'yes'
  if (isNamed) return 'dropped'
  return feature.alwaysAt?.includes(server) ? 'always' : 'lost'
}

function jobOf(client: ScriptedDialect, body: JsonObject): ChatJob {
  return crossingClients[client].job({ ...question[client], ...body })
}

function bodyFor(job: ChatJob, offer: Offer): string {
  return nativeTask(job, offer).requestBody(job, offer, 64)
}
