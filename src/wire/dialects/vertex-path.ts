import type { Endpoint } from '../../base/domain/offer.ts'

/** Whether an endpoint is Google's Vertex AI, which serves the APIs of several vendors under its own paths. */
export function isVertex({ credential }: Pick<Endpoint, 'credential'>): boolean {
  return credential?.kind === 'google_service_account'
}

/**
 * Returns the path of a method of a model, appended to the base URL of Vertex, for example
 * `https://aiplatform.googleapis.com/v1/projects/p/locations/global`.
 */
export function vertexPath(publisher: 'anthropic' | 'google', model: string, method: string): string {
  // Versions of models of Anthropic follow an @, which needs no escape.
  return `/publishers/${publisher}/models/${encodeURIComponent(model).replace('%40', '@')}:${method}`
}
