import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { ApiError, type ErrorCode } from '../../../base/domain/errors.ts'
import type { OperatorScope } from '../../../base/domain/operator-scope.ts'
import { uncounted } from '../../../base/runtime/counted-memory.ts'
import { UUID } from '../../../base/runtime/uuid.ts'
import type { Actor, OnceOnly } from '../../../operator/operator-action.ts'
import type { EndpointContext, ReplyingEndpoint } from '../../endpoint.ts'
import { NodeRequest } from '../../node-exchange.ts'
import { receiveBody } from '../../request-body.ts'

/** What the operator's endpoints know of a request. */
export interface OperatorEndpointDeps {
  readonly bodyLimitBytes: number
  /** The address of the client, as proxies report it. */
  readonly addressOf: (request: FastifyRequest) => string
}

interface OperatorEndpointDoc {
  readonly summary: string
  /** The scope that a key needs for the same address under /v1/admin. Null: the address is for people only. */
  readonly scope: OperatorScope | null
  readonly schema: z.ZodType
  /** Default: `application/json`. The request selects one of several. */
  readonly contentTypes?: readonly string[]
  readonly query?: z.ZodType
  /** Beyond those of all addresses. */
  readonly errors?: readonly ErrorCode[]
}

type Handle = ReplyingEndpoint['handle']

export const CONSOLE_PREFIX = '/console/api/operator/'

/**
 * An endpoint under /console/api/operator, and under /v1/admin for keys with its scope: operators and auditors may read,
 * operators write. A change says whether it
 * needs a confirmation. Only those that stop something at once, such as revoking a leaked key, or that book what a
 * provider reports, need none.
 */
export function operatorEndpoint(
  method: 'GET',
  path: string,
  doc: OperatorEndpointDoc,
  handle: Handle,
): ReplyingEndpoint
export function operatorEndpoint(
  method: Exclude<ReplyingEndpoint['method'], 'GET'>,
  path: string,
  doc: OperatorEndpointDoc &
    Required<Pick<ReplyingEndpoint, 'needsConfirmation'>> &
    Pick<ReplyingEndpoint, 'isDoneOnce'>,
  handle: Handle,
): ReplyingEndpoint
export function operatorEndpoint(
  method: ReplyingEndpoint['method'],
  path: string,
  {
    summary,
    schema,
    contentTypes: [contentType = 'application/json', ...others] = [],
    query,
    errors,
    scope,
    isDoneOnce,
    needsConfirmation = false,
  }: OperatorEndpointDoc & Pick<ReplyingEndpoint, 'needsConfirmation' | 'isDoneOnce'>,
  handle: Handle,
): ReplyingEndpoint {
  return {
    method,
    path: CONSOLE_PREFIX + path,
    access: 'session',
    installation: method === 'GET' ? 'read' : 'write',
    needsConfirmation,
    operatorScope: scope,
    ...(isDoneOnce && { isDoneOnce }),
    doc: {
      operationId: summary,
      summary,
      description: summary,
      tag: 'Service',
      isHidden: true,
      ...(query !== undefined && { query }),
      ...(errors !== undefined && { errors }),
      response: {
        contentType,
        schema,
        description: summary,
        ...(others.length > 0 && { alternatives: others.map(other => ({ contentType: other, schema })) }),
      },
    },
    handle,
  }
}

export async function bodyOf({ bodyLimitBytes }: OperatorEndpointDeps, request: FastifyRequest): Promise<Buffer> {
  const body = await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted)
  const once = doneOnce.get(request)
  if (once !== undefined) once.body = body
  return body
}

/** The requests with an `Idempotency-Key`, and their bodies as far as they were read. */
const doneOnce = new WeakMap<FastifyRequest, { readonly idempotencyKey: string; body: Buffer }>()

/** Lets the change of this request be made once, if it has an `Idempotency-Key`. Throws `invalid_header`. */
export function markDoneOnce(request: FastifyRequest, read: (request: NodeRequest) => string | undefined): void {
  const idempotencyKey = read(new NodeRequest(request.raw))
  if (idempotencyKey !== undefined) doneOnce.set(request, { idempotencyKey, body: Buffer.alloc(0) })
}

export function actorOf({ addressOf }: Pick<OperatorEndpointDeps, 'addressOf'>, context: EndpointContext): Actor {
  const { signedIn, request } = context
  const once = onceOf(context)
  return {
    personId: signedIn.person.personId,
    keyId: signedIn.key?.keyId ?? null,
    session: signedIn.tokenHash,
    mayMoveMoney: signedIn.key?.mayMoveMoney ?? true,
    address: addressOf(request),
    ...(once !== undefined && { once }),
  }
}

function onceOf({ signedIn: { key }, request, reply }: EndpointContext): OnceOnly | undefined {
  const marked = doneOnce.get(request)
  if (marked === undefined || key === undefined) return undefined
  return {
    keyId: key.keyId,
    idempotencyKey: marked.idempotencyKey,
    // The body is read by then.
    fingerprint: () => createHash('sha256').update(`${request.method} ${request.url}\n`).update(marked.body).digest(),
    seal: key.seal,
    open: key.open,
    onRepeat: () => void reply.header('idempotent-replayed', 'true'),
  }
}

/** Returns an id of the path. Throws the error of the given code unless it is a UUID. */
export function idOf(
  { params }: FastifyRequest,
  name: string,
  code: 'customer_not_found' | 'payment_not_found' | 'not_found',
): string {
  const id = (params as Record<string, string>)[name]
  if (id !== undefined && UUID.test(id)) return id.toLowerCase()
  throw new ApiError(code)
}
