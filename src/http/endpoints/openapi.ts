import type { Endpoint } from '../endpoint.ts'
import { openapiDocument } from '../openapi.ts'

/** GET /openapi.json: describes all `endpoints`, itself included. The document is built at the first request. */
export function openapi(deps: { endpoints: () => readonly Endpoint[] }): Endpoint {
  let text: string | undefined
  return {
    method: 'GET',
    path: '/openapi.json',
    access: 'open',
    doc: {
      operationId: 'getOpenApi',
      summary: 'Get the OpenAPI document',
      tag: 'Service',
      response: { contentType: 'application/json', description: 'This OpenAPI 3.1 document.' },
    },
    handle({ reply }) {
      text ??= JSON.stringify(openapiDocument(deps.endpoints()))
      reply.type('application/json')
      return text
    },
  }
}
