import type { FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import { uncounted } from '../../../base/runtime/counted-memory.ts'
import { UUID } from '../../../base/runtime/uuid.ts'
import type { Actor } from '../../../operator/operator-action.ts'
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
  readonly schema: z.ZodType
  readonly query?: z.ZodType
}

type Handle = ReplyingEndpoint['handle']

/**
 * An endpoint under /console/api/operator: operators and auditors may read, operators write. A change says whether it
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
  doc: OperatorEndpointDoc & Required<Pick<ReplyingEndpoint, 'needsConfirmation'>>,
  handle: Handle,
): ReplyingEndpoint
export function operatorEndpoint(
  method: ReplyingEndpoint['method'],
  path: string,
  {
    summary,
    schema,
    query,
    needsConfirmation = false,
  }: OperatorEndpointDoc & Pick<ReplyingEndpoint, 'needsConfirmation'>,
  handle: Handle,
): ReplyingEndpoint {
  return {
    method,
    path: `/console/api/operator/${path}`,
    access: 'session',
    installation: method === 'GET' ? 'read' : 'write',
    needsConfirmation,
    doc: {
      operationId: summary,
      summary,
      description: summary,
      tag: 'Service',
      isHidden: true,
      ...(query !== undefined && { query }),
      response: { contentType: 'application/json', schema, description: summary },
    },
    handle,
  }
}

export function bodyOf({ bodyLimitBytes }: OperatorEndpointDeps, { raw }: FastifyRequest): Promise<Buffer> {
  return receiveBody(new NodeRequest(raw), bodyLimitBytes, uncounted)
}

export function actorOf({ addressOf }: OperatorEndpointDeps, { signedIn, request }: EndpointContext): Actor {
  return { personId: signedIn.person.personId, keyId: null, session: signedIn.tokenHash, address: addressOf(request) }
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
