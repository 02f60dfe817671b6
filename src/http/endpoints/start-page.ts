import { createHash } from 'node:crypto'
import { z } from 'zod'
import packageJson from '../../../package.json' with { type: 'json' }
import { headerValues } from '../../runtime/header-values.ts'
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
 * GET /: a small page for people that open the address of the gateway, and its links for programs that accept JSON
 * but no HTML.
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
        'Returns a small page with the base URL of this gateway and its links. With `Accept: application/json`, returns the links as JSON.',
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
      const origin = deps.publicBaseUrl ?? originOf(request.raw.rawHeaders)
      reply.header('vary', 'accept').header('cache-control', 'no-cache').header('x-content-type-options', 'nosniff')
      if (acceptsOnlyJson(request.headers.accept)) return links(origin)
      reply.type('text/html; charset=utf-8').header('content-security-policy', CONTENT_SECURITY_POLICY)
      return page(`${origin}/v1`, deps.publicBaseUrl !== null)
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

const STYLE = `
:root { color-scheme: light dark; --text: #1c2024; --faint: #5b6370; --back: #fff; --box: #f3f4f6; --line: #d3d7de; --link: #0b57d0 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8eaed; --faint: #a2a9b4; --back: #14171a; --box: #1f2428; --line: #3a4149; --link: #8ab4f8 }
}
* { box-sizing: border-box }
body { margin: 0 auto; padding: 3rem 1rem; max-width: 42rem; background: var(--back); color: var(--text); font: 1rem/1.55 system-ui, sans-serif }
h1 { margin: 0; font-size: 1.6rem }
h2 { margin: 2rem 0 .5rem; font-size: 1.05rem }
p { margin: .5rem 0 }
a { color: var(--link) }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }
.faint { color: var(--faint) }
.url { display: flex; flex-wrap: wrap; gap: .5rem }
code, button { border: 1px solid var(--line); border-radius: 6px; background: var(--box); color: inherit; font-size: .95rem }
code { flex: 1 1 17rem; min-width: 0; padding: .5rem .7rem; overflow-wrap: anywhere; font-family: ui-monospace, monospace; user-select: all }
button { padding: .5rem .9rem; font-family: inherit; cursor: pointer }
ul { padding-left: 1.2rem }
`

/**
 * Only the browser knows the scheme and the name by which a proxy is addressed, so without a configured URL the script
 * corrects the shown one. `execCommand` copies on pages without TLS, where there is no clipboard object.
 */
const SCRIPT = `
const url = document.querySelector('#base-url')
if (!('configured' in url.dataset)) url.textContent = location.origin + '/v1'
const button = document.querySelector('button')
button.hidden = false
button.addEventListener('click', async () => {
  let copied = true
  try {
    await navigator.clipboard.writeText(url.textContent)
  } catch {
    getSelection().selectAllChildren(url)
    copied = document.execCommand('copy')
  }
  document.querySelector('#copied').textContent = copied ? 'Copied.' : 'Press Ctrl+C to copy the selected text.'
})
`

function page(baseUrl: string, isConfigured: boolean): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Switchyard</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Switchyard</h1>
<p>This server generates text through the OpenAI API. Requests are paid from prepaid credit.</p>
<h2>Base URL</h2>
<div class="url"><code id="base-url"${isConfigured ? ' data-configured' : ''}>${escapeHtml(baseUrl)}</code><button type="button" aria-label="Copy the base URL" hidden>Copy</button></div>
<p class="faint" id="copied" role="status"></p>
<p>Set it as the base URL of an OpenAI SDK or an application, with an API key from the operator of this server.</p>
<h2>Links</h2>
<ul>
<li><a href="/docs">API reference</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
<li><a href="/readyz">Health</a>: whether this server accepts requests</li>
</ul>
<p class="faint">Version ${escapeHtml(packageJson.version)}</p>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`
}

/** Allows the style and the script of the page, and nothing else. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src '${hashOf(STYLE)}'`,
  `script-src '${hashOf(SCRIPT)}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`
}

function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text.replace(/[&<>"]/g, character => entities[character]!)
}
