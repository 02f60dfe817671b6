import type { RequestListener } from 'node:http'
import type { Endpoint, GenerationEndpoint } from './endpoint.ts'
import type { GenerationRoute } from './generation-exchange.ts'
import { normaliseGoogleTarget } from './google-target.ts'
import { NodeRequest, NodeResponse } from './node-exchange.ts'

/** Called when a response has ended. `path` is the path of the route, not the requested address. */
export type OnResponse = (facts: { path: string; status: number; elapsedMs: number }) => void

/** Recorded as the status when the client disconnects before the response begins. nginx uses the same number. */
export const CLIENT_CLOSED_REQUEST = 499

export const isGeneration = (endpoint: Endpoint): endpoint is GenerationEndpoint => 'serve' in endpoint

/** Returns the routes of the generation endpoints, which report their responses to `onResponse`. */
export function generationRoutes(
  endpoints: readonly Endpoint[],
  onResponse: OnResponse | undefined,
): readonly GenerationRoute[] {
  return endpoints.filter(isGeneration).map(endpoint => {
    const { method, path } = endpoint
    return {
      method,
      path,
      serve(request, response) {
        const startedMs = performance.now()
        response.onceClosed(() => {
          const status = response.statusSent ?? CLIENT_CLOSED_REQUEST
          onResponse?.({ path, status, elapsedMs: performance.now() - startedMs })
        })
        void endpoint.serve(request, response)
      },
    }
  })
}

/**
 * Returns a listener that serves generation requests directly and passes all others to Fastify: Fastify's
 * routing, request and reply objects, hooks and body parser cost 10 us of CPU per request, compared with 25 us
 * for the rest of the gateway.
 */
export function bypassFastify(routes: readonly GenerationRoute[], fastify: RequestListener): RequestListener {
  const matchers = routes.map(route => ({ route, matches: matcherOf(route.path) }))
  return (request, response) => {
    request.url = normalisedTarget(request.url!)
    normaliseGoogleTarget(request)
    const { url } = request
    const route = matchers.find(({ route: { method }, matches }) => method === request.method && matches(url))?.route
    if (route === undefined) fastify(request, response)
    else route.serve(new NodeRequest(request), new NodeResponse(response))
  }
}

/** Returns the path and query of a target. */
export function normalisedTarget(target: string): string {
  const url = target.startsWith('/') ? target : originForm(target)
  // Portkey's SDK and version 3 of `openai` append the path to a base URL that ends in a slash, which doubles the
  // slash.
  return url.startsWith('/v1//') ? url.replace('//', '/') : url
}

/**
 * A server must also accept an absolute URL, the form that proxies receive (RFC 9112, 3.2.2). The result begins with a
 * slash, because Fastify's router does not read the first character: it would find `/` for `*`.
 */
function originForm(target: string): string {
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** Returns a function that compares a target, without its query, with a path. */
function matcherOf(path: string): (url: string) => boolean {
  const [start, end] = path.split('{model}') as [string, string | undefined]
  if (end === undefined) return url => url === path || (url[path.length] === '?' && url.startsWith(path))
  const lengthMin = path.length - '{model}'.length + 1
  return url => {
    if (!url.startsWith(start)) return false
    const [target] = url.split('?', 1) as [string]
    return target.length >= lengthMin && target.endsWith(end)
  }
}
