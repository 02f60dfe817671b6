import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from '../base/domain/errors.ts'
import { textBefore } from '../base/runtime/collections.ts'
import type { Endpoint } from './endpoint.ts'

/**
 * Returns a function that throws `method_not_allowed` when the address exists under another method, and `not_found`
 * otherwise. Strangers reach it without a key, so the paths are taken apart only once.
 */
export function addressRefusal(
  endpoints: readonly Endpoint[],
): (request: FastifyRequest, reply: FastifyReply) => never {
  const patterns = endpoints.map(endpoint => ({
    matches: pathMatcher(endpoint.path),
    methods: acceptedMethods(endpoint),
  }))
  return ({ method, url }, reply) => {
    const path = textBefore(url, '?')
    const segments = path.split('/')
    const allowed = patterns.filter(({ matches }) => matches(path, segments)).flatMap(({ methods }) => methods)
    if (allowed.length === 0) {
      throw new ApiError('not_found', {
        message: `No endpoint serves ${method} ${printable(path)}. See /docs for the API.`,
      })
    }
    reply.header('allow', allowed.join(', '))
    throw new ApiError('method_not_allowed', {
      message: `${printable(path)} accepts ${allowed.join(', ')}, not ${method}.`,
    })
  }
}

/** The segments are those of the path: splitting a long one for each pattern takes milliseconds. */
type PathMatcher = (path: string, segments: readonly string[]) => boolean

function pathMatcher(pattern: string): PathMatcher {
  const [start, end] = pattern.split('{model}') as [string, string | undefined]
  if (end !== undefined) return path => path.startsWith(start) && path.endsWith(end)
  if (pattern.endsWith('*')) return path => path.startsWith(pattern.slice(0, -1))
  const parts = pattern.split('/')
  return (_, segments) =>
    parts.length === segments.length && parts.every((part, index) => part.startsWith(':') || part === segments[index])
}

/** Fastify answers HEAD for every GET route. */
function acceptedMethods({ method }: Endpoint): string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

function printable(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}...` : path
}
