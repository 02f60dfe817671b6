import type { Endpoint } from '../endpoint.ts'
import { openapiDocument } from '../openapi.ts'

/** GET /openapi.json: the description of all `endpoints`, itself included; made at the first request. */
export function openapi(deps: { endpoints: () => readonly Endpoint[] }): Endpoint {
  let text: string | undefined
  return {
    method: 'GET',
    path: '/openapi.json',
    access: 'open',
    doc: {
      operationId: 'getOpenApi',
      summary: 'This description',
      tag: 'Service',
      response: { contentType: 'application/json', description: 'An OpenAPI 3.1 document.' },
    },
    handle({ reply }) {
      text ??= JSON.stringify(openapiDocument(deps.endpoints()))
      reply.type('application/json')
      return text
    },
  }
}
