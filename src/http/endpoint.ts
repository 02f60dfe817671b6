import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ZodType } from 'zod'
import type { Caller, KeyScope } from '../base/domain/caller.ts'
import type { ErrorCode } from '../base/domain/errors.ts'
import type { HosterCaller, HosterRight, HosterScope } from '../base/domain/hoster-access.ts'
import type { CustomerRight } from '../base/domain/member-role.ts'
import type { OperatorScope } from '../base/domain/operator-scope.ts'
import type { SignedIn } from '../identity/people/sessions.ts'
import type { ErrorFormat } from './error-format.ts'
import type { GenerationRequest, GenerationResponse } from './generation-exchange.ts'

/**
 * One row of the route table: everything the server, the guard and the OpenAPI document need to know about an
 * address.
 */
export type Endpoint = ReplyingEndpoint | GenerationEndpoint

interface EndpointRow {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Fastify's notation: `/v1/models/*`, `/v1/alerts/:id`. See `GenerationRoute` for generation endpoints. */
  readonly path: string
  /**
   * `key`: requires an API key. `hoster_key`: requires the key of a hoster. `operator_key`: requires the key of an operator. `open`: requires nothing. `page`: a request that changes something must come from a page of
   * this server. `session`: the same, and a person must be signed in.
   */
  readonly access: 'key' | 'hoster_key' | 'operator_key' | 'open' | 'page' | 'session'
  /**
   * What the person must be allowed to do for the customer in the path, `:customer_id`. Requires `access: 'session'`.
   */
  readonly right?: CustomerRight
  /**
   * What the person must be allowed to do for the hoster in the path, `:hoster_id`. Checked with `access: 'session'`.
   */
  readonly hosterRight?: HosterRight
  /** The scope that the key of the hoster must have. Set when `access` is `hoster_key`. */
  readonly hosterScope?: HosterScope
  /**
   * For people with a role on the installation: operators and auditors may read, operators write. Requires `access:
   * 'session'`.
   */
  readonly installation?: 'read' | 'write'
  /** The scope that the key of an operator must have. Null: only for people. Set on addresses of operators. */
  readonly operatorScope?: OperatorScope | null
  /** A repeat with the same `Idempotency-Key` gets the first answer. Requires `access: 'operator_key'`. */
  readonly isDoneOnce?: true
  /**
   * The session must be confirmed: see `requireConfirmation`. Checked with `access: 'session'`. `unless_dry_run`: the
   * handler checks, because the body says whether it is a dry run.
   */
  readonly needsConfirmation?: boolean | 'unless_dry_run'
  /** Each request counts against `reports.requests_per_minute`. Requires `access: 'key'` or `hoster_key`; those of operators always count. */
  readonly isReport?: true
  /** The answer shows charges. Those of the caller's ended requests on this node are committed first: see the guard. */
  readonly showsCharges?: true
  /** The scope that the key must have; 403 `insufficient_scope` without it. Requires `access: 'key'`. */
  readonly scope?: KeyScope
  readonly doc: EndpointDoc
}

export interface ReplyingEndpoint extends EndpointRow {
  /**
   * Returns the body. An object is sent as JSON; a string or stream is sent unchanged, with the content type
   * set on `reply`. Throws an ApiError to refuse the request.
   */
  handle(context: EndpointContext): unknown
}

/** Bypasses Fastify: authenticates, reads the body and answers. */
export interface GenerationEndpoint extends EndpointRow {
  /** Always answers and never rejects. */
  serve(request: GenerationRequest, response: GenerationResponse): Promise<void>
}

export interface EndpointDoc {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly tag: 'Chat' | 'Embeddings' | 'Usage' | 'Keys' | 'Models' | 'Hosters' | 'Alerts' | 'Service' | 'Operators'
  /** The path in OpenAPI's notation, when it differs from `path`: `/v1/models/{id}`. */
  readonly openapiPath?: string
  /** The parameters of the path, by name. */
  readonly pathParameters?: ZodType
  readonly query?: ZodType
  /** Request headers besides the credential, by name. */
  readonly headers?: ZodType
  readonly body?: ZodType
  /** Error codes besides those that follow from access, scope, query and body. */
  readonly errors?: readonly ErrorCode[]
  /** The JSON of an error, if it is not that of the address: see `errorFormatOf`. */
  readonly error?: Pick<ErrorFormat, 'body' | 'schema'>
  readonly response: ContentDoc & {
    readonly description: string
    /** Default: 200. */
    readonly status?: number
    /** Other content types of the answer, which the request selects. */
    readonly alternatives?: readonly ContentDoc[]
  }
  /** True for parts of a page, which are no operations of the API. The OpenAPI document leaves them out. */
  readonly isHidden?: true
}

export interface ContentDoc {
  readonly contentType: string
  /** The schema of the body, with an example in its metadata. */
  readonly schema: ZodType
}

export interface EndpointContext {
  /** Set when `access` is `key`, or a `right` is needed. */
  readonly caller: Caller
  /** Set when `access` is `hoster_key`, or a `hosterRight` is needed. */
  readonly hoster: HosterCaller
  /** Set when `access` is `session` or `operator_key`; null on the same endpoint of a customer under /v1. */
  readonly signedIn: SignedIn
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly requestId: string
}
