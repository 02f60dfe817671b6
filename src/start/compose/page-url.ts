import type { FastifyRequest } from 'fastify'
import { headerValues } from '../../base/runtime/header-list.ts'

/**
 * Returns a function that turns the path of a page into a URL for the person who asks. That person reads the answer, so
 * the Host that the browser sent is right. Mails never use it.
 */
export function pageUrl(publicBaseUrl: string | null): (request: FastifyRequest, path: string) => string {
  return ({ raw }, path) => `${publicBaseUrl ?? `http://${headerValues(raw.rawHeaders, 'host')[0]}`}${path}`
}
