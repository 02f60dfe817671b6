import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from '../domain/errors.ts'
import type { Endpoint } from './endpoint.ts'

/** Throws `method_not_allowed` when the address exists under another method, and `not_found` otherwise. */
export function refuseAddress(
  endpoints: readonly Endpoint[],
  { method, url }: FastifyRequest,
  reply: FastifyReply,
): never {
  const path = url.split('?', 1)[0]!
  const segments = path.split('/')
  const allowed = endpoints.filter(endpoint => matchesPath(endpoint, path, segments)).flatMap(acceptedMethods)
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

/** @param segments the path, split at its slashes. Splitting a long path for each endpoint takes milliseconds. */
function matchesPath(endpoint: Endpoint, path: string, segments: readonly string[]): boolean {
  const [start, end] = endpoint.path.split('{model}') as [string, string | undefined]
  if (end !== undefined) return path.startsWith(start) && path.endsWith(end)
  if (endpoint.path.endsWith('*')) return path.startsWith(endpoint.path.slice(0, -1))
  const pattern = endpoint.path.split('/')
  return (
    pattern.length === segments.length &&
    pattern.every((part, index) => part.startsWith(':') || part === segments[index])
  )
}

/** Fastify answers HEAD for every GET route. */
function acceptedMethods({ method }: Endpoint): string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

function printable(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}...` : path
}
