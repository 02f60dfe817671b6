import type { Endpoint } from '../../../base/domain/offer.ts'
import { isVertex, vertexPath } from '../vertex-path.ts'

/** The methods of a model that the gateway serves. */
export type GeminiMethod =
  | 'generateContent'
  | 'streamGenerateContent'
  | 'countTokens'
  | 'embedContent'
  | 'batchEmbedContents'

/** What the address of a client's request says. */
export interface GeminiTarget {
  readonly model: string
  readonly method: GeminiMethod
  /** With `alt=sse`, a stream consists of server-sent events; otherwise it is one JSON array. */
  readonly isSse: boolean
}

const PATH =
  /^\/v1beta\/models\/([^?]+):(generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)(?:\?|$)/

/**
 * Reads the target of a client's request: `/v1beta/models/{model}:{method}`, with or without a query. The model may
 * contain slashes, encoded or not. Returns null for other targets.
 */
export function parseGeminiTarget(target: string): GeminiTarget | null {
  const [start, model, method] = PATH.exec(target) ?? []
  if (start === undefined || model === undefined) return null
  try {
    return {
      model: decodeURIComponent(model),
      method: method as GeminiMethod,
      isSse: new URLSearchParams(target.slice(start.length)).get('alt')?.toLowerCase() === 'sse',
    }
  } catch {
    return null
  }
}

interface NamedModel {
  readonly upstreamModel: string
  readonly endpoint: Pick<Endpoint, 'credential'>
}

/** Returns the path of a request to an upstream, appended to the base URL of an endpoint, for example `…/v1beta`. */
export function geminiPath({ upstreamModel, endpoint }: NamedModel, stream: boolean): string {
  const method = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  if (isVertex(endpoint)) return vertexPath('google', upstreamModel, method)
  return `/models/${encodeURIComponent(upstreamModel)}:${method}`
}
