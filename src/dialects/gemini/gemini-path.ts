import type { Endpoint } from '../../domain/offer.ts'
import { isVertex, vertexPath } from '../vertex-path.ts'

/** The methods of a model that the gateway serves. */
export type GeminiMethod = 'generateContent' | 'streamGenerateContent' | 'countTokens'

const PATH = /^\/v1(?:beta)?\/models\/(.+):(generateContent|streamGenerateContent|countTokens)$/

/**
 * Reads the path of a client's request, without its query: `/v1beta/models/{model}:{method}`. Google's SDK 3.1
 * uses `/v1`. Returns null for other paths.
 */
export function parseGeminiPath(path: string): { readonly model: string; readonly method: GeminiMethod } | null {
  const [, model, method] = PATH.exec(path) ?? []
  if (model === undefined) return null
  try {
    return { model: decodeURIComponent(model), method: method as GeminiMethod }
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
