import { z } from 'zod'
import type { Endpoint } from '../endpoint.ts'
import { openapiDocument } from '../openapi.ts'

const documentSchema = z
  .looseObject({
    openapi: z.string().describe('The version of OpenAPI.'),
    info: z.looseObject({ title: z.string(), version: z.string() }).describe('The name and version of the gateway.'),
    paths: z.record(z.string(), z.looseObject({})).describe('The operations, by path and method.'),
  })
  .meta({ examples: [{ openapi: '3.1.0', info: { title: 'Switchyard', version: '0.1.0' }, paths: {} }] })

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
      description: 'Returns this document, which is generated from the schemas that parse the requests.',
      tag: 'Service',
      response: { contentType: 'application/json', schema: documentSchema, description: 'This OpenAPI 3.1 document.' },
    },
    handle({ reply }) {
      text ??= JSON.stringify(openapiDocument(deps.endpoints()))
      reply.type('application/json')
      return text
    },
  }
}
