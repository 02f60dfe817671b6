import type { ChatJob, EmbeddingsRequest } from '../../../base/domain/chat-job.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import type { AnswerBounds } from '../../../base/domain/request-bounds.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { dataBounds, readDataObject, readInputUsage } from '../data-answer.ts'
import { forwardedBody } from '../forwarded-body.ts'
import { parseUpstreamObject } from '../json/parse-json.ts'
import { splitItems } from '../json/split-items.ts'
import type { DataBody, UpstreamTask } from '../upstream-task.ts'
import { embeddingsBounds } from './embeddings-request-schema.ts'
import { encodeVector } from './vector-encoding.ts'

/** A number of a vector with its comma; 64-bit numbers have up to 24 characters. */
const NUMBER_BYTES = 24
/** The longest vectors of common models have 4,096 numbers. */
const NUMBERS_MAX = 8_192

/** Embeddings as OpenAI, vLLM, llama.cpp, Ollama and LM Studio serve them. */
export const upstreamEmbeddings: UpstreamTask = {
  path: '/embeddings',
  requestBody,
  bounds: job => boundsOf(job.data as EmbeddingsRequest),
  readData: (text, job, envelope, bounds) => readVectors(text, job.data as EmbeddingsRequest, envelope, bounds),
}

/**
 * Asks for base64 only where the server can send it; otherwise for its default, a list of numbers. Ollama and LM Studio
 * ignore the field, and some clouds refuse it.
 */
function requestBody(job: ChatJob, offer: Offer): string {
  const body = forwardedBody(job, offer)
  if (body.encoding_format === 'base64' && !offer.endpoint.dialect.base64Embeddings) delete body.encoding_format
  return JSON.stringify(body)
}

function boundsOf({ inputs, dimensions }: EmbeddingsRequest): AnswerBounds {
  const numbers = inputs * (dimensions ?? NUMBERS_MAX)
  return dataBounds(numbers * NUMBER_BYTES, numbers)
}

/**
 * Parsing and encoding so many numbers takes 2 to 5 ms. Several large answers may be read in turns with other requests.
 */
const NUMBERS_PER_TURN = 8_192

/**
 * Resolves with the vectors in the order of the inputs. Rejects with UpstreamFailure unless there is a valid one for
 * each input.
 */
async function readVectors(
  text: string,
  asked: EmbeddingsRequest,
  envelope: Envelope,
  bounds: AnswerBounds,
): Promise<DataBody> {
  const { answer, count, itemAt } =
    text.length > PARSED_UNITS_MAX ? await readLong(text, asked, bounds) : readShort(text, bounds)
  if (count !== asked.inputs) throw malformed('The answer has another number of vectors than the request inputs.')
  const form = forms[asked.form]
  const vectors = new Array<string>(asked.inputs)
  let length = asked.dimensions
  let numbersInTurn = 0
  for (let position = 0; position < count; position++) {
    const item = itemAt(position)
    if (!isJsonObject(item)) throw malformed('A vector of the answer is no object.')
    const index = indexOf(item, position)
    if (!(index < asked.inputs) || vectors[index] !== undefined) throw malformed('A vector has a wrong index.')
    const encoded = encodeVector(item.embedding, asked.encoding)
    length ??= encoded.length
    if (encoded.length !== length) throw malformed('A vector of the answer has a wrong length.')
    vectors[index] = form.vector(encoded.json, index)
    numbersInTurn += encoded.length
    if (numbersInTurn >= NUMBERS_PER_TURN) {
      numbersInTurn = 0
      await nextTurn()
    }
  }
  // One flat string: each reader of a concatenation would copy its 30 MB again.
  vectors[0] = form.start + vectors[0]
  vectors[vectors.length - 1] += form.end(JSON.stringify(envelope.model))
  const body = vectors.join(',')
  if (text.length > PARSED_UNITS_MAX) await nextTurn()
  return { body, usage: readInputUsage(answer.usage) }
}

interface Form {
  readonly start: string
  readonly vector: (json: string, index: number) => string
  readonly end: (modelJson: string) => string
}

const googleVector = (json: string) => `{"values":${json}}`
const forms: Readonly<Record<EmbeddingsRequest['form'], Form>> = {
  openai: {
    start: '{"object":"list","data":[',
    vector: (json, index) => `{"object":"embedding","index":${index},"embedding":${json}}`,
    end: model => `],"model":${model}}`,
  },
  google: { start: '{"embedding":', vector: googleVector, end: model => `,"modelVersion":${model}}` },
  google_batch: { start: '{"embeddings":[', vector: googleVector, end: model => `],"modelVersion":${model}}` },
}

function nextTurn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

/** A shorter answer is parsed at once. */
const PARSED_UNITS_MAX = 262_144
/** What an item may have besides its vector. */
const ITEM_UNITS = 65_536

interface VectorItems {
  /** The fields besides the vectors. */
  readonly answer: JsonObject
  readonly count: number
  readonly itemAt: (position: number) => unknown
}

function readShort(text: string, bounds: AnswerBounds): VectorItems {
  const answer = readDataObject(text, bounds)
  const { data } = answer
  if (!Array.isArray(data)) throw malformed('The answer has no vectors.')
  return { answer, count: data.length, itemAt: position => data[position] }
}

/** Parses each item when it is needed: all of them take up to a third of a second. */
async function readLong(
  text: string,
  { inputs, dimensions }: EmbeddingsRequest,
  bounds: AnswerBounds,
): Promise<VectorItems> {
  const { rest, items } = await splitItems(text, 'data', {
    delimiters: bounds.delimiters,
    items: inputs,
    itemUnits: (dimensions ?? embeddingsBounds.dimensions) * NUMBER_BYTES + ITEM_UNITS,
    restUnits: PARSED_UNITS_MAX,
  })
  const answer = readDataObject(rest, bounds)
  // A second list with the same name would count in place of the first.
  if (!Array.isArray(answer.data) || answer.data.length > 0)
    throw malformed('The answer has more than one list of vectors.')
  return {
    answer,
    count: items.length,
    itemAt: position => parseUpstreamObject(text.slice(...items[position]!), bounds.delimiters),
  }
}

/** A server that sends no index sends the vectors in order. */
function indexOf({ index }: JsonObject, position: number): number {
  if (index === undefined || index === null) return position
  if (!Number.isInteger(index) || (index as number) < 0) throw malformed('A vector has a wrong index.')
  return index as number
}

function malformed(message: string): UpstreamFailure {
  return new UpstreamFailure('malformed', message)
}
