import { z } from 'zod'

import packageJson from '../../../package.json' with { type: 'json' }
import { headerValues } from '../../base/runtime/header-list.ts'
import { sendConsole } from '../console/console-pages.ts'
import type { Endpoint } from '../endpoint.ts'

const startSchema = z
  .object({
    name: z.literal('Switchyard'),
    version: z.string().describe('The version of the gateway.'),
    base_url: z.string().describe('The base URL for OpenAI SDKs.'),
    documentation_url: z.string().describe('The API reference, for people.'),
    openapi_url: z.string().describe('The OpenAPI document.'),
    health_url: z.string().describe('Whether the gateway accepts requests.'),
  })
  .meta({
    id: 'Start',
    examples: [
      {
        name: 'Switchyard',
        version: '0.1.0',
        base_url: 'http://127.0.0.1:8080/v1',
        documentation_url: 'http://127.0.0.1:8080/docs',
        openapi_url: 'http://127.0.0.1:8080/openapi.json',
        health_url: 'http://127.0.0.1:8080/readyz',
      },
    ],
  })

/**
 * GET /: the console for people, and the links of the gateway for programs that accept JSON but no HTML.
 *
 * @param deps.publicBaseUrl the configured URL of the gateway, without `/v1`; null: the Host header of the request
 */
export function startPage(deps: { readonly publicBaseUrl: string | null }): Endpoint {
  return {
    method: 'GET',
    path: '/',
    access: 'open',
    doc: {
      operationId: 'getStart',
      summary: 'Get the start page',
      description:
        'Returns the page of the console. With `Accept: application/json`, returns the links of this gateway as JSON.',
      tag: 'Service',
      response: {
        contentType: 'application/json',
        schema: startSchema,
        description: 'The links of this gateway.',
        alternatives: [
          {
            contentType: 'text/html',
            schema: z.string().meta({ examples: ['<!doctype html>\n<html lang="en">...</html>\n'] }),
          },
        ],
      },
    },
    handle({ request, reply }) {
      reply.header('vary', 'accept')
      if (!acceptsOnlyJson(request.headers.accept)) return sendConsole(request, reply)
      reply.header('cache-control', 'no-cache')
      return links(deps.publicBaseUrl ?? originOf(request.raw.rawHeaders))
    },
  }
}

/** Browsers accept HTML. Programs that accept everything, such as curl, get the page too. */
function acceptsOnlyJson(accept = ''): boolean {
  return accept.includes('application/json') && !accept.includes('text/html')
}

/** The scheme is http: the gateway has no TLS. A proxy with TLS needs `server.public_base_url` anyway. */
function originOf(rawHeaders: readonly string[]): string {
  const [host = ''] = headerValues(rawHeaders, 'host')
  return /^[\w.:[\]-]+$/.test(host) ? `http://${host}` : ''
}

function links(origin: string): z.infer<typeof startSchema> {
  return {
    name: 'Switchyard',
    version: packageJson.version,
    base_url: `${origin}/v1`,
    documentation_url: `${origin}/docs`,
    openapi_url: `${origin}/openapi.json`,
    health_url: `${origin}/readyz`,
  }
}
