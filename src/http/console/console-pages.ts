import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { textBefore } from '../../base/runtime/collections.ts'
import type { Endpoint, ReplyingEndpoint } from '../endpoint.ts'
import { pageLanguage } from './page-language.ts'
import { PageList } from './page-list.ts'

/** What `vite build` makes of console/. Source and package have it in the same place. */
const builtConsole = fileURLToPath(new URL('../../../console/dist/', import.meta.url))

/** The first parts of the addresses that the console's router knows. They all get the same page. */
const pagePaths = [
  ...['/sign-in', '/sign-up', '/welcome', '/invite', '/verify', '/reset', '/status'],
  ...['/oidc', '/confirm-email', '/account'],
  ...['/c/*', '/h/*', '/operator', '/operator/*'],
]

/** All addresses here but `/`, in Fastify's notation. */
export const consolePaths: readonly string[] = [...pagePaths, '/assets/*']

/** console/vite.config.ts writes it wherever a nonce belongs. */
const NONCE_PLACE = /CSP_NONCE/g

/** The endpoints of the console's page and its assets. */
export function consolePages(directory = builtConsole): Endpoint[] {
  const assets = new Set(existsSync(directory) ? readdirSync(join(directory, 'assets')) : [])
  return [
    ...pagePaths.map(path => pageEndpoint(path, ({ request, reply }) => sendConsole(request, reply, directory))),
    pageEndpoint('/assets/*', ({ request, reply }) => {
      const { '*': name } = request.params as { '*': string }
      if (!assets.has(name)) throw new ApiError('not_found', { message: `There is no asset ${name}. Reload the page.` })
      const hasHash = /-[\w-]{8}\.\w+$/.test(name)
      return reply.sendFile(name, join(directory, 'assets'), {
        immutable: hasHash,
        // The icon, and the script that sets the colour scheme. An old one does no harm.
        maxAge: hasHash ? '365d' : '1h',
      })
    }),
  ]
}

/** Lets endpoints send files. They choose the files themselves. */
export function allowFiles(app: FastifyInstance): void {
  app.register(fastifyStatic, { root: builtConsole, serve: false, preCompressed: true })
}

/** Sends the page of the console. It has no data: people with and without a session get it, except for its frame. */
export function sendConsole(
  { url, headers }: Pick<FastifyRequest, 'url' | 'headers'>,
  reply: FastifyReply,
  directory = builtConsole,
): string {
  const pages = pagesOf(directory)
  const isEntered = SESSION_COOKIE.test(headers.cookie ?? '')
  const page = pages.documentOf(textBefore(url, '?'), pageLanguage(headers, pages.languages), isEntered)
  const nonce = randomBytes(16).toString('base64url')
  reply.type('text/html; charset=utf-8').headers({
    'cache-control': 'no-store',
    'content-security-policy': securityPolicy(nonce),
    'cross-origin-opener-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
  })
  return page.replace(NONCE_PLACE, nonce)
}

/** Whether a browser asks for a page at an address that has none: it gets one that says so. Programs get JSON. */
export function wantsPage({ method, url, headers }: Pick<FastifyRequest, 'method' | 'url' | 'headers'>): boolean {
  return method === 'GET' && !OF_PROGRAMS.test(url) && (headers.accept ?? '').includes('text/html')
}

const OF_PROGRAMS = /^\/(?:v1|v1beta|console|assets)(?:\/|\?|$)/

/** Whether it is valid does not matter here: a page without a session replaces the frame by the sign-in. */
const SESSION_COOKIE = /(?:^|;\s*)(?:__Host-)?sy_session=/

const pageLists: Record<string, PageList> = {}

function pagesOf(directory: string): PageList {
  if (!existsSync(join(directory, 'index.html'))) {
    throw new ApiError('not_found', {
      message: 'The console was not built. Start the gateway with npm start or bin/switchyard, which build it.',
    })
  }
  pageLists[directory] ??= new PageList(directory)
  return pageLists[directory]
}

/** Mantine adds style elements, which need the nonce. Scripts are files of this server only. */
function securityPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ')
}

function pageEndpoint(path: string, handle: ReplyingEndpoint['handle']): Endpoint {
  return {
    method: 'GET',
    path,
    access: 'open',
    doc: {
      operationId: `page ${path}`,
      summary: 'Get the console',
      description: 'Returns the page of the console or a file of it.',
      tag: 'Service',
      isHidden: true,
      response: { contentType: 'text/html', schema: z.string(), description: 'The page.' },
    },
    handle,
  }
}
