import type { z } from 'zod'
import type { EndpointDoc, ReplyingEndpoint } from '../endpoint.ts'

/** An endpoint of the console. @param path below /console/api */
export function consoleEndpoint(
  method: ReplyingEndpoint['method'],
  path: string,
  rest: Pick<ReplyingEndpoint, 'access' | 'right' | 'hosterRight' | 'needsConfirmation' | 'doc' | 'handle'>,
): ReplyingEndpoint {
  return { method, path: `/console/api/${path}`, ...rest }
}

/** The OpenAPI document leaves these endpoints out. */
export function consoleDoc(summary: string, schema: z.ZodType): EndpointDoc {
  return {
    operationId: summary,
    summary,
    description: summary,
    tag: 'Service',
    isHidden: true,
    response: { contentType: 'application/json', schema, description: summary },
  }
}
