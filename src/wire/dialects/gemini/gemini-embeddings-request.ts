import { gatewayFields } from '../../../base/domain/chat-fields.ts'
import type { ChatJob, RoutingFields } from '../../../base/domain/chat-job.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { checkFields } from '../check-fields.ts'
import { embeddingsJob } from '../embeddings/embeddings-request.ts'
import { embeddingsBounds, embeddingsFieldsSchema } from '../embeddings/embeddings-request-schema.ts'
import { invalidField, missingField } from '../json/body-refusal.ts'
import {
  checkValue,
  mayHaveLoneSurrogates,
  parseJsonObject,
  refuseLongList,
  replaceLoneSurrogates,
} from '../json/parse-json.ts'
import { camelKeys } from './camel-keys.ts'
import { geminiEmbeddingsRoutingSchema } from './gemini-embeddings-schema.ts'
import { withGatewayFields } from './gemini-request.ts'
import { bounds } from './read-contents.ts'

const contentFields: ReadonlySet<string> = new Set(['model', 'content', 'outputDimensionality'])

/**
 * Parses the body of `embedContent` or `batchEmbedContents`. Throws ApiError `invalid_json`, `missing_parameter` or
 * `invalid_value`, with the `param` at fault where there is one.
 *
 * @param model the model of the address
 */
export function parseGeminiEmbeddings(body: Buffer, model: string, isBatch: boolean): ChatJob {
  const input = withGatewayFields(parseJsonObject(body))
  const routing = checkFields(geminiEmbeddingsRoutingSchema, { ...input, model })
  const given: readonly JsonObject[] = isBatch ? requestsOf(input.requests) : [input]
  const dropped = new Set<string>()
  for (const request of given) {
    for (const name in request) {
      const isRead = contentFields.has(name) || (!isBatch && gatewayFields.has(name)) || request[name] === null
      if (!isRead) dropped.add(isBatch ? `requests.${name}` : name)
    }
  }
  if (isBatch) for (const name in input) if (name !== 'requests' && !gatewayFields.has(name)) dropped.add(name)
  const texts = given.map((request, i) => readText(request, model, isBatch ? `requests[${i}].` : ''))
  const dimensions = dimensionsOf(given, isBatch)
  const forward: JsonObject = { input: texts, ...(dimensions !== null && { dimensions }) }
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forward)
  return embeddingsJob(
    routing as RoutingFields & { readonly model: string },
    { forward, extraFields: [], droppedFields: [...dropped] },
    { dimensions, encoding: 'float', form: isBatch ? 'google_batch' : 'google' },
    {
      field: isBatch ? 'requests' : 'content',
      inputsMax: embeddingsBounds.inputs,
      tokensMax: embeddingsBounds.tokens,
      mayBeEmpty: false,
    },
  )
}

function requestsOf(requests: unknown): JsonObject[] {
  if (requests === undefined || requests === null) throw missingField('requests')
  if (!Array.isArray(requests) || requests.length === 0) {
    throw invalidField('requests', 'an array with at least one request', requests)
  }
  refuseLongList(requests, embeddingsBounds.inputs, 'requests')
  return requests.map((request, i) => {
    if (!isJsonObject(request)) throw invalidField(`requests[${i}]`, 'an object', request)
    return camelKeys(request)
  })
}

/** Returns the text of a request's content. Its parts are lines. */
function readText({ content, model: named }: JsonObject, model: string, at: string): string {
  if (named !== undefined && named !== null && named !== model && named !== `models/${model}`) {
    throw invalidField(`${at}model`, 'that of the address', named)
  }
  if (content === undefined || content === null) throw missingField(`${at}content`)
  const parts = isJsonObject(content) ? content.parts : undefined
  if (!Array.isArray(parts) || parts.length === 0) throw invalidField(`${at}content`, 'a content with parts', content)
  refuseLongList(parts, bounds.partsPerContent, `${at}content.parts`)
  const texts = parts.map((part: unknown, i) => {
    if (isJsonObject(part) && typeof part.text === 'string') return part.text
    throw invalidField(`${at}content.parts[${i}]`, 'a part with text', part)
  })
  const text = texts.join('\n')
  if (text === '') throw invalidField(`${at}content`, 'a text that is not empty', content)
  return text
}

/** All vectors of an answer have one length. */
function dimensionsOf(requests: readonly JsonObject[], isBatch: boolean): number | null {
  const { dimensions: schema } = embeddingsFieldsSchema.shape
  const [first] = requests
  for (const [i, { outputDimensionality: length }] of requests.entries()) {
    const param = `${isBatch ? `requests[${i}].` : ''}outputDimensionality`
    checkValue(schema, length, param)
    if ((length ?? null) !== (first?.outputDimensionality ?? null)) {
      throw invalidField(param, 'the same in all requests', length)
    }
  }
  return (first?.outputDimensionality as number | null | undefined) ?? null
}
