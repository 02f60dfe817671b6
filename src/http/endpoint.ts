import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ZodType } from 'zod'
import type { Caller } from '../domain/caller.ts'

/** One row of the routes table: everything the server, the guard and the OpenAPI document need to know of an address. */
export interface Endpoint {
  readonly method: 'GET' | 'POST'
  /** Fastify's notation: `/v1/models/*`. */
  readonly path: string
  /** `key`: an API key is needed. `open`: anybody. `loopback`: only direct peers on this machine, 404 to everyone else. */
  readonly access: 'key' | 'open' | 'loopback'
  /** Each request counts against `reports.requests_per_minute`. Needs `access: 'key'`. */
  readonly isReport?: true
  readonly doc: EndpointDoc
  /** What an error carries that is answered before `handle`, such as an oversized body. */
  readonly headersOnError?: (caller: Caller) => Promise<Record<string, string>>
  /**
   * Returns the body: an object is sent as JSON, a string or stream as it is (set the content type on `reply`).
   * A handler that writes to the socket itself calls `reply.hijack()` and returns undefined. Refusals are thrown as ApiError.
   */
  handle(context: EndpointContext): unknown
}

export interface EndpointDoc {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tag: 'Chat' | 'Usage' | 'Models' | 'Service'
  /** Path as OpenAPI writes it, when it differs from `path`: `/v1/models/{id}`. */
  readonly openapiPath?: string
  readonly query?: ZodType
  readonly body?: ZodType
  readonly response?: { readonly contentType: string; readonly schema?: ZodType; readonly description: string }
}

export interface EndpointContext {
  /** Set when `access` is `key`. */
  readonly caller: Caller
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly requestId: string
}
