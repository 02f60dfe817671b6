import type { ChatJob, RerankRequest } from '../../../base/domain/chat-job.ts'
import type { Envelope } from '../../../base/domain/completion.ts'
import type { Offer } from '../../../base/domain/offer.ts'
import type { AnswerBounds } from '../../../base/domain/request-bounds.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { dataBounds, readDataObject, readInputUsage } from '../data-answer.ts'
import { forwardedBody } from '../forwarded-body.ts'
import type { DataBody, UpstreamTask } from '../upstream-task.ts'

/** A result without its document. */
const RESULT_BYTES = 512
const RESULT_DELIMITERS = 32
/** A character of JSON text, escaped as in `\u6f22`. */
const BYTES_PER_UNIT = 6

/** Reranking in the shape that Jina and Cohere share, as vLLM, llama.cpp and SGLang serve it. */
export const upstreamRerank: UpstreamTask = {
  path: '/rerank',
  requestBody: (job: ChatJob, offer: Offer) => JSON.stringify(forwardedBody(job, offer)),
  bounds: job => boundsOf(job.data as RerankRequest),
  readData: (text, job, envelope, bounds) => readResults(text, job.data as RerankRequest, envelope, bounds),
}

/** Some servers send the documents back whether they were asked for or not. */
function boundsOf({ documents }: RerankRequest): AnswerBounds {
  const units = documents.reduce((sum, document) => sum + document.length, 0)
  return dataBounds(documents.length * RESULT_BYTES + units * BYTES_PER_UNIT, documents.length * RESULT_DELIMITERS)
}

interface Result {
  readonly index: number
  readonly score: number
}

/** Returns the most relevant documents first. Throws UpstreamFailure unless each has a score of its own. */
function readResults(text: string, asked: RerankRequest, envelope: Envelope, bounds: AnswerBounds): DataBody {
  const answer = readDataObject(text, bounds)
  const { results } = answer
  if (!Array.isArray(results)) throw malformed('The answer has no results.')
  if (results.length < asked.topN) throw malformed('The answer has fewer results than the request needs.')
  const seen = new Set<number>()
  const ranked = results.map((result): Result => {
    const { index, relevance_score: score } = isJsonObject(result) ? result : {}
    const isIndex = Number.isInteger(index) && (index as number) >= 0 && (index as number) < asked.documents.length
    if (!isIndex || seen.has(index as number)) throw malformed('A result has a wrong index.')
    if (typeof score !== 'number' || !Number.isFinite(score)) throw malformed('A result has no score.')
    seen.add(index as number)
    return { index: index as number, score }
  })
  ranked.sort((a, b) => b.score - a.score || a.index - b.index)
  const body = {
    id: `rerank-${envelope.id.slice(CHAT_ID_PREFIX.length)}`,
    object: 'list',
    model: envelope.model,
    results: ranked.slice(0, asked.topN).map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(asked.returnDocuments && { document: { text: asked.documents[index] } }),
    })),
  }
  return { body: JSON.stringify(body), usage: readInputUsage(answer.usage) }
}

const CHAT_ID_PREFIX = 'chatcmpl-'

function malformed(message: string): UpstreamFailure {
  return new UpstreamFailure('malformed', message)
}
