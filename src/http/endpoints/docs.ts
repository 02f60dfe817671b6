import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import Fastify from 'fastify'
import { z } from 'zod'
import { loadOnce } from '../../base/runtime/load-once.ts'
import type { Endpoint, EndpointContext, EndpointDoc } from '../endpoint.ts'

/**
 * GET /docs and its script: the API reference. Scalar renders it in the browser from /openapi.json and
 * contacts no other server.
 */
export function docs(): Endpoint[] {
  // The package holds the script as text, which adds 40 MB to the process.
  const scalar = loadOnce(loadScalar)
  return [
    pagePart({
      path: '/docs',
      doc: {
        operationId: 'getDocs',
        summary: 'Get the API reference',
        description: 'Returns the page of the API reference, for browsers. It works without internet access.',
        response: { contentType: 'text/html', schema: pageSchema, description: 'The page.' },
      },
      handle({ reply }) {
        reply.header('content-security-policy', CONTENT_SECURITY_POLICY)
        return PAGE
      },
    }),
    pagePart({
      path: '/docs/',
      doc: {
        operationId: 'getDocsWithSlash',
        summary: 'Redirect to the API reference',
        description: 'Redirects to /docs.',
        response: { contentType: 'text/html', schema: z.string(), description: 'Not sent: the answer is a redirect.' },
        isHidden: true,
      },
      handle: ({ reply }) => reply.redirect('/docs', 308),
    }),
    pagePart({
      path: '/docs/scalar.js',
      doc: {
        operationId: 'getDocsScalar',
        summary: 'Get the script of the API reference',
        description: 'Returns the script that renders the API reference.',
        response: { contentType: 'text/javascript', schema: z.string(), description: 'The script.' },
        isHidden: true,
      },
      async handle({ reply }) {
        const script = await scalar()
        reply.header('content-encoding', 'gzip').header('cache-control', 'public, max-age=3600')
        return script
      },
    }),
  ]
}

const pageSchema = z.string().meta({ examples: ['<!doctype html>\n<html lang="en">...</html>\n'] })

/** The colours of the console, because those of Scalar have too little contrast: axe found 129 texts. */
const CUSTOM_CSS = `
.light-mode {
  --scalar-background-1: #ffffff; --scalar-background-2: #f6f4ef; --scalar-background-3: #ece8df; --scalar-border-color: #dad5c9;
  --scalar-color-1: #1c1f1d; --scalar-color-2: #54574f; --scalar-color-3: #5c5f55; --scalar-color-accent: #23509c;
  --scalar-color-green: #1a6e3e; --scalar-color-blue: #23509c; --scalar-color-red: #ae2a1f; --scalar-color-orange: #825400;
  --scalar-color-yellow: #825400; --scalar-color-purple: #5f4b8b;
}
.dark-mode {
  --scalar-background-1: #121413; --scalar-background-2: #1b1e1d; --scalar-background-3: #262a29; --scalar-border-color: #333835;
  --scalar-color-1: #eceae3; --scalar-color-2: #b4b6ae; --scalar-color-3: #a3a69d; --scalar-color-accent: #8fb4f5;
  --scalar-color-green: #7ccb98; --scalar-color-blue: #8fb4f5; --scalar-color-red: #f2978b; --scalar-color-orange: #e5b663;
  --scalar-color-yellow: #e5b663; --scalar-color-purple: #c4b5e8;
}`

const settings = {
  url: '/openapi.json',
  withDefaultFonts: false,
  telemetry: false,
  // The built-in client sends its requests directly to this gateway.
  proxyUrl: '',
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
  authentication: { preferredSecurityScheme: 'apiKey' },
  // Scalar calls schemas "Models", which means language models here.
  modelsSectionLabel: 'Schemas',
  // Required fields first, then the order of the schema. By default, the order is alphabetical.
  orderSchemaPropertiesBy: 'preserve',
  customCss: CUSTOM_CSS,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
}

const START = `Scalar.createApiReference('#app', ${JSON.stringify(settings)})`

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Switchyard API</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The OpenAPI document is at <a href="/openapi.json">/openapi.json</a>.</noscript>
<script src="/docs/scalar.js"></script>
<script>${START}</script>
</body>
</html>
`

/**
 * Keeps the browser from reaching Scalar's own services, which the settings also switch off. Inline styles are
 * allowed because Scalar writes styles into the page.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${createHash('sha256').update(START).digest('base64')}'`,
  "style-src 'unsafe-inline'",
  "connect-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Returns the script, compressed. The package exposes it only through its Fastify plugin. */
async function loadScalar(): Promise<Buffer> {
  const { default: plugin } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  await app.register(plugin, { routePrefix: '/docs', configuration: { url: settings.url } })
  const { rawPayload } = await app.inject('/docs/js/scalar.js')
  await app.close()
  return promisify(gzip)(rawPayload)
}

function pagePart(part: {
  readonly path: string
  readonly doc: Omit<EndpointDoc, 'tag'>
  readonly handle: (context: EndpointContext) => unknown
}): Endpoint {
  return {
    method: 'GET',
    path: part.path,
    access: 'open',
    doc: { ...part.doc, tag: 'Service' },
    handle(context) {
      context.reply.type(`${part.doc.response.contentType}; charset=utf-8`)
      return part.handle(context)
    },
  }
}
