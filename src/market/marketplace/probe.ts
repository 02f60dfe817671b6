import type { Feature } from '../../base/domain/chat-job.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import type { Endpoint } from '../../base/domain/offer.ts'
import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import type { VerificationReport } from '../../wire/api/hoster-verification.ts'
import type { HostedModel } from '../supply/hosters/hosted-model.ts'

/** A small request that shows whether a model answers. */
export interface Probe {
  /** Appended to the base URL. */
  readonly path: string
  /** JSON text. */
  readonly body: string
  /** Returns what is wrong with the answer, or null. */
  readonly problemOf: (status: number, text: string) => string | null
}

/** Returns the probe of a model by what it does. */
export function probeOf(upstreamModel: string, features: readonly Feature[]): Probe {
  const { path, fields, hasAnswer } = forms.find(({ feature }) => features.includes(feature)) ?? chat
  return {
    path,
    body: JSON.stringify({ model: upstreamModel, ...fields }),
    problemOf(status, text) {
      if (status !== 200) return sayOfHoster('hoster.probe.status', { status }).text
      const body = parsed(text)
      if (!isJsonObject(body)) return sayOfHoster('hoster.probe.no_object').text
      return hasAnswer(body) ? null : sayOfHoster('hoster.probe.empty').text
    },
  }
}

interface ProbeForm {
  readonly feature: Feature
  readonly path: string
  readonly fields: JsonObject
  readonly hasAnswer: (body: JsonObject) => boolean
}

const TEXT = 'Reply with the word ready.'
/** Enough for models that think before they answer. */
const OUTPUT_TOKENS = 64

const chat: ProbeForm = {
  feature: 'chat',
  path: '/chat/completions',
  fields: { messages: [{ role: 'user', content: TEXT }], max_tokens: OUTPUT_TOKENS },
  hasAnswer(body) {
    const message = firstOf(body.choices)?.message
    if (!isJsonObject(message)) return false
    return [message.content, message.reasoning_content, message.reasoning].some(isContent)
  },
}
/** The first form that fits is used. */
const forms: readonly ProbeForm[] = [
  chat,
  {
    feature: 'completions',
    path: '/completions',
    fields: { prompt: TEXT, max_tokens: OUTPUT_TOKENS },
    hasAnswer: body => isText(firstOf(body.choices)?.text),
  },
  {
    feature: 'embeddings',
    path: '/embeddings',
    fields: { input: TEXT },
    hasAnswer(body) {
      const vector = firstOf(body.data)?.embedding
      return (Array.isArray(vector) && vector.length > 0) || isText(vector)
    },
  },
  {
    feature: 'rerank',
    path: '/rerank',
    fields: { query: TEXT, documents: ['ready', 'steady'] },
    hasAnswer: body => firstOf(body.results) !== undefined,
  },
]

function firstOf(list: unknown): JsonObject | undefined {
  const first: unknown = Array.isArray(list) ? list[0] : undefined
  return isJsonObject(first) ? first : undefined
}

/** Whether it has text: a string, or a list of parts, which Mistral sends. */
function isContent(value: unknown): boolean {
  if (!Array.isArray(value)) return isText(value)
  return value.some(part => isText(part) || (isJsonObject(part) && (isText(part.text) || isContent(part.thinking))))
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Answers in a row that a model must give. */
const PROBES = 3

/** Sends a POST to the server of a hoster, through the agent if it has one. Rejects when there is no answer. */
export type PostToHoster = (endpoint: Endpoint, path: string, body: string) => Promise<{ status: number; text: string }>

/** Probes a model until it has answered three times in a row, or fails. Never rejects. */
export async function runProbes(
  post: PostToHoster,
  endpoint: Endpoint,
  { modelId, upstreamModel, features }: Required<HostedModel>,
): Promise<VerificationReport['probes'][number]> {
  const probe = probeOf(upstreamModel ?? modelId, features)
  let passed = 0
  let problem: string | null = null
  while (passed < PROBES && problem === null) {
    problem = await post(endpoint, probe.path, probe.body).then(
      ({ status, text }) => probe.problemOf(status, text),
      (error: Error) => error.message,
    )
    if (problem === null) passed++
  }
  return { model: modelId, passed, problem }
}
